"""Hosts that each misbehave in one way, byte for byte the same every time."""

import gzip
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import repeat

from origin.seeded import Prose
from origin.web import HostRules, Kind, Web
from origin.wire import HTML, Answer, Request, busy, chunked, html, not_found, plain, redirect

_PAGE = "<!doctype html>\n<html lang=en><title>{name}</title>\n<h1>{name}</h1>\n<p>{prose}</p>\n</html>\n"
_NOT_ROBOTS = "<!doctype html>\n<title>Sorry</title>\n<p>Nothing here says who may do what.\nDisallow: /\n"
_SILENCE_SECONDS = 3600.0
_CHUNK_SIZES = (1, 10, 255, 256, 1000)
_BIG_ROBOTS_BYTES = 2 << 20
_PARSED_BYTES = 500 << 10


@dataclass(frozen=True, slots=True)
class _Habit:
    """How a host behaves. `page` and `robots` get the body and the number of earlier requests of that sort."""

    page: Callable[[bytes, int], Answer] = lambda body, _: html(body.decode())
    robots: Callable[[HostRules, int], Answer] = lambda rules, _: plain(rules.robots_text())
    rules: HostRules = field(default_factory=HostRules)
    root: Kind = "page"
    more: tuple[tuple[str, Kind], ...] = ()


def _raw(head: bytes, *steps: bytes | float) -> Answer:
    return Answer(200, raw=(b"HTTP/1.1 200 OK\r\n" + HTML + head + b"\r\n", *steps), close=True)


def _length(count: int) -> bytes:
    return b"Content-Length: %d\r\n" % count


def _chunked(body: bytes, _: int) -> Answer:
    return _raw(b"Transfer-Encoding: chunked\r\n", chunked(body, sizes=_CHUNK_SIZES))


def _gzipped(body: bytes, _: int) -> Answer:
    packed = gzip.compress(body, 6, mtime=0)
    return _raw(b"Content-Encoding: gzip\r\n" + _length(len(packed)), packed)


def _cut(body: bytes, _: int) -> Answer:
    return _raw(_length(len(body)), body[: len(body) // 2])


def _cut_gzip(body: bytes, _: int) -> Answer:
    """The framing is whole, the gzip stream is not: only the decoder can tell."""
    packed = gzip.compress(body, 6, mtime=0)
    half = packed[: len(packed) // 2]
    return _raw(b"Content-Encoding: gzip\r\n" + _length(len(half)), half)


def _cut_chunked(body: bytes, _: int) -> Answer:
    whole = chunked(body, sizes=_CHUNK_SIZES)
    return _raw(b"Transfer-Encoding: chunked\r\n", whole[: len(whole) // 2])


def _endless(body: bytes, _: int) -> Answer:
    head = b"HTTP/1.1 200 OK\r\n" + HTML + b"\r\n"
    return Answer(200, raw=_chain(head, repeat(body * 8)), close=True)


def _drip(body: bytes, _: int) -> Answer:
    head = b"HTTP/1.1 200 OK\r\n" + HTML + _length(len(body)) + b"\r\n"
    drops = (step for at in range(len(body)) for step in (1.0, body[at : at + 1]))
    return Answer(200, raw=_chain(head, drops), close=True)


def _header_bomb(body: bytes, _: int) -> Answer:
    lines = b"".join(b"X-Bomb-%06d: %b\r\n" % (index, b"b" * 1000) for index in range(2000))
    return _raw(lines + _length(len(body)), body)


def _bare_status(body: bytes, _: int) -> Answer:
    return Answer(200, raw=(b"HTTP/1.1 200\r\n" + HTML + _length(len(body)) + b"\r\n" + body,), close=True)


def _http_0_9(body: bytes, _: int) -> Answer:
    return Answer(200, raw=(body,), close=True)


def _silent(_body: object, _: int) -> Answer:
    return Answer(0, raw=(_SILENCE_SECONDS,), close=True)


def _refused_slowly(body: bytes, earlier: int) -> Answer:
    """Retry-After at once, its body much later: the wait must be known before the body is."""
    if earlier:
        return html(body.decode())
    head = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\n" + _length(5) + b"\r\n"
    return Answer(503, raw=(head, 1.5, b"busy\n"), retry_after_seconds=2.0, close=True)


def _later(answer: Answer) -> Callable[[bytes, int], Answer]:
    """`answer` first, the page ever after."""
    return lambda body, earlier: html(body.decode()) if earlier else answer


def _chain(head: bytes, steps: Iterator[bytes | float]) -> Iterator[bytes | float]:
    yield head
    yield from steps


def _big_robots(rules: HostRules, _: int) -> Answer:
    """The rules first, then comments up to 2 MB; what lies behind 500 KiB need not be read."""
    start = rules.robots_text()
    assert len(start) < _PARSED_BYTES
    filler = "# nothing to see on this line, nor on any other of the many like it\n"
    return plain(start + filler * (_BIG_ROBOTS_BYTES // len(filler)))


def _hops(count: int) -> HostRules:
    """A robots.txt behind `count` redirects; more than five are too many (RFC 9309, 2.3.1.2 asks for five)."""
    paths = ("/robots.txt", *(f"/robots-{hop}.txt" for hop in range(1, count + 1)))
    return HostRules(disallowed=("/private/",), robots_paths=paths, robots_licenses=count <= 5)


_PRIVATE: tuple[tuple[str, Kind], ...] = (("/private/", "denied"),)
_UNLICENSED_RULES = HostRules(robots_licenses=False)

HABITS: dict[str, _Habit] = {
    "robots-500": _Habit(
        robots=lambda _rules, _n: plain("broken\n", status=500), rules=_UNLICENSED_RULES, root="unlicensed"
    ),
    "robots-timeout": _Habit(robots=_silent, rules=_UNLICENSED_RULES, root="unlicensed"),
    "robots-429": _Habit(robots=lambda _rules, _n: busy(60, status=429), rules=_UNLICENSED_RULES, root="unlicensed"),
    "robots-chain-5": _Habit(rules=_hops(5), more=_PRIVATE),
    "robots-chain-6": _Habit(rules=_hops(6), root="unlicensed"),
    "robots-404": _Habit(robots=lambda _rules, _n: not_found()),
    "robots-2mb": _Habit(robots=_big_robots, rules=HostRules(disallowed=("/private/",)), more=_PRIVATE),
    "retry-seconds": _Habit(page=_later(busy(2))),
    "retry-date": _Habit(page=_later(busy(2, form="date"))),
    "retry-429": _Habit(page=_later(busy(2, status=429))),
    "retry-slow-body": _Habit(page=_refused_slowly),
    "crawl-delay": _Habit(rules=HostRules(crawl_delay_seconds=1.5), more=(("/two", "page"), ("/three", "page"))),
    "chunked": _Habit(page=_chunked),
    "gzip": _Habit(page=_gzipped),
    "cut-body": _Habit(page=_cut, root="truncated"),
    "cut-chunked": _Habit(page=_cut_chunked, root="truncated"),
    "cut-gzip": _Habit(page=_cut_gzip, root="truncated"),
    "endless": _Habit(page=_endless, root="truncated"),
    "drip": _Habit(page=_drip, root="truncated"),
    "header-bomb": _Habit(page=_header_bomb, root="hostile"),
    "bare-status": _Habit(page=_bare_status),
    "http-0.9": _Habit(page=_http_0_9, root="failed"),
    "silent": _Habit(page=_silent, root="hostile"),
    "robots-html": _Habit(robots=lambda _rules, _n: html(_NOT_ROBOTS)),
    "robots-403": _Habit(robots=lambda _rules, _n: plain("no\n", status=403)),
}


class RudeWeb(Web):
    """One host for each way of misbehaving, in robots.txt, in waiting times, in framing; see `HABITS`.

    `host("cut-body")` is the address of the host with that habit. Bodies are the same bytes in every run.
    """

    name = "rude"

    def __init__(self, *, seed: int, port: int, page_bytes: int = 3000) -> None:
        super().__init__(seed=seed, port=port)
        self._names = {f"127.0.2.{1 + place}": name for place, name in enumerate(HABITS)}
        self._addresses = {name: address for address, name in self._names.items()}
        self._prose = Prose(seed).paragraph(seed, page_bytes)
        self._answered: Counter[tuple[str, bool]] = Counter()

    def host(self, habit: str) -> str:
        """The address of the host with this habit. KeyError if there is none."""
        return self._addresses[habit]

    def body(self, host: str) -> bytes:
        """The HTML that every page of a host holds, before framing and coding."""
        habit = HABITS[self._names[host]]
        links = "".join(f'<p><a href="{target}">{target}</a></p>\n' for target, _ in habit.more)
        page = _PAGE.format(name=self._names[host], prose=self._prose)
        return page.replace("</html>", links + "</html>").encode()

    def seeds(self) -> tuple[str, ...]:
        """The root of every host."""
        return tuple(self.url(host) for host in self._names)

    def rules(self, host: str) -> HostRules:
        """The rules that belong to the habit."""
        return HABITS[self._names[host]].rules if host in self._names else HostRules()

    def expected(self) -> dict[str, Kind]:
        """The root of every host, and what roots link to."""
        return {
            self.url(host, target): kind
            for host, name in self._names.items()
            for target, kind in (("/", HABITS[name].root), *HABITS[name].more)
        }

    def answer(self, request: Request) -> Answer:
        """What the host's habit makes of the request."""
        name = self._names.get(request.host)
        if name is None:
            return plain("no such host\n", status=404)
        habit = HABITS[name]
        if request.path in habit.rules.robots_paths:
            return self._robots(name, habit, habit.rules.robots_paths.index(request.path))
        if request.target != "/" and request.target not in dict(habit.more):
            return not_found()
        return habit.page(self.body(request.host), self._earlier(name, robots=False))

    def _robots(self, name: str, habit: _Habit, hop: int) -> Answer:
        if hop + 1 < len(habit.rules.robots_paths):
            return redirect(habit.rules.robots_paths[hop + 1])
        return habit.robots(habit.rules, self._earlier(name, robots=True))

    def _earlier(self, name: str, *, robots: bool) -> int:
        self._answered[name, robots] += 1
        return self._answered[name, robots] - 1

"""The web on which crawlers are killed: every page has one way in, so that nothing lost can go unnoticed."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from origin.seeded import Prose, number
from origin.web import HostRules, Kind, Web
from origin.wire import HTML, Answer, Request, busy, chunked, html, html_gzip, not_found, plain, redirect

_BRANCHES = 3
_SMALL_HOST_PAGES = 20
_ROLES = ("busy", "slow", "delayed", "delayed")


@dataclass(frozen=True, slots=True)
class _Host:
    name: str
    index: int
    pages: int
    role: str


class KillWeb(Web):
    """A tree of pages over many hosts, with redirects, dead links, disallowed links, slow, delayed and busy hosts.

    Three pages of four are linked by their parent and their children only, some of them through redirects, so a
    single URL lost takes its whole subtree along; the fourth is popular and found many times over. Root pages
    link the roots of further hosts: the first seed suffices when scope allows other hosts. With four hosts or
    more the last ones have roles: one answers its first `busy_answers` page requests with 503 and Retry-After,
    one is slow, two ask for a crawl-delay.
    """

    name = "kill"

    def __init__(
        self,
        *,
        seed: int,
        port: int,
        pages: int = 2400,
        hosts: int = 24,
        latency_ms: float = 4.0,
        crawl_delay_seconds: float = 0.2,
        busy_answers: int = 3,
        retry_after_seconds: float = 2.0,
        slow_ms: float = 150.0,
        page_bytes: int = 1500,
        one_seed: bool = False,
    ) -> None:
        super().__init__(seed=seed, port=port)
        self._latency_ms = latency_ms
        self._crawl_delay_seconds = crawl_delay_seconds
        self._busy_answers = busy_answers
        self._retry_after_seconds = retry_after_seconds
        self._slow_ms = slow_ms
        self._page_bytes = page_bytes
        self._one_seed = one_seed
        self._prose = Prose(seed)
        self._hosts = _share_out(pages, hosts)
        self._by_name = {host.name: host for host in self._hosts}
        self._refused: Counter[str] = Counter()

    def seeds(self) -> tuple[str, ...]:
        """The root of every host, or of the first only with `one_seed`."""
        hosts = self._hosts[:1] if self._one_seed else self._hosts
        return tuple(self.url(host.name) for host in hosts)

    def rules(self, host: str) -> HostRules:
        """One disallowed folder everywhere; crawl-delay on the hosts with that role."""
        known = self._by_name.get(host)
        delay = self._crawl_delay_seconds if known and known.role == "delayed" else 0.0
        return HostRules(disallowed=("/private/",), crawl_delay_seconds=delay)

    def expected(self) -> dict[str, Kind]:
        """All pages, and everything else that a page links to."""
        return {
            self.url(host.name, target): kind
            for host in self._hosts
            for page in range(host.pages)
            for target, kind in [(_page_path(page), "page"), *self._extras(host, page)]
        }

    def _extras(self, host: _Host, page: int) -> Iterator[tuple[str, Kind]]:
        """What a page causes to exist besides itself: the hops that lead to it, and its bad links."""
        for hop in self._hops(host, page):
            yield hop, "redirect"
        if self._chance(host, page, "missing") < 0.08:
            yield f"/missing/{page}.html", "gone"
        if self._chance(host, page, "private") < 0.12:
            yield f"/private/{page}.html", "denied"

    def _hops(self, host: _Host, page: int) -> tuple[str, ...]:
        """The redirects through which alone a page is linked; none for most pages."""
        chance = self._chance(host, page, "hops") if page else 1.0
        return (f"/go/{page}", f"/via/{page}")[: (chance < 0.08) + (chance < 0.03)]

    def _chance(self, host: _Host, page: int, what: str) -> float:
        return number(self.seed, host.index, page, what) / 2**64

    def answer(self, request: Request) -> Answer:
        """A page, a hop, or not found; busy and slow as the host's role says."""
        host = self._by_name.get(request.host)
        if host is None:
            return plain("no such host\n", status=404)
        delay_seconds = self._delay_seconds(host, request.target)
        if request.target == "/robots.txt":
            return plain(self.rules(host.name).robots_text(), delay_seconds=delay_seconds)
        if host.role == "busy" and self._refused[host.name] < self._busy_answers:
            self._refused[host.name] += 1
            return busy(self._retry_after_seconds)
        return self._content(host, request, delay_seconds)

    def _delay_seconds(self, host: _Host, target: str) -> float:
        mean_ms = self._slow_ms if host.role == "slow" else self._latency_ms
        return mean_ms / 1e3 * (0.5 + number(self.seed, host.index, target, "delay") / 2**64)

    def _content(self, host: _Host, request: Request, delay_seconds: float) -> Answer:
        kind, _, name = request.path[1:].partition("/")
        digits = name.removesuffix(".html")
        page = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else -1
        if request.target == "/" or (request.target == _page_path(page) and 0 < page < host.pages):
            return self._page(host, max(page, 0), request, delay_seconds)
        hops = self._hops(host, page) if 0 < page < host.pages else ()
        if request.target in hops:
            following = [*hops, _page_path(page)][hops.index(request.target) + 1]
            return redirect(following, status=301 if page % 2 else 302, delay_seconds=delay_seconds)
        status = 410 if kind == "missing" and page % 3 == 0 else 404
        return not_found(status=status, delay_seconds=delay_seconds)

    def _page(self, host: _Host, page: int, request: Request, delay_seconds: float) -> Answer:
        text = self._html(host, page)
        if page % 5 == 2:
            wire = b"HTTP/1.1 200 OK\r\n" + HTML + b"Transfer-Encoding: chunked\r\n\r\n"
            return Answer(200, raw=(delay_seconds, wire + chunked(text.encode(), sizes=(700, 1, 333))))
        make = html_gzip if request.offers_gzip and page % 2 else html
        return make(text, delay_seconds=delay_seconds)

    def _html(self, host: _Host, page: int) -> str:
        title = f"Page {page} of {host.name}"
        links = self._links(host, page)
        share = max(40, self._page_bytes // (len(links) + 1))
        prose = self._prose.paragraph
        body = "\n".join(
            f'<p>{prose(number(self.seed, host.index, page, at), share)} <a href="{escape(link)}">Link {at}</a></p>'
            for at, link in enumerate(links)
        )
        return f"<!doctype html>\n<html lang=en><title>{title}</title>\n<h1>{title}</h1>\n{body}\n</html>\n"

    def _links(self, host: _Host, page: int) -> list[str]:
        children = range(_BRANCHES * page + 1, min(_BRANCHES * page + _BRANCHES + 1, host.pages))
        links = [(self._hops(host, child) or (_page_path(child),))[0] for child in children]
        links += [target for target, kind in self._extras(host, page) if kind in ("gone", "denied")]
        links.append(f"{_page_path(max(0, page - 1) // _BRANCHES)}#section-{page}")
        links += self._popular(host, page)
        if page == 0:
            further = range(_BRANCHES * host.index + 1, _BRANCHES * host.index + _BRANCHES + 1)
            links += [self.url(self._hosts[index].name) for index in further if index < len(self._hosts)]
        return links

    def _popular(self, host: _Host, page: int) -> list[str]:
        """A random popular page; one behind a hop keeps its single way in."""
        choice = number(self.seed, host.index, page, "popular")
        other = self._hosts[choice % len(self._hosts)]
        target = (choice >> 32) % other.pages // 4 * 4 + 3
        return [self.url(other.name, _page_path(target))] if self._is_popular(other, target) else []

    def _is_popular(self, host: _Host, page: int) -> bool:
        return page < host.pages and not self._hops(host, page)


def _page_path(page: int) -> str:
    return f"/page/{page}.html" if page else "/"


def _share_out(pages: int, hosts: int) -> tuple[_Host, ...]:
    """Hosts with a role get few pages, since each of them takes long; the others share the rest evenly."""
    roles = {hosts - 1 - place: role for place, role in enumerate(_ROLES)} if hosts >= len(_ROLES) else {}
    plain_hosts = hosts - len(roles) or 1
    small = min(_SMALL_HOST_PAGES, pages // hosts)
    each, left_over = divmod(pages - small * len(roles), plain_hosts)
    sizes = [small if index in roles else each + (index < left_over) for index in range(hosts)]
    names = [f"127.0.{1 + index // 250}.{1 + index % 250}" for index in range(hosts)]
    return tuple(_Host(names[index], index, sizes[index], roles.get(index, "plain")) for index in range(hosts))

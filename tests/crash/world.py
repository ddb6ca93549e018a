"""A small web for rehearsals, and what a crawl of it must end with. Knows nothing of how Limpet works."""

from collections.abc import Callable

import msgspec

from limpet.fetch import FetchRequest
from limpet.testing.web import FakeAnswer, FakeWeb, Visit

HTML = (b"Content-Type", b"text/html; charset=utf-8")
RETRY_AFTER_SECONDS = 3
CRAWL_DELAY_SECONDS = 2.0


class Host(msgspec.Struct, kw_only=True):
    """One host: paths -> linked URLs, and its rules as data (the checkers need no parser)."""

    name: str
    pages: dict[str, tuple[str, ...]]
    redirects: dict[str, str] = {}
    missing: tuple[str, ...] = ()
    disallowed: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()  # the first answer is 503 with Retry-After
    flaky: tuple[str, ...] = ()  # the first answer is 500
    crawl_delay_seconds: float = 0.0
    robots_status: int = 200

    @property
    def gap_seconds(self) -> float:
        """The least time between the end of a response and the next request."""
        return max(1.0, self.crawl_delay_seconds)

    def robots(self) -> bytes:
        """robots.txt as served."""
        lines = ["User-agent: *", *(f"Disallow: {prefix}" for prefix in self.disallowed)]
        if self.crawl_delay_seconds:
            lines.append(f"Crawl-delay: {self.crawl_delay_seconds:g}")
        return ("\n".join(lines) + "\n").encode()


def small_web() -> list[Host]:
    """Two hosts that link to each other, with one of everything that may go differently."""
    return [
        Host(
            name="alpha.test",
            pages={
                "/": ("/one", "/two", "/private/x", "/gone", "/moved", "http://beta.test/"),
                "/one": ("/", "/three?q=1#f"),
                "/two": ("/busy", "/one"),
                "/three?q=1": ("http://beta.test/deep",),
                "/busy": ("/three?q=1",),
            },
            redirects={"/moved": "/two"},
            missing=("/gone",),
            disallowed=("/private",),
            busy=("/busy",),
        ),
        Host(
            name="beta.test",
            pages={"/": ("/flaky", "http://alpha.test/one"), "/deep": ("/",), "/flaky": ("/deep",)},
            flaky=("/flaky",),
            crawl_delay_seconds=CRAWL_DELAY_SECONDS,
        ),
    ]


def body_of(host: Host, path: str) -> bytes:
    """The page at `path`, the same at every visit."""
    links = "".join(f'<a href="{target}">{target}</a>\n' for target in host.pages[path])
    return f"<!DOCTYPE html><title>{host.name}{path}</title>\n{links}".encode()


def serve(web: FakeWeb, hosts: list[Host], history: list[Visit]) -> None:
    """Route the hosts on `web`; `history` is what earlier incarnations were served."""

    def visits(url: str) -> int:
        return sum(visit.url == url for visit in [*history, *web.log])

    for host in hosts:
        web.route(host.name, _handler(host, visits))


def _handler(host: Host, visits: Callable[[str], int]) -> Callable[[FetchRequest, int], FakeAnswer]:
    def handle(request: FetchRequest, _now_us: int) -> FakeAnswer:
        path = request.url.removeprefix(f"http://{host.name}")
        first = visits(request.url) <= 1
        if path == "/robots.txt":
            return FakeAnswer(status=host.robots_status, body=host.robots())
        if path in host.redirects:
            return FakeAnswer(status=302, headers=((b"Location", host.redirects[path].encode()),))
        if path in host.busy and first:
            return FakeAnswer(status=503, headers=((b"Retry-After", str(RETRY_AFTER_SECONDS).encode()),))
        if path in host.flaky and first:
            return FakeAnswer(status=500)
        if path in host.pages:
            return FakeAnswer(headers=(HTML,), body=body_of(host, path))
        return FakeAnswer(status=404)

    return handle


def expected_states(hosts: list[Host]) -> dict[str, str]:
    """url -> state that every admissible URL must end in."""
    states: dict[str, str] = {}
    for host in hosts:
        base = f"http://{host.name}"
        states |= {base + path: "fetched" for path in (*host.pages, *host.redirects)}
        states |= {base + path: "gone" for path in host.missing}
        for links in host.pages.values():
            states |= {base + link: "denied" for link in links if link.startswith(tuple(host.disallowed) or ("\0",))}
    return states

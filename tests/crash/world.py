"""Small webs for rehearsals, and what a crawl of each must end with. Knows nothing of how Limpet works."""

import math
from collections.abc import Callable
from email.utils import formatdate

import msgspec

from limpet.config import ScopeFacts, Settings
from limpet.config.settings import Politeness, Retries, Rules, Work
from limpet.fetch import FetchRequest
from limpet.fetch.port import NetFailure
from limpet.testing.web import FakeAnswer, FakeWeb

HTML = (b"Content-Type", b"text/html; charset=utf-8")
RETRY_AFTER_SECONDS = 14  # longer than the hold after a death, so that forgetting it shows
FAST_SECONDS = 0.05
SLOW_SECONDS = 29.0
ALWAYS = 1_000_000
WIDE_PAGES = 25
SETTINGS = Settings(
    politeness=Politeness(floor_seconds=1.0, latency_multiple=5.0),
    retries=Retries(base_seconds=2.0, factor=2.0),
    rules=Rules(host_urls_max=1_000),
    work=Work(lease_seconds=600.0, commit_interval_seconds=0.0, reconcile_seconds=5.0, republish_grace_seconds=1.0),
    min_free_bytes=0,
)

State = tuple[str, str]
"""(state, reason) of a row."""


class Host(msgspec.Struct, kw_only=True):
    """One host: paths -> linked URLs, and everything else it does as data (the checkers need no parser)."""

    name: str
    pages: dict[str, tuple[str, ...]] = {}
    documents: dict[str, tuple[str, str]] = {}  # path -> (media type, body), for what is more than a list of links
    sitemaps: tuple[str, ...] = ()  # named by robots.txt
    redirects: dict[str, str] = {}
    missing: tuple[str, ...] = ()
    disallowed: tuple[str, ...] = ()  # prefixes
    busy: tuple[str, ...] = ()  # pages whose first answer is 503 with Retry-After
    flaky: tuple[str, ...] = ()  # pages whose first answer is 500
    cut: tuple[str, ...] = ()  # pages whose body breaks off in the middle, always
    refused: tuple[str, ...] = ()  # no connection, always
    parked: tuple[str, ...] = ()  # links beyond the host's cap
    rejected: tuple[str, ...] = ()  # links that a rule turns away
    crawl_delay_seconds: float = 0.0
    slow: tuple[str, ...] = ()  # pages whose answer takes nearly as long as it may
    latency_seconds: float = FAST_SECONDS
    retry_after_seconds: int = RETRY_AFTER_SECONDS
    retry_after_as_date: bool = False
    robots_busy: bool = False  # the first answer to robots.txt is 503 with Retry-After
    robots_at: str = ""  # robots.txt redirects there
    disallowed_before: tuple[str, ...] | None = None  # what it said on an earlier day, if it changed

    @property
    def base(self) -> str:
        """What every URL of the host begins with."""
        return f"http://{self.name}"

    @property
    def served(self) -> frozenset[str]:
        """The paths that have a body."""
        return frozenset((*self.pages, *self.documents))

    @property
    def is_shut(self) -> bool:
        """Whether robots.txt cannot be had."""
        return "/robots.txt" in self.refused

    def robots(self, disallowed: tuple[str, ...] | None = None) -> bytes:
        """robots.txt as served, or as it would be with other rules."""
        prefixes = self.disallowed if disallowed is None else disallowed
        lines = ["User-agent: *", *(f"Disallow: {prefix}" for prefix in prefixes)]
        if self.crawl_delay_seconds:
            lines.append(f"Crawl-delay: {self.crawl_delay_seconds:g}")
        lines += [f"Sitemap: {sitemap}" for sitemap in self.sitemaps]
        return ("\n".join(lines) + "\n").encode()

    def is_disallowed(self, path: str) -> bool:
        """Whether the rules forbid a path."""
        return path.startswith(tuple(self.disallowed)) if self.disallowed else False


class World(msgspec.Struct, kw_only=True):
    """Some hosts, where a crawl of them begins, and what the archive's disk does to readers."""

    name: str
    hosts: list[Host]
    seeds: tuple[str, ...]
    settings: Settings = SETTINGS
    scope: ScopeFacts = ScopeFacts(kind="any")
    bad_reads: dict[str, int] = {}  # URL -> how often its record comes back damaged
    deadly_bodies: tuple[str, ...] = ()  # URLs whose bodies kill the parser
    deadly_urls: tuple[str, ...] = ()  # URLs that kill whoever asks for them

    @property
    def by_name(self) -> dict[str, Host]:
        """The hosts by their names."""
        return {host.name: host for host in self.hosts}


def small_web() -> World:
    """Two hosts that link to each other, with one of everything that a crawl meets on any day."""
    return World(
        name="small",
        seeds=("http://alpha.test/",),
        hosts=[
            Host(
                name="alpha.test",
                pages={
                    "/": ("/one", "/two", "/private/x", "/gone", "/moved", "/a/a/a/a/a", "http://beta.test/"),
                    "/one": ("/", "/three?q=1#f"),
                    "/two": ("/busy", "/one"),
                    "/three?q=1": ("http://beta.test/deep",),
                    "/busy": ("/three?q=1",),
                },
                redirects={"/moved": "/two"},
                missing=("/gone",),
                disallowed=("/private",),
                busy=("/busy",),
                rejected=("/a/a/a/a/a",),
            ),
            Host(
                name="beta.test",
                pages={"/": ("/flaky", "http://alpha.test/one"), "/deep": ("/",), "/flaky": ("/deep",)},
                flaky=("/flaky",),
                crawl_delay_seconds=2.0,
            ),
        ],
    )


def rough_web() -> World:
    """Hosts that give trouble: cut bodies, refused connections, too many URLs, records that read badly."""
    return World(
        name="rough",
        seeds=("http://gamma.test/",),
        settings=msgspec.structs.replace(SETTINGS, rules=Rules(host_urls_max=4)),
        bad_reads={"http://theta.test/once": 1, "http://theta.test/never": ALWAYS},
        hosts=[
            Host(name="gamma.test", redirects={"/": "http://www.gamma.test/"}),
            Host(
                name="www.gamma.test",
                pages={
                    "/": (
                        "http://zeta.test/cut",
                        "http://zeta.test/refused",
                        "http://theta.test/once",
                        "http://theta.test/never",
                        "http://crowd.test/",
                        "http://slow.test/",
                    )
                },
            ),
            Host(name="zeta.test", pages={"/cut": ()}, cut=("/cut",), refused=("/refused",)),
            Host(name="theta.test", pages={"/once": ("/after",), "/never": (), "/after": ()}),
            Host(
                name="crowd.test",
                pages={"/": ("/1", "/2", "/3", "/4", "/5"), "/1": (), "/2": (), "/3": ()},
                parked=("/4", "/5"),
            ),
            Host(name="slow.test", pages={"/": ("/again",), "/again": ()}, crawl_delay_seconds=7.0),
        ],
    )


def refusing_web() -> World:
    """robots.txt in trouble: one host answers 503 at first, another keeps its rules on a third."""
    return World(
        name="refusing",
        seeds=("http://delta.test/", "http://epsilon.test/", "http://eta.test/"),
        hosts=[
            Host(name="delta.test", pages={"/": ("/next",), "/next": ()}, robots_busy=True),
            Host(
                name="epsilon.test",
                pages={"/": ("/private", "http://eta.test/")},
                disallowed=("/private",),
                robots_at="http://eta.test/rules",
            ),
            Host(name="eta.test", pages={"/": (), "/rules": ()}, crawl_delay_seconds=3.0),
        ],
    )


def changing_web(day: int) -> World:
    """A host whose robots.txt forbids something on day 1 and nothing any more on day 2, when one more URL is added."""
    before = ("/private",)
    links = ("/private/x", "/open")
    shown = {"/private/x": ("/private/y",), "/private/y": ()} if day == 2 else {}
    kappa = Host(
        name="kappa.test",
        pages={"/": links, "/open": (), **shown, **({"/extra": ()} if day == 2 else {})},
        disallowed=before if day == 1 else (),
        disallowed_before=before if day == 2 else None,
    )
    return World(
        name=f"changing, day {day}", seeds=("http://kappa.test/" + ("extra" if day == 2 else ""),), hosts=[kappa]
    )


def wide_web() -> World:
    """One host with so many pages that there is always one to send."""
    names = tuple(f"/{number}" for number in range(WIDE_PAGES))
    pages = {"/": names, **dict.fromkeys(names, ("/", f"/{WIDE_PAGES - 1}"))}
    return World(name="wide", seeds=("http://lambda.test/",), hosts=[Host(name="lambda.test", pages=pages)])


def deadly_web() -> World:
    """One body kills the parser, one URL kills the crawl node; the others must not suffer for it."""
    base = "http://mu.test"
    pages = {"/": ("/body", "/url", "/good"), "/body": (), "/url": (), "/good": ("/better",), "/better": ()}
    return World(
        name="deadly",
        seeds=(f"{base}/",),
        hosts=[Host(name="mu.test", pages=pages)],
        deadly_bodies=(f"{base}/body",),
        deadly_urls=(f"{base}/url",),
    )


def sluggish_web() -> World:
    """Answers that take half a minute, all of a sudden, and with them the gap: a lease does not last for many."""
    names = tuple(f"/{number}" for number in range(6))
    pages = {"/": names, **dict.fromkeys(names, ())}
    work = msgspec.structs.replace(SETTINGS.work, lease_seconds=200.0)
    return World(
        name="sluggish",
        seeds=("http://nu.test/",),
        settings=msgspec.structs.replace(SETTINGS, work=work),
        hosts=[Host(name="nu.test", pages=pages, slow=names)],
    )


def shut_web() -> World:
    """A host whose robots.txt can never be had: it refuses connections."""
    return World(
        name="shut",
        seeds=("http://iota.test/", "http://iota.test/other"),
        hosts=[Host(name="iota.test", pages={"/": (), "/other": ()}, refused=("/robots.txt",))],
    )


def dying_web() -> World:
    """Three sites that have a robots.txt to give, and then nothing more."""
    hosts = [Host(name=f"{name}.test", refused=("/page",)) for name in ("sampi", "koppa", "digamma")]
    return World(name="dying", seeds=tuple(f"{host.base}/page" for host in hosts), hosts=hosts)


def whole_web() -> World:
    """Pages with all that they need on another host, sitemaps that robots.txt names, and links that patterns keep out.

    What is two steps from a page is fetched off scope too, what is three steps away is not.
    """
    page = (
        '<link rel=stylesheet href="/style.css"><img src="http://cdn.test/i.png" srcset="/small.png 1x, /i.png?2 2x">'
        '<a href="/deep">deep</a><a href="/never/x">never</a><a href="http://cdn.test/">elsewhere</a>'
    )
    places = ("/listed", "/never/y", "http://cdn.test/page")
    entries = "".join(f"<url><loc>{place}</loc></url>" for place in places)
    xi = Host(
        name="xi.test",
        pages={"/deep": ("/",), "/listed": ()},
        documents={
            "/": ("text/html", page),
            "/style.css": ("text/css", '@import "http://cdn.test/more.css"; p { background: url(/dot.png) }'),
            "/small.png": ("image/png", "small"),
            "/i.png?2": ("image/png", "large"),
            "/dot.png": ("image/png", "dot"),
            "/index.xml": ("application/xml", "<sitemapindex><sitemap><loc>/list.xml</loc></sitemap></sitemapindex>"),
            "/list.xml": ("application/xml", f"<urlset>{entries}</urlset>"),
        },
        sitemaps=("http://xi.test/index.xml", "http://cdn.test/index.xml"),
        rejected=("/never/x", "/never/y"),
    )
    cdn = Host(
        name="cdn.test",
        documents={
            "/more.css": ("text/css", "@import url(far.css);"),
            "/j.png": ("image/png", "moved"),
        },
        redirects={"/i.png": "/j.png"},
        rejected=("/", "/page", "/index.xml", "/far.css"),
        crawl_delay_seconds=2.0,
    )
    return World(
        name="whole",
        seeds=("http://xi.test/",),
        scope=ScopeFacts(kind="host", requisites=True, extras=True, exclude=("/never/",)),
        hosts=[xi, cdn],
    )


def nearing_web() -> World:
    """A limit of depth, and a short cut over a slow host: what was found the long way round turns out to be nearer."""
    short_cut = "http://pi.test/short"
    pages = {"/": ("/a", short_cut), "/a": ("/b",), "/b": ("/x",), "/x": ("/y",), "/y": ("/z",)}
    return World(
        name="nearing",
        seeds=("http://omicron.test/",),
        scope=ScopeFacts(kind="any", depth_max=3),
        hosts=[
            Host(name="omicron.test", pages=pages, rejected=("/z",)),
            Host(name="pi.test", pages={"/short": ("http://omicron.test/x",)}, crawl_delay_seconds=20.0),
        ],
    )


def worlds() -> list[World]:
    """Every world."""
    return [small_web(), rough_web(), refusing_web(), whole_web(), nearing_web()]


def body_of(host: Host, path: str) -> bytes:
    """The page at `path`, the same at every visit."""
    if path in host.documents:
        return host.documents[path][1].encode()
    links = "".join(f'<a href="{target}">{target}</a>\n' for target in host.pages[path])
    return f"<!DOCTYPE html><title>{host.name}{path}</title>\n{links}".encode()


# -- serving -----------------------------------------------------------------------------------------------------------
Visits = Callable[[str], int]
"""URL -> how often it was asked for, the request at hand included."""


def serve(web: FakeWeb, world: World, visits: Visits, now: Callable[[], float]) -> None:
    """Route the world's hosts on `web`. `now` is the sites' own clock, in seconds of the Unix epoch."""
    for host in world.hosts:
        web.route(host.name, _handler(world, host, visits, now))


def _handler(
    world: World, host: Host, visits: Visits, now: Callable[[], float]
) -> Callable[[FetchRequest, int], FakeAnswer]:
    def handle(request: FetchRequest, _now_us: int) -> FakeAnswer:
        path = request.url.removeprefix(host.base)
        answer = _answer(world, host, path, first=visits(request.url) <= 1)
        if answer.status == 503:
            answer = msgspec.structs.replace(answer, headers=_retry_after(host, now()))
        return msgspec.structs.replace(
            answer, latency_seconds=SLOW_SECONDS if path in host.slow else host.latency_seconds
        )

    return handle


def _answer(world: World, host: Host, path: str, *, first: bool) -> FakeAnswer:
    if path in host.refused:
        return FakeAnswer(failure=NetFailure(kind="refused", detail="nobody listens"))
    if path == "/robots.txt":
        return _robots(host, first=first)
    if path in host.redirects:
        return FakeAnswer(status=302, headers=((b"Location", host.redirects[path].encode()),))
    if path in host.busy and first:
        return FakeAnswer(status=503)
    if path in host.flaky and first:
        return FakeAnswer(status=500)
    if path == "/rules":
        return FakeAnswer(body=next(other for other in world.hosts if other.robots_at == host.base + path).robots())
    if path not in host.served:
        return FakeAnswer(status=404)
    body = body_of(host, path)
    kind = (b"Content-Type", host.documents[path][0].encode()) if path in host.documents else HTML
    return FakeAnswer(headers=(kind,), body=body, sent_body_bytes=len(body) // 2 if path in host.cut else None)


def _robots(host: Host, *, first: bool) -> FakeAnswer:
    if host.robots_at:
        return FakeAnswer(status=302, headers=((b"Location", host.robots_at.encode()),))
    if host.robots_busy and first:
        return FakeAnswer(status=503)
    return FakeAnswer(body=host.robots())


def _retry_after(host: Host, now: float) -> tuple[tuple[bytes, bytes], ...]:
    """Retry-After in one of its two forms. A date has no use without the server's own (RFC 9110 section 6.6.1)."""
    seconds = host.retry_after_seconds
    if not host.retry_after_as_date:
        return ((b"Retry-After", str(seconds).encode()),)
    head_at = now + host.latency_seconds
    dates = (formatdate(math.ceil(at), usegmt=True).encode() for at in (head_at, head_at + seconds))
    return tuple(zip((b"Date", b"Retry-After"), dates, strict=True))


# -- what must come of it ----------------------------------------------------------------------------------------------
def expected_rows(world: World) -> dict[str, State]:
    """URL -> (state, reason) that its row must end in; no other rows may exist."""
    rows: dict[str, State] = {}
    for host in world.hosts:
        rows |= {host.base + path: ("fetched", "") for path in (*host.served, *host.redirects) if path != "/rules"}
        rows |= {host.base + path: ("fetched", "truncated") for path in host.cut}
        rows |= {host.base + path: ("gone", "http_404") for path in host.missing}
        rows |= {host.base + path: ("failed", "refused") for path in host.refused if path != "/robots.txt"}
        rows |= {host.base + path: ("parked", "host_cap") for path in host.parked}
        for link in [link for links in host.pages.values() for link in links if host.is_disallowed(link)]:
            rows[host.base + link] = ("denied", "")
        if host.is_shut:
            rows |= {host.base + path: ("failed", "robots_unreachable") for path in host.pages}
    return rows | dict.fromkeys(world.deadly_urls, ("review", "suspected_poison"))


def visits_planned(world: World) -> dict[str, int]:
    """URL -> requests that an undisturbed crawl sends."""
    planned: dict[str, int] = {}
    for host in world.hosts:
        once = (*host.served, *host.redirects, *host.missing, "/robots.txt")
        planned |= {host.base + path: 1 for path in once}
        planned |= {host.base + path: 2 for path in (*host.busy, *host.flaky)}
        planned |= {host.base + path: 3 for path in (*host.cut, *host.refused)}
        if host.robots_busy or host.disallowed_before is not None:
            planned[host.base + "/robots.txt"] = 2
        if host.is_shut:
            planned[host.base + "/robots.txt"] = ALWAYS
    return planned

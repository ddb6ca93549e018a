"""The small web that ships with the project: four sites, written by hand, with the usual oddities of the real one."""

import base64
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any
from urllib.parse import quote, unquote

from origin.web import HostRules, Kind, Web
from origin.wire import Answer, Request, html, not_found, plain, redirect

_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
_MOVES = {"/moved/1": "/moved/2", "/moved/2": "/moved/3", "/moved/3": "/prices.html"}
_CLOSED = {"station": ("/office/",), "library": ("/ledger/",)}
_DEAD = {"station": ("/shore/lamprey.html",), "workshop": ("/stores/anchors.html",)}
_LISTED, _SITEMAP = "library", "/sitemap.xml"
_SEGMENT_REPEATS_MAX = 3
_SESSIONS = 8
_STYLE = (
    "body{max-width:38em;margin:2em auto;font:18px/1.5 Georgia,serif;color:#222;background:#fbfaf6"
    " url(/paper.png)}\nh1{font-weight:normal}\na{color:#14506e}\n"
)
_PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+M8AAAMAAbZ2Z0kAAAAASUVORK5CYII=")


@dataclass(frozen=True, slots=True)
class _Page:
    host: str
    path: str
    title: str
    text: str
    charset: str = "utf-8"
    base: str = ""
    refresh: str = ""


class DemoWeb(Web):
    """About sixty pages on 127.0.0.2 to 127.0.0.5 about a shore, its tides, its library and its boats.

    Among them: disallowed folders that are linked to, a chain of three redirects, dead links, a meta refresh, a
    `<base>`, a page in windows-1251, a path outside ASCII, a large page, a calendar whose path grows by a
    repeated segment for ever, a visitors' book that hands out eight session ids in a ring, and a page that only the
    sitemap in a robots.txt names.
    """

    name = "demo"

    def __init__(self, *, seed: int, port: int) -> None:
        super().__init__(seed=seed, port=port)
        content = tomllib.loads(files("origin").joinpath("demo.toml").read_text(encoding="utf-8"))
        self._sites: dict[str, dict[str, str]] = content["hosts"]
        self._names = {site["address"]: name for name, site in self._sites.items()}
        self._pages = {(page.host, page.path): page for page in _pages(content["page"])}
        self._year = _year(seed)

    def seeds(self) -> tuple[str, ...]:
        """The front page of every site; the first alone leads everywhere if other hosts are in scope."""
        return tuple(self._site_url(name, "/") for name in self._sites)

    def _site_url(self, name: str, target: str) -> str:
        return self.url(self._sites[name]["address"], quote(target, safe="/?=#%"))

    def rules(self, host: str) -> HostRules:
        """Two of the sites have a folder of their own business."""
        return HostRules(disallowed=_CLOSED.get(self._names.get(host, ""), ()))

    def expected(self) -> dict[str, Kind]:
        """Everything that is linked, the calendar up to the first step that a crawler must refuse."""
        return {self._site_url(name, target): kind for name, target, kind in self._expected()}

    def _expected(self) -> Iterator[tuple[str, str, Kind]]:
        for host, path in self._pages:
            yield host, path, "denied" if path.startswith(_CLOSED.get(host, ("//",))) else "page"
        for name in self._sites:
            yield from ((name, path, "requisite") for path in ("/style.css", "/drawing.png", "/paper.png"))
        yield _LISTED, _SITEMAP, "requisite"
        yield from (("workshop", path, "redirect") for path in _MOVES)
        yield from ((name, path, "gone") for name, paths in _DEAD.items() for path in paths)
        yield "tides", "/year.html", "page"
        for turns in range(_SEGMENT_REPEATS_MAX + 1):
            yield "tides", "/calendar/" + "next/" * turns, "page"
        yield "tides", "/calendar/" + "next/" * (_SEGMENT_REPEATS_MAX + 1), "trap"
        yield from (("tides", f"/book?PHPSESSID={session}", "page") for session in range(_SESSIONS))

    def answer(self, request: Request) -> Answer:
        """A page, a move, a thing to look at, or not found."""
        name = self._names.get(request.host)
        if name is None:
            return plain("no such host\n", status=404)
        path = unquote(request.path)
        if path == "/robots.txt":
            return plain(self.rules(request.host).robots_text() + (self._sitemap_line() if name == _LISTED else ""))
        if path == _SITEMAP and name == _LISTED:
            return Answer(200, self._sitemap().encode(), b"Content-Type: application/xml\r\n")
        if page := self._pages.get((name, path)):
            return self._page(page)
        if name == "workshop" and path in _MOVES:
            return redirect(_MOVES[path], status=301)
        return self._odd(name, path, request) or _thing(path) or not_found()

    def _sitemap_line(self) -> str:
        return f"\nSitemap: {self._site_url(_LISTED, _SITEMAP)}\n"

    def _sitemap(self) -> str:
        """Every page of the site that may be visited."""
        paths = [path for host, path in self._pages if host == _LISTED and not path.startswith(_CLOSED[_LISTED])]
        entries = "".join(f"<url><loc>{escape(self._site_url(_LISTED, path))}</loc></url>\n" for path in paths)
        return (
            f'<?xml version="1.0"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{entries}</urlset>\n'
        )

    def _page(self, page: _Page) -> Answer:
        head = b"Content-Type: text/html; charset=%b\r\n" % page.charset.encode()
        return Answer(200, self._html(page).encode(page.charset), head)

    def _odd(self, name: str, path: str, request: Request) -> Answer | None:
        """The pages that are reckoned rather than written."""
        if name != "tides":
            return None
        if path == "/year.html":
            return html(self._html(_Page(name, path, "The whole year", ""), self._year))
        if path.startswith("/calendar/") and not path.removeprefix("/calendar/").replace("next/", ""):
            month = path.count("next/")
            body = f'<p>Month {month} from now. <a href="next/">The next one</a>.</p>'
            return html(self._html(_Page(name, path, f"Month {month}", ""), body))
        session = request.target.removeprefix("/book?PHPSESSID=")
        if session in map(str, range(_SESSIONS)):
            following = (int(session) + 1) % _SESSIONS
            body = f'<p>You are visitor {session}. <a href="/book?PHPSESSID={following}">Turn the page</a>.</p>'
            return html(self._html(_Page(name, path, "Visitors' book", ""), body))
        return None

    def _html(self, page: _Page, body: str = "") -> str:
        site = escape(self._sites[page.host]["title"])
        base = f'<base href="{escape(page.base)}">\n' if page.base else ""
        refresh = f'<meta http-equiv="refresh" content="2; url={escape(page.refresh)}">\n' if page.refresh else ""
        return (
            f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="{page.charset}">\n'
            f"<title>{escape(page.title)} - {site}</title>\n{base}{refresh}"
            f'<link rel="stylesheet" href="/style.css">\n</head>\n<body>\n<nav><a href="/">{site}</a></nav>\n'
            f'<h1>{escape(page.title)}</h1>\n<img src="/drawing.png" alt="">\n'
            f"{body}{self._marked_up(page.text)}</body>\n</html>\n"
        )

    def _marked_up(self, text: str) -> str:
        blocks = (block.strip() for block in text.strip().split("\n\n"))
        return "".join(self._block(block) for block in blocks if block)

    def _block(self, block: str) -> str:
        linked = _LINK.sub(self._anchor, escape(block, quote=False))
        if not block.startswith("- "):
            return f"<p>{linked}</p>\n"
        items = "".join(f"<li>{line.removeprefix('- ')}</li>\n" for line in linked.splitlines())
        return f"<ul>\n{items}</ul>\n"

    def _anchor(self, match: re.Match[str]) -> str:
        words, target = match.groups()
        site, colon, path = target.partition(":")
        href = self._site_url(site, path) if colon else target
        return f'<a href="{href}">{words}</a>'


def _pages(entries: list[dict[str, Any]]) -> Iterator[_Page]:
    return (_Page(**entry) for entry in entries)


def _thing(path: str) -> Answer | None:
    if path == "/style.css":
        return Answer(200, _STYLE.encode(), b"Content-Type: text/css\r\n")
    if path in ("/drawing.png", "/paper.png"):
        return Answer(200, _PNG, b"Content-Type: image/png\r\n")
    return None


def _year(seed: int) -> str:
    """A table of some hundred kilobytes with a link at its very end."""
    rows = []
    for tide in range(4 * 365):
        minutes = tide * 372.6 + seed % 60
        height = 2.4 + (1 if tide % 2 else -1) * (1.3 + 0.6 * ((tide // 28) % 2))
        clock = f"{int(minutes) // 60 % 24:02d}:{int(minutes) % 60:02d}"
        what = "high water" if tide % 2 else "low water"
        rows.append(f"<tr><td>day {tide // 4 + 1}</td><td>{what}</td><td>{clock}</td><td>{height:.1f} m</td></tr>\n")
    return f'<table>\n{"".join(rows)}</table>\n<p>Read on: <a href="/springs.html#why">springs and neaps</a>.</p>\n'

"""A patient reader: what there is to find in a web, found by following its answers, to check what it declares.

It reads well-formed answers only and is no crawler: no network, no waiting, nothing lost.
"""

import re
from collections import deque
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from itertools import islice
from urllib.parse import quote, urldefrag, urljoin, urlsplit

from origin.web import Kind, Web
from origin.wire import Answer, Request

_STEPS_MAX = 1000
_BUSY_TRIES_MAX = 20
_SEGMENT_REPEATS_MAX = 3
_SITEMAP = re.compile(r"^Sitemap: (\S+)$", re.MULTILINE)
_LOCATION = re.compile(r"<loc>([^<]+)</loc>")
_CSS_URL = re.compile(r"url\(([^)]+)\)")


class _Links(HTMLParser):
    """Collects targets as a browser would resolve them."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._base = url
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what `a`, `link`, `img`, `base` and a meta refresh point to."""
        values = dict(attrs)
        if tag == "base":
            self._base = urljoin(self._base, values.get("href") or "")
        target = values.get("src") if tag == "img" else values.get("href") if tag in ("a", "link") else None
        if tag == "meta" and values.get("http-equiv") == "refresh":
            target = (values.get("content") or "").partition("url=")[2]
        if target:
            self.found.append(_absolute(self._base, target))


def _absolute(base: str, target: str) -> str:
    return quote(urldefrag(urljoin(base, target)).url, safe="/:?=&%#")


def walk(
    web: Web, *, seeds: tuple[str, ...] | None = None, segment_repeats_max: int = _SEGMENT_REPEATS_MAX
) -> dict[str, Kind]:
    """Every URL found from the seeds and what it is; what is denied or a trap is named and not entered."""
    waiting = deque(seeds or web.seeds())
    found: dict[str, Kind] = {}
    hosts: set[str] = set()
    while waiting:
        url = waiting.popleft()
        host = urlsplit(url).hostname or ""
        if host not in hosts:
            hosts.add(host)
            waiting.extend(_sitemaps(web, host))
        if url not in found:
            found[url], links = _visit(web, url, segment_repeats_max)
            waiting.extend(link for link in links if link not in found)
    return found


def _sitemaps(web: Web, host: str) -> list[str]:
    """What robots.txt names."""
    status, _, body = ask(web, host, "/robots.txt")
    return _SITEMAP.findall(body.decode()) if status == 200 else []


def _visit(web: Web, url: str, segment_repeats_max: int) -> tuple[Kind, list[str]]:
    parts = urlsplit(url)
    host, target = parts.hostname or "", parts.path + (f"?{parts.query}" if parts.query else "")
    segments = [segment for segment in parts.path.split("/") if segment]
    if any(segments.count(segment) > segment_repeats_max for segment in segments):
        return "trap", []
    if web.rules(host).forbids(target):
        return "denied", []
    status, headers, body = ask(web, host, target)
    if "location" in headers:
        return "redirect", [_absolute(url, headers["location"])]
    if status in (404, 410):
        return "gone", []
    return _content(url, headers.get("content-type", ""), body)


def _content(url: str, content_type: str, body: bytes) -> tuple[Kind, list[str]]:
    if content_type.startswith("text/html"):
        links = _Links(url)
        links.feed(body.decode(content_type.partition("charset=")[2] or "utf-8"))
        return "page", links.found
    if content_type == "text/css":
        return "requisite", [_absolute(url, target) for target in _CSS_URL.findall(body.decode())]
    if content_type == "application/xml":
        return "requisite", [unescape(target) for target in _LOCATION.findall(body.decode())]
    return "requisite", []


def ask(web: Web, host: str, target: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and decoded body of one target, asked for again while the host is busy."""
    request = Request("GET", target, host, f"{host}:{web.port}", {})
    answers = (web.answer(request) for _ in range(_BUSY_TRIES_MAX))
    answer = next(answer for answer in answers if answer.status != 503)
    if answer.raw is None:
        return answer.status, _headers(answer.headers), answer.body
    head, _, body = b"".join(_bytes(answer)).partition(b"\r\n\r\n")
    headers = _headers(head.partition(b"\r\n")[2] + b"\r\n")
    return answer.status, headers, _dechunked(body) if "transfer-encoding" in headers else body


def _bytes(answer: Answer) -> Iterator[bytes]:
    steps = islice(answer.raw or (), _STEPS_MAX)
    return (step for step in steps if not isinstance(step, float))


def _headers(lines: bytes) -> dict[str, str]:
    pairs = (line.partition(": ") for line in lines.decode("latin-1").split("\r\n") if line)
    return {name.lower(): value for name, _, value in pairs}


def _dechunked(body: bytes) -> bytes:
    parts = []
    while body:
        size, _, body = body.partition(b"\r\n")
        count = int(size, 16)
        parts.append(body[:count])
        body = body[count + 2 :]
    return b"".join(parts)

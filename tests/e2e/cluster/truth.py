"""What the web itself says a crawl must end with."""

import hashlib
from urllib.parse import urlsplit

from origin.walk import ask
from origin.web import Kind, Web


def deserved(web: Web) -> dict[str, Kind]:
    """URL -> what it is; robots.txt is not among them."""
    return web.expected()


def bodies(web: Web) -> dict[str, str]:
    """Page -> SHA-256 of what its reader sees."""
    return {url: body_sha256(web, url) for url, kind in web.expected().items() if kind == "page"}


def body_sha256(web: Web, url: str) -> str:
    """Of one URL, asked for without any coding."""
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    return hashlib.sha256(ask(web, parts.hostname or "", target)[2]).hexdigest()

"""URLs as the web spells them: parsed by the WHATWG rules, reduced to what a request needs.

A *canonical* URL is the parser's own serialisation with scheme ``http`` or ``https``, less its fragment (never
sent) and its userinfo (a secret that must not reach a log or an archive). Nothing else is changed: what is fetched
is what was found. A canonical URL is ASCII without space, control character, ``<`` or ``>``, so it can stand in
a request line, a header or a WARC named field as it is. ``"`` cannot occur outside the host, where the
standard lets it stand; no such name resolves, and `is_host_name` says so.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ada_url import join_url, normalize_url

DEFAULT_PORTS = {"http": 80, "https": 443}

_AUTHORITY_BYTES_MIN = len("http://h")
_HOSTS_CACHED_MAX = 16_384
_WEB = ("http://", "https://")
_HOST_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-._")
_IPV6_CHARACTERS = frozenset("0123456789abcdef:.")


class InvalidUrl(ValueError):
    """The text names nothing that http or https can fetch: it does not parse, or has another scheme."""


def canonicalize(url: str, base: str | None = None) -> str:
    """The canonical form of `url`, resolved against `base` when one is given.

    Idempotent. Raises `InvalidUrl` for a text that does not parse (with its base, if any), that has another
    scheme, or that is not encodable text (lone surrogates).
    Source: https://url.spec.whatwg.org/#concept-url-parser
    """
    try:
        return _without_secrets(normalize_url(url) if base is None else join_url(base, url))
    except ValueError:
        message = f"not an http or https URL: {url[:200]!r}"
        raise InvalidUrl(message) from None


def canonicalize_all(urls: Sequence[str], base: str) -> list[str | None]:
    """The canonical form of each of `urls` against one `base`, in order; None stands for an invalid one.

    Never raises. A base that does not parse makes only the relative references invalid.
    """
    if not _parses(base):
        return [_canonical_or_none(url) for url in urls]
    found: list[str | None] = []
    for url in urls:
        try:
            found.append(_without_secrets(join_url(base, url)))
        except ValueError:
            found.append(None)
    return found


def _canonical_or_none(url: str) -> str | None:
    try:
        return canonicalize(url)
    except InvalidUrl:
        return None


def _parses(url: str) -> bool:
    try:
        normalize_url(url)
    except ValueError:
        return False
    return True


def _without_secrets(href: str) -> str:
    """`href`, a parser's serialisation, without fragment and userinfo. Raises ValueError for another scheme.

    In a serialisation ``#`` only ever starts the fragment, and ``@`` before the path only ever ends the userinfo.
    """
    if not href.startswith(_WEB):
        raise ValueError(href)
    if "#" in href:
        href = href[: href.index("#")]
    if "@" in href:
        start = href.index("/") + 2
        at = href.rfind("@", start, href.index("/", start))
        if at >= 0:
            href = href[:start] + href[at + 1 :]
    return href


class SplitUrl(NamedTuple):
    """The parts of a canonical URL.

    `host` is the name as a resolver takes it: lower case, no port, an IPv6 address without brackets. The dot at the end
    of an absolute name is left out too: ``h.`` and ``h`` are one machine (RFC 3986 §3.2.2), which is asked at one pace.
    `port` is the effective one. `authority` identifies a server (``https://h:8443``; brackets kept, a default port
    left out). `path_query` is the request target.
    """

    scheme: str
    host: str
    port: int
    authority: str
    path_query: str


def split(url: str) -> SplitUrl:
    """Take a canonical URL apart. Raises `InvalidUrl` when `url` is not one that `canonicalize` can have given."""
    scheme, mark, rest = url.partition("://")
    default = DEFAULT_PORTS.get(scheme)
    slash = rest.find("/")
    if not mark or default is None or slash < 1:
        message = f"not a canonical URL: {url[:200]!r}"
        raise InvalidUrl(message)
    server = rest[:slash]
    host, colon, port = server.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = server, ""
    if port and not (port.isascii() and port.isdigit()):
        message = f"not a canonical URL: {url[:200]!r}"
        raise InvalidUrl(message)
    name = host.strip("[]").removesuffix(".")
    return SplitUrl(scheme, name, int(port) if port else default, f"{scheme}://{server}", rest[slash:])


def server_of(url: str) -> tuple[str, str]:
    """Host and authority of a canonical URL, as `split` gives them, in less time. Raises `InvalidUrl` like it."""
    end = url.find("/", _AUTHORITY_BYTES_MIN)
    if end < 0:
        message = f"not a canonical URL: {url[:200]!r}"
        raise InvalidUrl(message)
    authority = url[:end]
    return _host_of(authority), authority


@lru_cache(maxsize=_HOSTS_CACHED_MAX)
def _host_of(authority: str) -> str:
    return split(authority + "/").host


def request_target(url: str) -> str:
    """What follows the method in a request line (RFC 9112 §3.2.1, origin-form): path and query."""
    return split(url).path_query


def is_host_name(host: str) -> bool:
    """Whether `host`, as `SplitUrl` gives it, can name a machine: an address, or labels of RFC 1123 and ``_``.

    The URL standard admits more (``!"$&'()*``), which no resolver answers and which would not be safe to write
    between quotes.
    """
    if ":" in host:
        return not set(host) - _IPV6_CHARACTERS
    labels = host.removesuffix(".").split(".")
    return len(host) <= 254 and not set(host) - _HOST_CHARACTERS and all(0 < len(x) <= 63 for x in labels)

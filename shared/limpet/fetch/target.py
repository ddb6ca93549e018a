"""From a URL to where the connection goes and the bytes of the request."""

import re
from typing import Final

import ada_url
import msgspec

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_TARGET: Final = re.compile(r"/[!-~]*")  # visible ASCII: no blank, no control character, nothing to split a line with
_HOST: Final = re.compile(r"[!-~]+")
_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 §5.6.2
_LINE_BREAKERS: Final = re.compile(rb"[\r\n\0]")
_ENGINE_HEADERS: Final = frozenset({b"host", b"connection", b"content-length", b"transfer-encoding"})


class Target(msgspec.Struct, frozen=True):
    """Where one URL leads."""

    scheme: str
    host: str  # as in the URL, brackets of IPv6 included
    port: int
    host_header: str  # with the port unless it is the scheme's own
    path: str  # path and query, percent-encoded, starting with a slash


def parse_target(url: str) -> Target | str:
    """Where `url` leads after WHATWG parsing, or what is wrong with it. Fragment and userinfo are dropped."""
    try:
        href = ada_url.normalize_url(url)
    except (ValueError, UnicodeError):
        return "not a URL"
    scheme, slashes, rest = href.partition("://")
    if not slashes or scheme not in _DEFAULT_PORTS:
        return f"scheme {scheme.partition(':')[0][:20]!r} is not http or https"
    # In a parsed http(s) URL the first slash ends the authority, and userinfo holds no bare "@".
    authority, _, path = rest.partition("#")[0].partition("/")
    host_header = authority.rpartition("@")[2]
    host, port = host_header, _DEFAULT_PORTS[scheme]
    if not host_header.endswith("]"):
        name, colon, digits = host_header.rpartition(":")
        if colon:
            host, port = name, int(digits)
    target = f"/{path}"
    if not _TARGET.fullmatch(target) or not _HOST.fullmatch(host):
        return "not a URL"
    return Target(scheme, host, port, host_header, target)


def request_bytes(target: Target, headers: tuple[tuple[bytes, bytes], ...]) -> bytes | str:
    """The request, Host first, then `headers` as given, or why they cannot be sent.

    A name that is no token, a line break or NUL in a value, and the fields that are the engine's own (Host, Connection,
    the framing) are refused: nothing a caller passes on from a site may become a second line.
    """
    lines = [f"GET {target.path} HTTP/1.1\r\nHost: {target.host_header}".encode("ascii")]
    for name, value in headers:
        if not _TOKEN.fullmatch(name) or _LINE_BREAKERS.search(value) or name.lower() in _ENGINE_HEADERS:
            return f"request header {name[:40]!r} cannot be sent"
        lines.append(name + b": " + value)
    lines.append(b"Connection: close\r\n\r\n")
    return b"\r\n".join(lines)

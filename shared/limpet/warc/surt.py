"""The CDX key of a URL: its SURT form as replay tools compute it.

A key must be what the reader of an index computes from the URL asked for, so it follows the rules that web archives
have shared since the Wayback Machine, written anew here (the `surt` package is AGPL, has had no release since 2019 and
looks up host names while it canonicalises). They are lossy on purpose: a key finds candidates, it never says that two
URLs are one. Identity is `limpet.model`'s business.

In order: fragment and userinfo dropped · percent-encoding undone until nothing changes, then applied to what is not
printable ASCII, to `#` and to `%` · dot segments and empty path segments resolved · `www.`, `www9.` dropped · default
port dropped · path in lower case, without ASP.NET session and without its last slash · query without the session ids
in common use, in lower case, sorted, dropped when empty · host labels reversed and joined by commas, then `)`.
"""

import re
from typing import Final

from limpet.warc.fields import safe_uri

_URL: Final = re.compile(rb"([Hh][Tt][Tt][Pp][Ss]?)://([^/?#]*)([^?#]*)(?:\?([^#]*))?")
_WWW: Final = re.compile(rb"www\d*\.")
_UNSAFE: Final = re.compile(rb"[^!\"$&-~]")
_PERCENT: Final = 0x25
_HEX_DIGITS: Final = b"0123456789ABCDEFabcdef"
_DEFAULT_PORTS: Final = {b"http": b"80", b"https": b"443"}
_PATH_SESSIONS: Final = (
    re.compile(rb"(.*/)\((?:[a-z]\([0-9a-z]{24}\))+\)/([^?]+\.aspx.*)", re.IGNORECASE),
    re.compile(rb"(.*/)\([0-9a-z]{24}\)/([^?]+\.aspx.*)", re.IGNORECASE),
)
_QUERY_SESSIONS: Final = tuple(
    re.compile(rb"(.*)(?:%b)(?:&(.*))?" % name, re.IGNORECASE)
    for name in (
        rb"jsessionid=[0-9a-z]{32}",
        rb"phpsessid=[0-9a-z]{32}",
        rb"sid=[0-9a-z]{32}",
        rb"aspsessionid[a-z]{8}=[a-z]{24}",
        rb"cfid=[^&]+&cftoken=[^&]+",
    )
)


def surt(url: str) -> str:
    """The key of a canonical http or https URL, plain ASCII without spaces; anything else comes back escaped."""
    match = _URL.match(safe_uri(url).encode("ascii"))
    host = _host(match[2]) if match else b""
    if match is None or not host:
        return safe_uri(url) or "-"
    labels = b",".join(reversed(host.split(b".")))
    key = b"%b%b)%b" % (labels, _port(match[1], match[2]), _path(match[3]))
    query = _query(match[4] or b"")
    return (b"%b?%b" % (key, query) if query else key).decode("ascii")


def _host(authority: bytes) -> bytes:
    host = authority.rpartition(b"@")[2]
    if host.startswith(b"["):
        return host[1:].partition(b"]")[0].lower()
    host = _unescape(host.partition(b":")[0]).replace(b"..", b".").strip(b".").lower()
    return _escape(_WWW.sub(b"", host, count=1) if _WWW.match(host) else host)


def _port(scheme: bytes, authority: bytes) -> bytes:
    port = authority.rpartition(b"@")[2].rpartition(b"]")[2].partition(b":")[2]
    if not port.isdigit() or port == _DEFAULT_PORTS.get(scheme.lower()):
        return b""
    return b":" + port


def _path(path: bytes) -> bytes:
    path = _escape(_resolve(_unescape(path))).lower()
    if b".aspx" in path:
        for session in _PATH_SESSIONS:
            found = session.fullmatch(path)
            path = found[1] + found[2] if found else path
    return path[:-1] if len(path) > 1 and path.endswith(b"/") else path


def _resolve(path: bytes) -> bytes:
    kept: list[bytes] = []
    for segment in path.split(b"/")[1:]:
        if segment == b".." and kept:
            kept.pop()
        elif segment != b".":
            kept.append(segment)
    if not kept:
        return b"/"
    return b"/" + b"".join(segment + b"/" for segment in kept[:-1] if segment) + kept[-1]


def _query(query: bytes) -> bytes:
    query = _escape(_unescape(query))
    if b"=" in query:
        for session in _QUERY_SESSIONS:
            found = session.fullmatch(query)
            query = found[1] + (found[2] or b"") if found else query
    # A name without `=` sorts before the same name with an empty value: compared as pairs, not as text.
    return b"&".join(b"=".join(pair) for pair in sorted(part.split(b"=", 1) for part in query.lower().split(b"&")))


def _unescape(text: bytes) -> bytes:
    """Percent-encoding undone to a fixed point, in one pass: what a step yields may complete the triplet before it."""
    if b"%" not in text:
        return text
    done = bytearray()
    for byte in text:
        done.append(byte)
        while len(done) > 2 and done[-3] == _PERCENT and done[-2] in _HEX_DIGITS and done[-1] in _HEX_DIGITS:
            done[-3:] = bytes.fromhex(done[-2:].decode("ascii"))
    return bytes(done)


def _escape(text: bytes) -> bytes:
    return _UNSAFE.sub(lambda match: b"%%%02X" % match[0][0], text)

"""Two readings of percent-encoding, so that a rule is never escaped by spelling.

RFC 9309 section 2.2.2 compares paths after decoding escaped unreserved characters (``%62`` is ``b``) and encoding
everything that a URI may not hold; Google's parser, which site owners test against, compares escapes as they are
written. Both are in use, so both are asked and the stricter answer counts (see ``limpet.robots.rules``). Only an Allow
is never lost to the spelling of an unreserved character, which the RFC compares decoded beyond doubt.
"""

from __future__ import annotations

from typing import Final

_UNRESERVED: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_RESERVED: Final = b":/?#[]@!$&'()*+,;="
_LEGAL: Final = _UNRESERVED + _RESERVED  # RFC 3986 sections 2.2 and 2.3; '%' is dealt with apart
_ASCII: Final = bytes(range(0x80))
_HEX: Final = b"0123456789ABCDEFabcdef"
# `%24` and `%2A` are how a rule writes a plain '$' or '*' (RFC 9309 section 2.2.3), so they equal the bare character.
_DECODED: Final = _UNRESERVED + b"$*"


def _escape(octet: int) -> bytes:
    return b"%%%02X" % octet


def _escapes(decoded: bytes) -> dict[bytes, bytes]:
    """Every pair of hex digits, in any case, with what its escape is read as."""
    pairs = (bytes((high, low)) for high in _HEX for low in _HEX)
    return {
        pair: bytes((octet,)) if octet in decoded else _escape(octet) for pair in pairs for octet in (int(pair, 16),)
    }


class Reading:
    """One way to bring the octets of a path or of a rule's literal text into comparable form; linear time."""

    __slots__ = ("_escapes", "_kept", "_literals", "_stray")

    def __init__(self, *, kept: bytes, decoded: bytes, stray: bytes) -> None:
        self._kept = kept
        self._stray = stray
        self._escapes = _escapes(decoded)
        self._literals = [bytes((octet,)) if octet in kept else _escape(octet) for octet in range(256)]

    def __call__(self, octets: bytes) -> bytes:
        """The comparable form. Never raises; at most three times as long as what came in."""
        head, *rest = octets.split(b"%")
        if not rest:
            return self._literal(head)
        out = [self._literal(head)]
        for part in rest:
            escape = self._escapes.get(part[:2])
            if escape is None:
                out += (self._stray, self._literal(part))
            else:
                out += (escape, self._literal(part[2:]))
        return b"".join(out)

    def _literal(self, octets: bytes) -> bytes:
        if not octets.translate(None, self._kept):
            return octets
        return b"".join([self._literals[octet] for octet in octets])


DECODED: Final = Reading(kept=_LEGAL, decoded=_DECODED, stray=b"%25")
"""The text of RFC 9309: needless escapes undone, needed ones made, a lone percent sign escaped."""

AS_WRITTEN: Final = Reading(kept=_ASCII, decoded=b"", stray=b"%")
"""Escapes compared as written, hex in upper case, bytes beyond ASCII escaped: a rule ``/*%`` sees every escape."""

UNRESERVED_DECODED: Final = Reading(kept=_ASCII, decoded=_UNRESERVED, stray=b"%")
"""As written, but for needless escapes: an Allow is the same however letters are spelt (RFC 3986 section 6.2.2.2)."""


def is_plain(octets: bytes) -> bool:
    """Whether both readings leave the octets as they are: nothing but legal characters, no escape."""
    return not octets.translate(None, _LEGAL)


def target(url: str) -> bytes:
    """Path and query of an absolute URL as octets, fragment off, never empty.

    The URL is the one that will go on the wire (parsed and canonical): this cuts, it does not resolve dots or
    backslashes. Text that is no absolute URL is taken as a path. Never raises.
    """
    url = url.partition("#")[0]
    scheme_end = url.find("://")
    start = scheme_end + 3 if scheme_end >= 0 else 0
    slash = url.find("/", start)
    query = url.find("?", start)
    if slash >= 0 and (query < 0 or slash < query):
        return url[slash:].encode("utf-8", "surrogatepass")
    tail = url[query:] if query >= 0 else "" if scheme_end >= 0 else url
    return b"/" + tail.encode("utf-8", "surrogatepass")


def printable(octets: bytes) -> str:
    """One line of ASCII for logs and records: spaces and everything unprintable escaped, escapes left alone."""
    return "".join([chr(octet) if 0x20 < octet < 0x7F else f"%{octet:02X}" for octet in octets])

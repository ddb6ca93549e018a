"""What an archived answer to a request for robots.txt means, read again from RFC 9309 §2.3.1.

Also the two bodies that such an answer may need: its own, with the content coding undone, and a wait that it asks for.
"""

import hashlib
import re
import zlib
from collections.abc import Iterable
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final, Literal

import msgspec

from limpet.robots import digest

REDIRECTS: Final = frozenset({300, 301, 302, 303, 307, 308})
WAITS: Final = frozenset({429, 503})
RETRY_AFTER_SECONDS_MAX: Final = 366 * 86_400

_DECODED_BYTES_MAX: Final = 1_000_000
_ENOUGH_BYTES: Final = 500_000
"""Damage behind so much of a body is behind everything that is parsed of it (RFC 9309 §2.5)."""

_MEMBERS_MAX: Final = 1_000
_GZIP, _ZLIB, _RAW = 31, 15, -15
_READ: Final = frozenset({b"", b"identity", b"gzip", b"x-gzip", b"deflate"})
_PLAIN: Final = re.compile("[^\0-\x08\x0e-\x1f\x7f\ud800-\udfff]*+")
_BEYOND_ASCII: Final = bytes(range(0x80, 0x100))
_CUT: Final = frozenset({"disconnect", "time"})

Meaning = Literal["rules", "allow_all", "redirect", "unreachable"]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One archived answer. `digest` names the copy it makes: of the rules, or of a word that stands for "allow all"."""

    url: str
    start_us: int
    end_us: int
    status: int
    meaning: Meaning
    digest: str
    body_digest: str
    target: str = ""  # where a redirect leads, canonical; "" if nowhere

    @property
    def licenses(self) -> bool:
        """Whether a fetch may rest on it."""
        return self.meaning in {"rules", "allow_all"}

    @property
    def false_digests(self) -> frozenset[str]:
        """Names under which an answer that licenses nothing could have been taken for a licence."""
        words = (f"unreachable:http_{self.status}", f"allow_all:{self.status}")
        return frozenset({self.digest, self.body_digest, *map(marker, words)})


def marker(words: str) -> str:
    """The digest that stands for a copy without a body, such as "allow_all:404"."""
    return hashlib.sha256(words.encode()).hexdigest()


def meaning_of(status: int, body: bytes | None) -> tuple[Meaning, str]:
    """What an answer means and the digest of the copy it makes. `body` None: it arrived in part only.

    2xx: the rules in it (§2.3.1.1). 4xx: none (§2.3.1.3), except 429, with which a site has not opened itself. The rest
    is complete disallow (§2.3.1.4), a redirect until it has been followed.
    """
    if 200 <= status < 300:
        return ("unreachable", marker("unreachable:reset")) if body is None else ("rules", digest(body))
    if status in REDIRECTS:
        return "redirect", ""
    if 400 <= status < 500 and status != 429:
        return "allow_all", marker(f"allow_all:{status}")
    return "unreachable", marker(f"unreachable:http_{status}")


def decoded_body(payload: bytes, content_encoding: bytes | None, truncated: str) -> bytes | None:
    """A robots.txt body with its content coding undone, as far as anybody parses; None when a part of it is missing.

    Or all of it, in a coding that nobody asked for.
    """
    if truncated in _CUT:
        return None
    data = payload
    for coding in reversed((content_encoding or b"").lower().split(b",")):
        undone = _undone(data, coding.strip())
        if undone is None:
            return None
        data = undone
    return data


def _undone(data: bytes, coding: bytes) -> bytes | None:
    if coding in {b"gzip", b"x-gzip"} and data.startswith(b"\x1f\x8b"):
        return _gzip(data)
    if coding == b"deflate" and data:
        whole = _inflated(data, _ZLIB) or _inflated(data, _RAW)
        return data if whole is None else whole[0] if whole[1] or len(whole[0]) >= _ENOUGH_BYTES else None
    return data if coding in _READ or _is_plain(data) else None


def _is_plain(data: bytes) -> bool:
    """Whether bytes are text, whatever coding their header names. A limit may have cut the last character."""
    whole = data.rstrip(_BEYOND_ASCII).decode("utf-8", "surrogateescape")  # what does not decode becomes surrogates
    return _PLAIN.fullmatch(whole) is not None


def _gzip(data: bytes) -> bytes | None:
    """All members; what follows them is passed over."""
    out = bytearray()
    for _ in range(_MEMBERS_MAX):
        found = _inflated(data, _GZIP)
        if found is None:
            break
        part, ended, data = found
        out += part
        if len(out) >= _DECODED_BYTES_MAX:
            return bytes(out[:_DECODED_BYTES_MAX])
        if not ended:
            return bytes(out) if len(out) >= _ENOUGH_BYTES else None
        if not data.startswith(b"\x1f\x8b"):
            return bytes(out)
    return bytes(out) if len(out) >= _ENOUGH_BYTES else None


def _inflated(data: bytes, window: int) -> tuple[bytes, bool, bytes] | None:
    """Content of one stream, whether it ended, and what follows it; None if it is damaged from the start."""
    inflater = zlib.decompressobj(window)
    try:
        part = inflater.decompress(data, _DECODED_BYTES_MAX)
    except zlib.error:
        return None
    return part, inflater.eof, inflater.unused_data


def wait_until_us(status: int, fields: Iterable[bytes], start_us: int, dates: Iterable[bytes] = ()) -> int:
    """Until when a 429 or 503 asks to be left alone (RFC 9110 §10.2.3, both forms); 0 if it does not say.

    Of several Retry-After `fields` the longest wait counts. Seconds are counted from the send, which is the earliest
    that they can have begun. A time is taken against the first of the answer's own `dates`, since both are of one
    clock, which need not be right.
    """
    if status not in WAITS:
        return 0
    said_us = _date_us(next(iter(dates), b""))
    return max((_until_us(field.strip(), start_us, said_us) for field in fields), default=0)


def _until_us(text: bytes, start_us: int, said_us: int | None) -> int:
    if text.isdigit():
        return start_us + min(int(text[:12]), RETRY_AFTER_SECONDS_MAX) * 1_000_000
    until_us = _date_us(text)
    if until_us is None:
        return 0
    wait_us = until_us - (start_us if said_us is None else said_us)
    return start_us + min(wait_us, RETRY_AFTER_SECONDS_MAX * 1_000_000)


def _date_us(text: bytes) -> int | None:
    try:
        date = parsedate_to_datetime(text.decode("latin-1"))
        return int(date.replace(tzinfo=date.tzinfo or UTC).timestamp() * 1e6)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None

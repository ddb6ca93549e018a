"""Copies of robots.txt that are none: an HTML page, bytes that are no text, a file too long to be read whole.

Nothing follows from it for the crawl, which obeys what lines there are (RFC 9309 sections 2.3.1.5 and 2.5). But a site
whose rules cannot be read is allowed by accident, and an operator should know.
"""

from __future__ import annotations

import codecs
from typing import Final, Literal

import msgspec

from limpet.robots import lines

Oddity = Literal["binary", "html", "too_large", "no_rules"]

ODDITIES: Final[dict[Oddity, str]] = {
    "binary": "no text",
    "html": "an HTML page",
    "too_large": "longer than 500 KiB, of which the beginning counts",
    "no_rules": "text without a single rule",
}
"""What each is, in words. The first that fits is told."""

TOO_LARGE: Final = "too_large"
"""The reason of a copy that was cut."""

_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BLANK: Final = b"\xef\xbb\xbf \t\r\n\f\v"


class _Copy(msgspec.Struct, frozen=True):
    body: bytes = b""
    reason: str = ""


class _State(msgspec.Struct, frozen=True):
    copy: _Copy | None = None


_STORED: Final = msgspec.msgpack.Decoder(_State)


def is_binary(body: bytes) -> bool:
    """Whether nobody can read it as text."""
    return body.startswith(_UTF16) or b"\0" in body


def oddity_of(body: bytes, reason: str = "") -> Oddity | None:
    """What is wrong with the `body` of a copy that was made for `reason`; None for an ordinary or an empty one."""
    if is_binary(body):
        return "binary"
    if body.lstrip(_BLANK).startswith(b"<"):
        return "html"
    if reason == TOO_LARGE:
        return "too_large"
    return "no_rules" if _says_nothing(body) else None


def stored_oddity(robots: bytes) -> Oddity | None:
    """The same of what an authority's row remembers; b"" = its robots.txt was never asked for."""
    copy = _STORED.decode(robots).copy if robots else None
    return None if copy is None else oddity_of(copy.body, copy.reason)


def _says_nothing(body: bytes) -> bool:
    """Whether there is something beside comments, and nothing that could be understood."""
    texts = [text for text in lines.split(body) if text.partition(b"#")[0].strip()]
    return bool(texts) and not any(lines.records(text) for text in texts)

"""What the robots desk is given to read: the body of an answer, its content coding undone."""

import codecs
from typing import Final

from limpet.fetch import Capture
from limpet.parser.decode import (
    CODING_ERROR,
    CODING_INCOMPLETE,
    DECODED_LIMIT,
    UNKNOWN_CODING,
    DecodeLimits,
    decode_body,
)

ROBOTS_LIMITS: Final = DecodeLimits(decoded_bytes_max=1_000_000)
_UNFINISHED: Final = frozenset({CODING_INCOMPLETE, CODING_ERROR, DECODED_LIMIT})
_NOT_IN_TEXT: Final = bytes({*range(0x20), 0x7F} - set(b"\t\n\v\f\r"))


def decode_robots(capture: Capture) -> bytes | None:
    """The body of a robots.txt answer, bounded; None when a piece is missing that may hold the rule that matters."""
    if capture.truncated in {"disconnect", "time"}:
        return None
    head = capture.head
    decoded = decode_body(capture.payload, head.get(b"content-encoding") if head else None, ROBOTS_LIMITS)
    if decoded.flags & _UNFINISHED and len(decoded.data) < ROBOTS_LIMITS.decoded_bytes_max // 2:
        return None
    if UNKNOWN_CODING in decoded.flags and not _is_text(decoded.data):
        return None
    return decoded.data


def _is_text(data: bytes) -> bool:
    """Whether `data`, said to be in a coding unknown here, is in none: servers write `utf-8` there, too."""
    try:
        codecs.utf_8_decode(data, "strict", False)  # a cut last character passes
    except UnicodeDecodeError:
        return False
    return len(data.translate(None, _NOT_IN_TEXT)) == len(data)

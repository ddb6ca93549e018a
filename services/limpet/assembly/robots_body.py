"""What the robots desk is given to read: the body of an answer, its content coding undone."""

from typing import Final

from limpet.fetch import Capture
from limpet.parser.decode import CODING_ERROR, CODING_INCOMPLETE, DecodeLimits, decode_body

ROBOTS_LIMITS: Final = DecodeLimits(decoded_bytes_max=1_000_000)


def decode_robots(capture: Capture) -> bytes | None:
    """The body of a robots.txt answer, bounded; None when a piece is missing that may hold the rule that matters."""
    if capture.truncated in {"disconnect", "time"}:
        return None
    head = capture.head
    decoded = decode_body(capture.payload, head.get(b"content-encoding") if head else None, ROBOTS_LIMITS)
    if decoded.flags & {CODING_INCOMPLETE, CODING_ERROR} and len(decoded.data) < ROBOTS_LIMITS.decoded_bytes_max // 2:
        return None
    return decoded.data

"""The HTTP message inside a response record, taken apart by the very code that read it off the wire."""

from typing import Final

import msgspec

from limpet.fetch.chunked import ChunkedBody
from limpet.fetch.head import find_head_end, framing_of, parse_head
from limpet.fetch.port import Head
from limpet.warc.errors import WarcError

HEAD_BYTES_MAX: Final = 1_048_576
"""Longest head looked for in a block: four times the default limit of a fetch."""


class HttpBlock(msgspec.Struct, frozen=True):
    """A response block taken apart. `payload` is the entity: transfer coding removed, content coding kept."""

    head: Head
    body_offset: int
    payload: bytes


def split_response(block: bytes) -> HttpBlock:
    """Take a response block apart. Raises WarcError if it does not begin with an HTTP head."""
    head, offset = head_of(block)
    return HttpBlock(head, offset, _payload(block, head, offset))


def payload_of(block: bytes) -> bytes:
    """The entity of a response block, chunk framing removed: what WARC-Payload-Digest is taken over (WARC 1.1 §5.9).

    A body that was cut gives what arrived; a block that is not HTTP gives itself. Never raises.
    """
    try:
        head, offset = head_of(block)
    except WarcError:
        return block
    return _payload(block, head, offset)


def head_of(block: bytes) -> tuple[Head, int]:
    """Status and fields of a response block, and where its body starts. Raises WarcError."""
    end = find_head_end(bytearray(block[:HEAD_BYTES_MAX]), 0, HEAD_BYTES_MAX)
    if end < 0:
        raise WarcError("no HTTP head in the block")
    head = parse_head(block[:end])
    if isinstance(head, str):
        raise WarcError(f"bad HTTP head in the block: {head}")
    return head, end


def _payload(block: bytes, head: Head, offset: int) -> bytes:
    if framing_of(head) != "chunked":
        return block[offset:]
    chunks = ChunkedBody(offset, HEAD_BYTES_MAX)
    chunks.advance(bytearray(block))
    return bytes(chunks.payload)

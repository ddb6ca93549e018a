"""A record too large for memory, read from its member as the bytes come."""

import hashlib
from typing import Final

from limpet.fetch.chunked import Dechunker
from limpet.fetch.head import framing_of
from limpet.fetch.port import Head
from limpet.warc.errors import WarcError
from limpet.warc.fields import b32
from limpet.warc.http_block import HEAD_BYTES_MAX, head_of
from limpet.warc.members import Inflater
from limpet.warc.parse import HEADER_BYTES_MAX, RecordHeader, header_end, parse_header

_SLICE_BYTES: Final = 262_144
_TAIL_BYTES: Final = 4


class RecordStream:
    """One response record of one gzip member, in memory that is bounded by what is kept of its payload.

    Feed it the member in pieces; each costs what it inflates to. `full`: `payload` has `payload_bytes_max` bytes, and
    who wants no digest may stop. `done`: the member ended, intact, and the record with it.
    """

    def __init__(self, payload_bytes_max: int) -> None:
        self.header: RecordHeader | None = None
        self.head: Head | None = None
        self.payload = bytearray()
        self.payload_bytes = 0
        self._payload_bytes_max = payload_bytes_max
        self._inflater = Inflater()
        self._start = bytearray()  # what is not understood yet
        self._left_bytes = 0  # of the block
        self._tail_bytes = 0
        self._excess = False  # something came behind the member
        self._dechunker: Dechunker | None = None
        self._block_sha1 = hashlib.sha1(usedforsecurity=False)
        self._sha1 = hashlib.sha1(usedforsecurity=False)
        self._sha256 = hashlib.sha256()

    @property
    def full(self) -> bool:
        """As much of the payload is kept as was asked for."""
        return len(self.payload) >= self._payload_bytes_max

    @property
    def done(self) -> bool:
        """The record was read to its end."""
        ended = self._inflater.done and not self._inflater.rest and not self._excess
        return ended and self.head is not None and not self._left_bytes and self._tail_bytes == _TAIL_BYTES

    @property
    def block_sha1_b32(self) -> str:
        """SHA-1 of the block so far."""
        return b32(self._block_sha1.digest())

    @property
    def payload_sha1_b32(self) -> str:
        """SHA-1 of the payload so far."""
        return b32(self._sha1.digest())

    @property
    def payload_sha256_hex(self) -> str:
        """SHA-256 of the payload so far."""
        return self._sha256.hexdigest()

    def take(self) -> bytes:
        """What is kept of the payload; it is kept no longer."""
        payload, self.payload = bytes(self.payload), bytearray()
        self._payload_bytes_max = 0
        return payload

    def feed(self, data: bytes, *, until_full: bool = False) -> None:
        """Take the next piece of the member; with `until_full`, no more of it than that takes. Raises WarcError."""
        self._excess |= self._inflater.done and bool(data)
        while not self._inflater.done and not (until_full and self.full):
            content = self._inflater.feed(data, _SLICE_BYTES)
            data = b""
            if content:
                self._take(content)
            elif self._inflater.hungry:
                return

    def _take(self, content: bytes) -> None:
        if self.head is None:
            self._start += content
            if self.header is None:
                self._read_header()
            if self.header is not None:
                self._read_head()
        else:
            self._take_block(content)

    def _read_header(self) -> None:
        end = header_end(bytes(self._start[:HEADER_BYTES_MAX]))
        if end >= 0:
            self.header = parse_header(bytes(self._start[:end]))
            self._left_bytes = self.header.block_bytes
            del self._start[:end]
        elif len(self._start) >= HEADER_BYTES_MAX:
            raise WarcError("no end of the record header")

    def _read_head(self) -> None:
        try:
            self.head, end = head_of(bytes(self._start[: self._left_bytes]))
        except WarcError:
            if len(self._start) >= min(self._left_bytes, HEAD_BYTES_MAX):
                raise
            return
        self._dechunker = Dechunker() if framing_of(self.head) == "chunked" else None
        self._left_bytes -= end
        self._block_sha1.update(self._start[:end])
        content, self._start = bytes(self._start[end:]), bytearray()
        self._take_block(content)

    def _take_block(self, content: bytes) -> None:
        body = content[: self._left_bytes]
        self._left_bytes -= len(body)
        self._block_sha1.update(body)
        self._tail_bytes += len(content) - len(body)
        payload = body if self._dechunker is None else self._dechunker.feed(body)
        self.payload_bytes += len(payload)
        self._sha1.update(payload)
        self._sha256.update(payload)
        room = self._payload_bytes_max - len(self.payload)
        if room > 0:
            self.payload += payload[:room]

"""The chunked transfer coding (RFC 9112 §7.1), read from a growing buffer."""

import re
from typing import Final

SIZE_LINE_BYTES_MAX: Final = 16_384
"""A chunk-size line with its extensions; RFC 9112 §7.1.1 asks recipients for a limit."""

_SIZE: Final = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?\r?", re.DOTALL)


class ChunkedBody:
    """Walks over the chunks in `buffer[start:]` as they arrive and collects what they carry.

    Tolerates what servers do: line ends of LF alone, blanks around the size, extensions, no final empty line. After
    `advance` one of three holds: neither flag (more bytes are needed), `complete` (the last chunk and its trailers
    were read; `end` is where the body ends in the buffer), or `broken` (what follows is no chunk; `payload` keeps what
    came before). Each byte of the buffer is looked at once. Of trailers the whole lines that fit in
    `trailer_bytes_max` are read; the body is complete without the rest.
    """

    def __init__(self, start: int, trailer_bytes_max: int) -> None:
        self.payload = bytearray()
        self.end = start
        self.complete = False
        self.broken = False
        self.last_chunk_seen = False
        self._seen = start  # no LF between `end` and here
        self._left_bytes = 0  # of the open chunk
        self._closing = False  # the CR LF after a chunk's data is due
        self._trailer_bytes_left = trailer_bytes_max

    def advance(self, buffer: bytearray) -> None:
        """Take in what was appended to `buffer` since the last call."""
        while not (self.complete or self.broken):
            if self._left_bytes:
                if not self._take_data(buffer):
                    return
            elif not self._take_line(buffer):
                return

    def rebase(self, dropped_bytes: int) -> None:
        """`dropped_bytes` were taken off the front of the buffer; none of them at or behind `end`."""
        self.end -= dropped_bytes
        self._seen -= dropped_bytes

    def _take_data(self, buffer: bytearray) -> bool:
        part = buffer[self.end : self.end + self._left_bytes]
        self.payload += part
        self.end += len(part)
        self._seen = self.end
        self._left_bytes -= len(part)
        self._closing = self._left_bytes == 0
        return self._closing

    def _take_line(self, buffer: bytearray) -> bool:
        """Read one line; False when it is not there yet."""
        line_end = buffer.find(b"\n", self._seen)
        size_bytes = (len(buffer) if line_end < 0 else line_end) - self.end
        if size_bytes > self._line_bytes_max():
            # Behind the last chunk there is nothing to lose: trailers may be dropped (RFC 9110 §6.5.1).
            self.complete = self.last_chunk_seen and not self._closing
            self.broken = not self.complete
        elif line_end < 0:
            self._seen = len(buffer)
            return False
        else:
            line = bytes(buffer[self.end : line_end])
            self._read_line(line, line_end + 1)
        return True

    def _line_bytes_max(self) -> int:
        if self._closing:
            return 1
        return self._trailer_bytes_left if self.last_chunk_seen else SIZE_LINE_BYTES_MAX

    def _read_line(self, line: bytes, after: int) -> None:
        if self._closing:
            self.broken = line not in {b"", b"\r"}
            self._closing = False
        elif self.last_chunk_seen:
            self.complete = line in {b"", b"\r"}
            self._trailer_bytes_left -= len(line)
        else:
            match = _SIZE.fullmatch(line)
            self.broken = match is None
            self._left_bytes = int(match[1], 16) if match is not None else 0
            self.last_chunk_seen = match is not None and self._left_bytes == 0
        if not self.broken:
            self.end = self._seen = after


class Dechunker:
    """Takes the chunk framing off a body that comes in pieces, in memory that does not grow with it."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._chunks = ChunkedBody(0, SIZE_LINE_BYTES_MAX)

    def feed(self, data: bytes) -> bytes:
        """The payload in `data`; b"" for ever once the body ended or broke."""
        if self._chunks.complete or self._chunks.broken:
            return b""
        self._buffer += data
        self._chunks.advance(self._buffer)
        payload, self._chunks.payload = bytes(self._chunks.payload), bytearray()
        done = self._chunks.end
        del self._buffer[:done]
        self._chunks.rebase(done)
        return payload

"""One HTTP/1 response out of the bytes of a connection, without any I/O of its own."""

import enum
from typing import Final

from limpet.fetch.chunked import ChunkedBody
from limpet.fetch.head import NOT_HTTP, STATUS_LINE, find_head_end, framing_of, parse_head
from limpet.fetch.port import FetchLimits, Head, NetFailure, NetFailureKind, Truncation

INTERIM_MAX: Final = 16
"""1xx responses before the final one."""

BLANK_BYTES_MAX: Final = 4
"""CR and LF skipped ahead of a status line: servers put an empty line after an interim response."""


class Phase(enum.IntEnum):
    """Where a response stands.

    STRAY: the chunk framing broke; what follows is kept with the block and is no payload. NOISE: it is not HTTP, and
    the rest is only counted. Neither has an end of its own but that of the connection.
    """

    HEAD = 0
    BODY = 1
    STRAY = 2
    NOISE = 3
    DONE = 4


_IN_BODY: Final = frozenset({Phase.BODY, Phase.STRAY})


class ResponseParser:
    """Feed it what arrives, tell it how it ended, and read off the result. Never raises, whatever comes.

    Its memory stays below `header_bytes_max` + twice the body limit + one read (`block` and `payload` copy); time is
    linear in the bytes fed. The body limit is the smaller of `body_bytes_max` and `body_in_memory_bytes_max`, since a
    body is held in memory, and counts bytes on the wire, chunk framing included. Bytes after the end of the response
    are counted and dropped. With `spooled` somebody calls `take` often enough, and `body_bytes_max` alone counts.

    When `phase` is DONE, either `failure` is set or `head` is; `truncated` tells a body that was cut. A transfer coding
    other than chunked (nobody asked for one, RFC 9110 §10.1.4) is left on the payload.
    """

    def __init__(self, limits: FetchLimits, *, spooled: bool = False) -> None:
        self.phase = Phase.HEAD
        self.head: Head | None = None
        self.failure: NetFailure | None = None
        self.truncated: Truncation | None = None
        self.received_bytes = 0
        self.body_offset = 0
        self._header_bytes_max = limits.header_bytes_max
        in_memory_max = limits.body_bytes_max if spooled else limits.body_in_memory_bytes_max
        self._body_bytes_max = min(limits.body_bytes_max, in_memory_max)
        self._limit = 0  # where the body is cut, in the buffer
        self._buffer = bytearray()
        self._scanned = 0
        self._blank_bytes_left = BLANK_BYTES_MAX
        self._interim_count = 0
        self._interim_bytes = 0
        self._payload_from = 0  # in the buffer, without chunks
        self._end: int | None = None  # in the buffer, once the framing tells it
        self._chunks: ChunkedBody | None = None

    def feed(self, data: bytes) -> None:
        """Take `data` as it came from the connection."""
        self.received_bytes += len(data)
        if self.phase in _IN_BODY:
            self._buffer += data
            self._read_body()
        elif self.phase is Phase.HEAD:
            self._buffer += data
            self._read_head()
        elif self.phase is Phase.NOISE and self.received_bytes > self._header_bytes_max:
            self.fail("protocol", NOT_HTTP)

    def end_of_stream(self, *, reset: bool = False) -> None:
        """The connection ended: orderly, or by `reset`."""
        if self.phase is Phase.HEAD:
            self._end_in_head(reset=reset)
        elif self.phase is Phase.NOISE:
            self.fail("protocol", NOT_HTTP)
        elif self.phase is Phase.BODY:
            chunked_whole = self._chunks is not None and self._chunks.last_chunk_seen
            until_close = self._chunks is None and self._end is None and not reset
            self._finish(None if chunked_whole or until_close else "disconnect")
        elif self.phase is Phase.STRAY:
            self._finish("disconnect")

    def give_up(self, detail: str) -> None:
        """A time limit ran out: keeps a body that has begun, fails with "timeout" before that."""
        if self.phase is Phase.HEAD:
            self.fail("timeout", detail)
        elif self.phase is Phase.NOISE:
            self.fail("protocol", NOT_HTTP)
        elif self.phase in _IN_BODY:
            self._finish("time" if self.phase is Phase.BODY else "disconnect")

    def fail(self, kind: NetFailureKind, detail: str) -> None:
        """There is no response, whatever came so far. Of what is not HTTP people are told how much it was."""
        self.phase, self.head, self._buffer = Phase.DONE, None, bytearray()
        if detail == NOT_HTTP:
            detail = f"{detail}, {self.received_bytes} byte{'s' if self.received_bytes > 1 else ''} received"
        self.failure = NetFailure(kind=kind, detail=detail, received_bytes=self.received_bytes)

    def block(self) -> bytes:
        """Status line, header and body as received, without interim responses and stray bytes."""
        return bytes(self._buffer)

    def payload(self, block: bytes) -> bytes:
        """The body without chunk framing; `block` is what `block()` returned."""
        return block[self.body_offset :] if self._chunks is None else bytes(self._chunks.payload)

    @property
    def buffered_bytes(self) -> int:
        """Bytes of the response held here."""
        return len(self._buffer)

    @property
    def chunked(self) -> bool:
        """Whether the block holds chunk framing."""
        return self._chunks is not None

    def take(self) -> tuple[bytes, bytes]:
        """Hand over what was read of the block, and the payload in it; what comes next follows on it.

        Only once there is a head. The first call includes the head, which is no payload.
        """
        chunks = self._chunks
        done = len(self._buffer) if chunks is None or self.phase is not Phase.BODY else chunks.end
        block = bytes(self._buffer[:done])
        if chunks is None:
            payload = block[self._payload_from :]
            self._payload_from = max(0, self._payload_from - done)
        else:
            payload, chunks.payload = bytes(chunks.payload), bytearray()
            chunks.rebase(done)
        del self._buffer[:done]
        self._limit -= done
        if self._end is not None:
            self._end -= done
        return block, payload

    def _read_head(self) -> None:
        while self.phase is Phase.HEAD:
            self._skip_blank()
            buffer = self._buffer
            if buffer[:4].lower() != b"http"[: len(buffer)]:
                self.phase = Phase.NOISE
                self._buffer = bytearray()
                return
            end_max = self._header_bytes_max - self._interim_bytes
            end = find_head_end(buffer, max(0, self._scanned - 2), end_max)
            if end < 0:
                self._scanned = len(buffer)
                if len(buffer) >= end_max:
                    self.fail("protocol", "header too large")
                return
            self._take_head(end)

    def _skip_blank(self) -> None:
        while self._blank_bytes_left and self._buffer.startswith((b"\r", b"\n")):
            del self._buffer[0]
            self._blank_bytes_left -= 1

    def _take_head(self, end: int) -> None:
        head = parse_head(bytes(self._buffer[:end]))
        if isinstance(head, str):
            self.fail("protocol", head)
        elif head.status == 101:
            self.fail("protocol", "the server switched protocols unasked")
        elif head.status < 200:
            self._drop_interim(end)
        else:
            self._begin_body(head, end)

    def _drop_interim(self, end: int) -> None:
        del self._buffer[:end]
        self._scanned = 0
        self._interim_bytes += end
        self._interim_count += 1
        if self._interim_count > INTERIM_MAX:
            self.fail("protocol", "too many interim responses")

    def _begin_body(self, head: Head, end: int) -> None:
        framing = framing_of(head)
        if framing == "conflict":
            self.fail("protocol", "conflicting Content-Length")
            return
        self.head, self.body_offset, self.phase = head, end, Phase.BODY
        self._payload_from = end
        self._limit = end + self._body_bytes_max
        if framing == "chunked":
            self._chunks = ChunkedBody(end, self._header_bytes_max)
        elif framing != "close":
            self._end = end + framing
        self._read_body()

    def _read_body(self) -> None:
        over = len(self._buffer) > self._limit
        if over:
            del self._buffer[self._limit :]
        if self._chunks is not None and self.phase is Phase.BODY:
            self._chunks.advance(self._buffer)
            if self._chunks.complete:
                self._end = self._chunks.end
            elif self._chunks.broken:
                self.phase = Phase.STRAY
        if self._end is not None and len(self._buffer) >= self._end:
            del self._buffer[self._end :]
            self._finish(None)
        elif over:
            self._finish("length")

    def _end_in_head(self, *, reset: bool) -> None:
        how = "connection reset" if reset else "connection closed"
        begins = self._buffer[4:5] in b"/ \t" and len(self._buffer) > 4
        line_whole = b"\n" in self._buffer
        if not self._buffer:
            self.fail("reset", f"{how} without an answer")
        elif not begins or (line_whole and STATUS_LINE.match(self._buffer) is None):
            self.fail("protocol", NOT_HTTP)
        else:
            self.fail("reset", f"{how} inside the header")

    def _finish(self, truncated: Truncation | None) -> None:
        self.phase, self.truncated = Phase.DONE, truncated

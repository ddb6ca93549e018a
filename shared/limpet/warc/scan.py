"""Walking a segment member by member, in bounded memory, to learn where what is good ends.

`Scanner` does no I/O: feed it the bytes of a segment in order. `members` feeds one from a read function.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from limpet.warc.errors import WarcError
from limpet.warc.members import GZIP_HEADER, Inflater
from limpet.warc.parse import HEADER_BYTES_MAX, RecordHeader, header_end, parse_header

READ_BYTES: Final = 1_048_576
HTTP_HEAD_BYTES_MAX: Final = 262_144
"""How much of a block is kept with a member, at most: until its first empty line."""

_SLICE_BYTES: Final = 16_384
_OUTPUT_BYTES: Final = 262_144
_TAIL: Final = b"\r\n\r\n"


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One gzip member that holds exactly one whole record.

    `offset` and `length` in bytes of the file; `block_start` is the block up to about its first empty line: the HTTP
    head of a response; `pristine` is False when the gzip header, which no checksum covers, is not as we write it.
    """

    offset: int
    length: int
    header: RecordHeader
    block_start: bytes
    pristine: bool

    @property
    def end(self) -> int:
        """Where the next member starts."""
        return self.offset + self.length


class Scanner:
    """Finds whole members in a stream of bytes.

    `good_bytes` is the end of the last member that is intact (CRC, length) and holds exactly one whole record; `torn`
    says what is wrong behind it, "" while nothing is. After trouble nothing more is looked at: what follows a damaged
    member may be part of a body and must never be taken for a record of ours.
    """

    def __init__(self, start: int = 0) -> None:
        self.good_bytes = start
        self.torn = ""
        self._open: _OpenMember | None = None

    def feed(self, data: bytes) -> list[Member]:
        """Take the next bytes of the file; the members that they complete."""
        found: list[Member] = []
        position = 0
        while position < len(data) and not self.torn:
            piece = data[position : position + _SLICE_BYTES]
            member = self._open or _OpenMember()
            try:
                position += len(piece) - member.feed(piece)
                self._open = None if member.done else member
                if member.done:
                    found.append(member.finished(self.good_bytes))
                    self.good_bytes = found[-1].end
            except WarcError as error:
                self.torn = str(error)
        return found

    def finish(self) -> None:
        """Say that the file ends here."""
        if self._open is not None and not self.torn:
            self.torn = "the file ends inside a member"


class Scan:
    """Iterates over the members of a file; afterwards `good_bytes` and `torn` tell how far and why no further."""

    def __init__(self, read: Callable[[int, int], bytes], size_bytes: int, start: int = 0) -> None:
        self._read = read
        self._size_bytes = size_bytes
        self._position = start
        self._scanner = Scanner(start)

    @property
    def good_bytes(self) -> int:
        """End of the last good member."""
        return self._scanner.good_bytes

    @property
    def torn(self) -> str:
        """What is wrong after it; "" if nothing."""
        return self._scanner.torn

    def __iter__(self) -> Iterator[Member]:
        while self._position < self._size_bytes and not self.torn:
            data = self._read(self._position, min(READ_BYTES, self._size_bytes - self._position))
            if not data:
                break
            self._position += len(data)
            yield from self._scanner.feed(data)
        self._scanner.finish()


def members(read: Callable[[int, int], bytes], size_bytes: int, start: int = 0) -> Scan:
    """The whole members of a file from offset `start`; `read(offset, size_bytes)` may give less at the end."""
    return Scan(read, size_bytes, start)


class _OpenMember:
    """A member being read: inflated, its record checked, nothing kept but the header and the start of the block."""

    def __init__(self) -> None:
        self._inflater = Inflater()
        self._length = 0
        self._gzip_header = b""
        self._content = bytearray()  # header, then the start of the block
        self._start_whole = False
        self._header: RecordHeader | None = None
        self._left_bytes = 0  # of the block
        self._tail = b""

    @property
    def done(self) -> bool:
        return self._inflater.done

    def feed(self, piece: bytes) -> int:
        """Take `piece`; how many of its bytes come after this member. Raises WarcError."""
        if len(self._gzip_header) < len(GZIP_HEADER):
            self._gzip_header += piece[: len(GZIP_HEADER) - len(self._gzip_header)]
        self._take(self._inflater.feed(piece, _OUTPUT_BYTES))
        while not (self._inflater.done or self._inflater.hungry):
            self._take(self._inflater.feed(b"", _OUTPUT_BYTES))
        left = len(self._inflater.rest)
        self._length += len(piece) - left
        return left

    def finished(self, offset: int) -> Member:
        """The member, which starts at `offset`. Raises WarcError unless it was one whole record."""
        if self._header is None or self._left_bytes or self._tail != _TAIL:
            raise WarcError("a member that is not one whole record")
        return Member(
            offset=offset,
            length=self._length,
            header=self._header,
            block_start=bytes(self._content),
            pristine=self._gzip_header == GZIP_HEADER,
        )

    def _take(self, output: bytes) -> None:
        if self._header is None:
            self._content += output
            end = header_end(bytes(self._content[:HEADER_BYTES_MAX]))
            if end < 0:
                if len(self._content) >= HEADER_BYTES_MAX:
                    raise WarcError("record header too long")
                return
            self._header = parse_header(bytes(self._content[:end]))
            self._left_bytes = self._header.block_bytes
            output = bytes(self._content[end:])
            self._content.clear()
        block = output[: self._left_bytes]
        self._left_bytes -= len(block)
        self._keep(block)
        self._tail += output[len(block) :]
        if len(self._tail) > len(_TAIL):
            raise WarcError("bytes after the record")

    def _keep(self, block: bytes) -> None:
        if self._start_whole:
            return
        self._content += block[: HTTP_HEAD_BYTES_MAX - len(self._content)]
        end = self._content.find(b"\r\n\r\n")
        if end >= 0:
            del self._content[end + 4 :]
        self._start_whole = end >= 0 or len(self._content) >= HTTP_HEAD_BYTES_MAX

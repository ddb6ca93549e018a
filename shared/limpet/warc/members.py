"""Gzip members: one record each, so that any record can be read alone (WARC 1.1 annex D)."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, cast

from isal import igzip_lib, isal_zlib

from limpet.warc.errors import RecordTooLargeError, WarcError

LEVEL: Final = 1
"""isal's fastest level with tables of its own for each member; docs/adr/0003 has its price in time and size."""

GZIP_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
"""What every member of ours begins with: deflate, no flags, no time, no operating system (RFC 1952 §2.3)."""

_GZIP_WBITS: Final = 31
_INPUT_BYTES: Final = 16_384
_PEEK_BYTES: Final = 1_024
_GZIP_ERROR: Final = cast("type[Exception]", igzip_lib.error)  # its stub declares an instance


def compress(*parts: bytes, level: int = LEVEL) -> bytes:
    """One gzip member that holds the concatenated `parts`; equal input gives equal output."""
    member: bytes = igzip_lib.compress(b"".join(parts), level, igzip_lib.COMP_GZIP)
    if member.startswith(GZIP_HEADER):
        return member
    return GZIP_HEADER + member[len(GZIP_HEADER) :]


class MemberStream:
    """One gzip member that is made while it is written, in pieces, as often as it is asked for.

    `parts` gives its content anew at each call, in slices; it may block and raise OSError.
    """

    def __init__(self, parts: Callable[[], Iterable[bytes]], content_bytes: int, level: int = LEVEL) -> None:
        self.size_bytes_max = content_bytes + content_bytes // 1_000 + 1_024
        self._parts = parts
        self._level = level

    def pieces(self) -> Iterator[bytes]:
        """The member. What it yields is about as large as a slice of the content, or smaller."""
        packer = isal_zlib.compressobj(self._level, isal_zlib.DEFLATED, _GZIP_WBITS)
        start = b""
        for part in self._parts():
            piece = packer.compress(part)
            if len(start) < len(GZIP_HEADER):
                start += piece
                if len(start) < len(GZIP_HEADER):
                    continue
                piece = GZIP_HEADER + start[len(GZIP_HEADER) :]
            if piece:
                yield piece
        last = packer.flush()
        if len(start) < len(GZIP_HEADER):
            last = GZIP_HEADER + (start + last)[len(GZIP_HEADER) :]
        yield last


class Inflater:
    """Inflates one member step by step, in bounded memory, checking its CRC and length at the end."""

    def __init__(self) -> None:
        self._gzip = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_GZIP)

    @property
    def done(self) -> bool:
        """The member ended, intact."""
        return self._gzip.eof

    @property
    def rest(self) -> bytes:
        """Input after the end of the member."""
        return self._gzip.unused_data if self._gzip.eof else b""

    @property
    def hungry(self) -> bool:
        """No output is left in what was fed."""
        return self._gzip.needs_input

    def feed(self, data: bytes, size_bytes_max: int) -> bytes:
        """Take `data`, give up to `size_bytes_max` bytes; call with b"" for more of the same. Raises WarcError."""
        try:
            return self._gzip.decompress(data, size_bytes_max)
        except _GZIP_ERROR as error:
            raise WarcError(f"damaged gzip member: {error}") from error


def inflate(member: bytes, size_bytes_max: int) -> bytes:
    """The content of exactly one whole member.

    Raises WarcError if it is damaged, cut short, followed by anything, or larger than `size_bytes_max`.
    """
    inflater = Inflater()
    content = inflater.feed(member, size_bytes_max + 1)
    if len(content) > size_bytes_max:
        raise RecordTooLargeError(f"record larger than {size_bytes_max} bytes")
    if not inflater.done:
        raise WarcError("gzip member cut short")
    if inflater.rest:
        raise WarcError("more than one gzip member")
    return content


def peek(member: bytes, blank_lines: int, size_bytes_max: int) -> bytes:
    """The beginning of a member's content: until `blank_lines` empty lines were seen, or the end, or the limit.

    Costs what it inflates, not what the member holds; says nothing about the rest. Raises WarcError.
    """
    inflater = Inflater()
    content = bytearray()
    offset = 0
    while not inflater.done and len(content) < size_bytes_max and content.count(b"\r\n\r\n") < blank_lines:
        piece = b""
        if inflater.hungry:
            piece = member[offset : offset + _PEEK_BYTES]
            offset += len(piece)
            if not piece:
                break
        content += inflater.feed(piece, min(_INPUT_BYTES, size_bytes_max - len(content)))
    return bytes(content)


def is_whole(member: bytes) -> bool:
    """Whether `member` is exactly one intact gzip member, whatever it holds; in bounded memory."""
    inflater = Inflater()
    try:
        inflater.feed(member, _INPUT_BYTES)
        while not (inflater.done or inflater.hungry):
            inflater.feed(b"", _INPUT_BYTES)
    except WarcError:
        return False
    return inflater.done and not inflater.rest

"""Writing the members of a group of captures, those that are streams in slices."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from limpet.runtime.executor import Runner
from limpet.segments.hdfs.cluster import HdfsFile
from limpet.segments.port import Appendable
from limpet.warc import MemberStream

STREAM_SYNC_BYTES: Final = 33_554_432
"""A long member is synced every so often: DataNodes need not hold all of it unsynced."""

_SLICE_BYTES: Final = 1_048_576
_START_BYTES: Final = 327_680
"""What is kept of a long member for its index line: more than the longest heads."""


class Written(msgspec.Struct, frozen=True):
    """What a member came to, and its first bytes; all of them if it was at hand."""

    size_bytes: int
    start: bytes


class GroupWrite:
    """One group on its way into a file. Streams are read and packed on `runner`; they may raise OSError."""

    def __init__(self, file: HdfsFile, runner: Runner) -> None:
        self.size_bytes = 0
        self._file = file
        self._runner = runner

    async def write(self, head: bytes, captures: Sequence[Sequence[Appendable]]) -> list[list[Written]]:
        """Everything, in order, in one call of the driver where nothing is a stream."""
        written: list[list[Written]] = []
        pending = [head] if head else []
        for capture in captures:
            written.append([])
            for member in capture:
                if isinstance(member, MemberStream):
                    await self._put(b"".join(pending))
                    pending.clear()
                    written[-1].append(await self._stream(member))
                else:
                    pending.append(member)
                    written[-1].append(Written(len(member), member))
        await self._put(b"".join(pending))
        return written

    async def _put(self, data: bytes) -> None:
        if data:
            await self._file.write(data)
            self.size_bytes += len(data)

    async def _stream(self, member: MemberStream) -> Written:
        pieces = member.pieces()
        size_bytes = unsynced_bytes = 0
        start = b""
        while data := await self._runner.run(lambda: _slice(pieces)):
            await self._put(data)
            size_bytes += len(data)
            unsynced_bytes += len(data)
            start += data[: _START_BYTES - len(start)]
            if unsynced_bytes >= STREAM_SYNC_BYTES:
                await self._file.hsync()
                unsynced_bytes = 0
        return Written(size_bytes, start)


def _slice(pieces: Iterator[bytes]) -> bytes:
    """The next pieces, about a slice; b"" at the end."""
    found: list[bytes] = []
    size_bytes = 0
    for piece in pieces:
        found.append(piece)
        size_bytes += len(piece)
        if size_bytes >= _SLICE_BYTES:
            break
    return b"".join(found)

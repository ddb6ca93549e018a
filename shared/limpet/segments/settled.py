r"""How far a growing segment is settled: everything before has its outcome, and its index lines are at hand.

A hint that makes recovery quick: it begins there instead of reading a gigabyte. `NAME.settled` in the first replica
directory is a sequence of blocks, `offset length crc32\n` and so many bytes of index lines; a torn or damaged block
ends it. Losing all of it costs a full scan, nothing else. Blocking: run it from a `Runner`.
"""

import contextlib
import zlib
from bisect import bisect_right
from pathlib import Path
from typing import Final

from limpet.runtime.disk import Disk, DiskFile
from limpet.segments.layout import create_afresh, size_of
from limpet.segments.port import Settled

SETTLED: Final = ".settled"
_HEADER_BYTES_MAX: Final = 64


class SettledLines:
    """The writer's lines, and what each hint adds to the file."""

    def __init__(self) -> None:
        self._offset = 0
        self._count = 0
        self._ends: list[int] = []
        self._lines: list[bytes] = []

    def add(self, line: bytes, end: int) -> None:
        """An index line whose record ends at `end`."""
        self._ends.append(end)
        self._lines.append(line)

    @property
    def lines(self) -> list[bytes]:
        """Every line added."""
        return self._lines

    def block(self, offset: int) -> bytes:
        """The block that says that everything before `offset` is settled; b"" if the file says so already."""
        if offset <= self._offset:
            return b""
        lines = b"".join(self._lines[self._count : bisect_right(self._ends, offset)])
        return b"%d %d %d\n%b" % (offset, len(lines), zlib.crc32(lines), lines)

    def said(self, offset: int) -> None:
        """The block for `offset` is in the file, durably."""
        self._offset, self._count = offset, bisect_right(self._ends, offset)


class SettledFile:
    """The writer's side on a disk: grows with the segment."""

    def __init__(self, disk: Disk, folder: Path, name: str) -> None:
        self.written = SettledLines()
        self._disk = disk
        self._path = folder / f"{name}{SETTLED}"
        self._file: DiskFile | None = None

    def advance(self, offset: int) -> None:
        """Everything before `offset` is settled. Raises OSError; what is in the file then stays true."""
        block = self.written.block(offset)
        if not block:
            return
        if self._file is None:
            self._file = create_afresh(self._disk, self._path)
        self._file.write(block)
        self._file.sync()
        self.written.said(offset)

    def close(self) -> None:
        """Let go of the file."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()


def read_settled(disk: Disk, folder: Path, name: str) -> Settled:
    """What a writer left, up to its last whole block."""
    path = folder / f"{name}{SETTLED}"
    size = size_of(disk, path)
    return parse_settled(disk.read(path, 0, size) if size else b"")


def parse_settled(data: bytes) -> Settled:
    """The hint in a file, up to its last whole block."""
    offset, position, lines = 0, 0, b""
    while (end := data.find(b"\n", position, position + _HEADER_BYTES_MAX)) >= 0:
        numbers = data[position:end].split(b" ")
        if len(numbers) != 3 or not all(number.isdigit() for number in numbers):
            break
        block = data[end + 1 : end + 1 + int(numbers[1])]
        if len(block) != int(numbers[1]) or zlib.crc32(block) != int(numbers[2]):
            break
        offset, position, lines = int(numbers[0]), end + 1 + len(block), lines + block
    return Settled(offset, tuple(lines.splitlines(keepends=True)))


def forget_settled(disk: Disk, folder: Path, name: str) -> None:
    """The segment is sealed: nobody needs it any more. Leaving it behind does no harm."""
    path = folder / f"{name}{SETTLED}"
    with contextlib.suppress(OSError):
        if size_of(disk, path) is not None:
            disk.remove(path)

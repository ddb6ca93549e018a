"""One segment open for appending, the same bytes in every replica. Blocking: run it from a `Runner`."""

import contextlib
import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from limpet.model.errors import CannotGoOn
from limpet.runtime.disk import Disk, DiskFile
from limpet.segments.layout import OPEN, seal_replica
from limpet.segments.port import Location, SegmentFailed
from limpet.segments.settled import SettledFile, forget_settled
from limpet.warc import WarcError, index_line, index_of

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class OpenSegment:
    """Grows by whole groups of captures.

    `size_bytes` is what every replica holds durably. Order at birth: create → sync of the directory → write → sync; the
    warcinfo record is written with the first group, so that a file never holds it alone for long.
    """

    def __init__(self, disk: Disk, folders: Sequence[Path], name: str, warcinfo: bytes) -> None:
        self.name = name
        self.size_bytes = 0
        self.captures = 0
        self.usable = True  # False: nothing more may be appended, recovery decides what is good
        self._disk = disk
        self._folders = folders
        self._warcinfo = warcinfo
        self._files: list[DiskFile] = []
        self._settled = SettledFile(disk, folders[0], name)

    @property
    def next_offset(self) -> int:
        """Where the next capture will start."""
        return self.size_bytes or len(self._warcinfo)

    def commit(self, captures: Sequence[Sequence[bytes]]) -> list[list[Location]]:
        """Append captures to every replica and sync; where each of their members is.

        `CannotGoOn`: nothing was appended, the file ends with the last whole capture. `SegmentFailed`: nobody knows.
        """
        if not self._files:
            self._create()
        head = b"" if self.size_bytes else self._warcinfo
        locations = self._locate(captures)
        self._write(b"".join([head, *(member for capture in captures for member in capture)]))
        self.captures += len(captures)
        for capture, places in zip(captures, locations, strict=True):
            self._index(capture, places)
        return locations

    def seal(self) -> None:
        """Store the index, drop `.open`, let go of the files. Raises OSError or `Definite`; recovery can repeat it."""
        try:
            if self.usable and self.size_bytes:
                for folder in self._folders:
                    seal_replica(self._disk, folder, self.name, index_of(self._settled.written.lines))
                forget_settled(self._disk, self._folders[0], self.name)
        finally:
            self.close()

    def settle(self, offset: int) -> None:
        """Leave a hint for recovery: everything before `offset` is settled. Raises OSError, `Definite`."""
        if self.usable and offset <= self.size_bytes:
            self._settled.advance(offset)

    def close(self) -> None:
        """Let go of files and locks. What is synced stays; closing adds nothing to it."""
        self.usable = False
        self._settled.close()
        files, self._files = self._files, []
        for file in files:
            with contextlib.suppress(OSError):
                file.close()

    def _create(self) -> None:
        try:
            for folder in self._folders:
                self._files.append(self._disk.create(folder / f"{self.name}{OPEN}"))
            for folder in self._folders:
                self._disk.sync_dir(folder)
        except OSError as error:
            self.close()
            raise CannotGoOn(f"cannot open segment {self.name}: {error}") from error

    def _write(self, data: bytes) -> None:
        try:
            for file in self._files:
                file.write(data)
        except OSError as error:
            if error.errno in _FULL and self._cut_back():
                raise CannotGoOn(
                    f"disk full at segment {self.name}: it was cut back to its last whole record, "
                    "free some space and run the same command again"
                ) from error
            raise self._failed(error) from error
        try:
            for file in self._files:
                file.sync()
        except OSError as error:
            raise self._failed(error) from error
        self.size_bytes += len(data)

    def _cut_back(self) -> bool:
        """Undo a partial write. Not synced: if the cut is lost with the power, recovery makes it again."""
        try:
            for file in self._files:
                file.truncate(self.size_bytes)
        except OSError:
            return False
        return True

    def _failed(self, error: OSError) -> SegmentFailed:
        self.close()
        return SegmentFailed(f"segment {self.name} cannot be trusted any more: {error}")

    def _locate(self, captures: Sequence[Sequence[bytes]]) -> list[list[Location]]:
        offset = self.next_offset
        located: list[list[Location]] = []
        for capture in captures:
            places: list[Location] = []
            for member in capture:
                places.append(Location(self.name, offset, len(member)))
                offset += len(member)
            located.append(places)
        return located

    def _index(self, capture: Sequence[bytes], places: Sequence[Location]) -> None:
        for member, place in zip(capture, places, strict=True):
            # A member that cannot be read has no line; telling so is the business of verification, not of an append.
            with contextlib.suppress(WarcError):
                line = index_line(member, self.name, place.offset)
                if line is not None:
                    self._settled.written.add(line, place.offset + place.length)

"""One segment open for appending, the same bytes in every replica. Blocking: run it from a `Runner`."""

import contextlib
import errno
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from limpet.model.errors import CannotGoOn, Definite
from limpet.runtime.disk import Disk, DiskFile
from limpet.segments.layout import OPEN, seal_replica
from limpet.segments.port import Appendable, Location, SegmentFailed
from limpet.segments.settled import SettledFile, forget_settled
from limpet.warc import MemberStream, WarcError, index_line, index_of

STREAM_SYNC_BYTES: Final = 33_554_432
"""A long member is synced every so often, so that the syncs of others never wait for all of it at once."""

_START_BYTES: Final = 327_680
"""What is kept of a long member for its index line: more than the longest heads."""

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

    def commit(self, captures: Sequence[Sequence[Appendable]]) -> list[list[Location]]:
        """Append captures to every replica and sync; where each of their members is.

        `CannotGoOn`: nothing was appended, the file ends with the last whole capture. `SegmentFailed`: nobody knows.
        """
        if not self._files:
            self._create()
        head = b"" if self.size_bytes else self._warcinfo
        members = [member for capture in captures for member in capture if isinstance(member, bytes)]
        if len(members) == sum(map(len, captures)):
            lengths = map(len, members)
            locations = self._locate([[next(lengths) for _ in capture] for capture in captures])
            self._write([b"".join([head, *members])])
            starts = iter(members)
        else:
            offset, sizes, streamed = self.next_offset, list[list[int]](), list[bytes]()
            self._write(self._pieces(head, captures, sizes, streamed))
            locations, starts = self._locate(sizes, offset), iter(streamed)
        self.captures += len(captures)
        for places in locations:
            self._index([next(starts) for _ in places], places)
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

    def leave(self, offset: int) -> None:
        """Let go of it without a seal: recovery goes on at `offset`, or earlier."""
        with contextlib.suppress(OSError, Definite):
            self.settle(offset)
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

    def _pieces(
        self, head: bytes, captures: Sequence[Sequence[Appendable]], sizes: list[list[int]], starts: list[bytes]
    ) -> Iterable[bytes]:
        """The bytes of a group piece by piece; `sizes` and `starts` tell afterwards what the members came to."""
        yield head
        for capture in captures:
            sizes.append([])
            for member in capture:
                size_bytes, start = 0, bytearray()
                for piece in member.pieces() if isinstance(member, MemberStream) else (member,):
                    yield piece
                    size_bytes += len(piece)
                    start += piece[: max(0, _START_BYTES - len(start))]
                sizes[-1].append(size_bytes)
                starts.append(bytes(start))

    def _write(self, pieces: Iterable[bytes]) -> None:
        """Write to every replica and sync."""
        size_bytes = unsynced_bytes = 0
        try:
            for data in pieces:
                for file in self._files:
                    file.write(data)
                size_bytes += len(data)
                unsynced_bytes += len(data)
                if unsynced_bytes >= STREAM_SYNC_BYTES:
                    self._sync()
                    unsynced_bytes = 0
        except OSError as error:
            if error.errno in _FULL and self._cut_back():
                raise CannotGoOn(
                    f"disk full at segment {self.name}: it was cut back to its last whole record, "
                    "free some space and run the same command again"
                ) from error
            raise self._failed(error) from error
        self._sync()
        self.size_bytes += size_bytes

    def _sync(self) -> None:
        try:
            for file in self._files:
                file.sync()
        except OSError as error:
            raise self._failed(error) from error

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

    def _locate(self, sizes: Sequence[Sequence[int]], offset: int | None = None) -> list[list[Location]]:
        """Where members of `sizes` bytes lie, the first at `offset` (default: where the next capture starts)."""
        offset = self.next_offset if offset is None else offset
        located: list[list[Location]] = []
        for capture in sizes:
            places: list[Location] = []
            for size_bytes in capture:
                places.append(Location(self.name, offset, size_bytes))
                offset += size_bytes
            located.append(places)
        return located

    def _index(self, capture: Sequence[bytes], places: Sequence[Location]) -> None:
        for member, place in zip(capture, places, strict=True):
            # A member that cannot be read has no line; telling so is the business of verification, not of an append.
            with contextlib.suppress(WarcError):
                line = index_line(member, self.name, place.offset, place.length)
                if line is not None:
                    self._settled.written.add(line, place.offset + place.length)

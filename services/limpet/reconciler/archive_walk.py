"""Reading an archive as it lies in its directories: which segments there are, and their members one by one.

Works on a folder at rest and beside its writers: a segment is read no further than it reached when it was listed, and
one that is sealed meanwhile is found under its new name.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from limpet.runtime.disk import Disk
from limpet.segments.layout import INDEX, OPEN, TEMPORARY, find, size_of
from limpet.segments.settled import SETTLED
from limpet.warc import Member, members, parse_segment_name

READ_BYTES: Final = 1_048_576

Read = Callable[[int, int], bytes]
"""(offset, size in bytes) -> bytes, fewer at the end of the file."""


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """One copy of a segment. `size_bytes` is how far it reached when it was listed."""

    folder: Path
    sealed: bool
    size_bytes: int


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A segment with its copies, in the order of the directories; a directory that lacks it has none."""

    name: str
    replicas: tuple[Replica, ...]

    @property
    def sealed(self) -> bool:
        """Sealed in every directory that has it."""
        return all(replica.sealed for replica in self.replicas)


class Archive:
    """All segments of a crawl."""

    def __init__(self, folders: Sequence[Path], disk: Disk) -> None:
        self.folders = tuple(folders)
        self._disk = disk

    def segments(self) -> list[Segment]:
        """Every segment in any directory, by name: by time of opening, then serial and incarnation."""
        names = {name for folder in self.folders for entry in self._disk.names(folder) if (name := _segment_of(entry))}
        return [segment for name in sorted(names) if (segment := self._segment(name)).replicas]

    def strays(self) -> Iterator[Path]:
        """Files that are neither segments nor theirs."""
        for folder in self.folders:
            for entry in self._disk.names(folder):
                if entry.endswith(SETTLED) or _segment_of(entry):
                    continue  # a hint for recovery may outlive its segment's opening
                if not _segment_of(entry.removesuffix(TEMPORARY).removesuffix(INDEX)):
                    yield folder / entry

    def reader(self, segment: Segment, replica: Replica) -> Read:
        """Reads one copy. Reading raises OSError."""

        def read(offset: int, size_bytes: int) -> bytes:
            path = find(self._disk, replica.folder, segment.name)
            if path is None:
                raise FileNotFoundError(replica.folder / segment.name)
            try:
                return self._disk.read(path, offset, size_bytes)
            except FileNotFoundError:  # sealed since we looked
                return self._disk.read(replica.folder / segment.name, offset, size_bytes)

        return read

    def copies(self, name: str, offset: int, length: int) -> Iterator[bytes]:
        """Some bytes of a segment, from each directory that has so many there. Reading raises OSError."""
        segment = self._segment(name)
        for replica in segment.replicas:
            data = self.reader(segment, replica)(offset, length)
            if len(data) == length:
                yield data

    def index(self, segment: Segment, replica: Replica) -> bytes | None:
        """The index file beside one copy; None if there is none. Raises OSError."""
        path = replica.folder / f"{segment.name}{INDEX}"
        size_bytes = size_of(self._disk, path)
        return None if size_bytes is None else self._disk.read(path, 0, size_bytes)

    def _segment(self, name: str) -> Segment:
        found = [replica for folder in self.folders if (replica := self._replica(folder, name)) is not None]
        return Segment(name=name, replicas=tuple(found))

    def _replica(self, folder: Path, name: str) -> Replica | None:
        path = find(self._disk, folder, name)
        size_bytes = size_of(self._disk, path) if path is not None else None
        if path is not None and size_bytes is None:  # sealed since we looked
            path = folder / name
            size_bytes = size_of(self._disk, path)
        if path is None or size_bytes is None:
            return None
        return Replica(folder=folder, sealed=not path.name.endswith(OPEN), size_bytes=size_bytes)


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """No whole record begins at `offset`. Reading goes on at `resumed`; None if nobody knows a place behind it."""

    offset: int
    reason: str
    resumed: int | None


class Walk:
    """The members of a segment in order. Behind damage it goes on at the next place that somebody vouches for.

    Where the next member begins after a damaged one cannot be told from the bytes (what looks like one may be part of
    a body), so `next_known(offset)` asks the rows and the index. With several readers the other copies are asked first.
    """

    def __init__(self, reads: Sequence[Read], size_bytes: int, next_known: Callable[[int], int | None]) -> None:
        self._reads = reads
        self._size_bytes = size_bytes
        self._next_known = next_known

    def __iter__(self) -> Iterator[Member | Damage]:
        offset: int | None = 0
        copies = list(self._reads)
        while offset is not None and offset < self._size_bytes:
            start = offset
            scan = members(copies[0], self._size_bytes, start)
            yield from scan
            if scan.good_bytes >= self._size_bytes:
                return
            if scan.good_bytes > start:
                copies = _rotated(self._reads, copies[0])
            copies.pop(0)
            offset = scan.good_bytes
            if not copies:
                known = self._next_known(offset)
                yield Damage(offset=offset, reason=scan.torn or "the file ends here", resumed=known)
                offset, copies = known, list(self._reads)


def _rotated(reads: Sequence[Read], first: Read) -> list[Read]:
    """All copies, the one just read first: every other one gets its try at a place where this one is damaged."""
    return [first, *(read for read in reads if read is not first)]


def _segment_of(entry: str) -> str:
    """The segment's name when a directory entry is a segment, else ""."""
    name = entry.removesuffix(OPEN)
    return name if parse_segment_name(name) is not None else ""

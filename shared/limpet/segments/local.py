"""Segments in one to three directories of this machine, preferably on different disks."""

import itertools
from collections.abc import Sequence
from pathlib import Path

from limpet.clock.port import Clock
from limpet.model.errors import CannotGoOn, Definite
from limpet.runtime.disk import Disk
from limpet.runtime.executor import Runner
from limpet.segments.full import WriterLimits
from limpet.segments.healing import Patchwork, cut
from limpet.segments.layout import OPEN, find, seal_replica, size_of
from limpet.segments.open_segment import OpenSegment
from limpet.segments.port import Location, MakeWarcinfo, SegmentInfo, Settled
from limpet.segments.settled import forget_settled, read_settled
from limpet.segments.settling import Settling
from limpet.segments.writer import LocalSegmentWriter
from limpet.warc import parse_segment_name, segment_name
from limpet.warc.members import is_whole


class LocalSegments:
    """`SegmentStore` over 1-3 replica directories, which exist.

    `runner` takes writes and repairs; `reader`, if given, takes reads, so that they need not wait behind a sync;
    `long_runner`, if given, takes members that are streams, into segments of their own.
    A start with less than `min_free_bytes` free in any directory is refused, and `healthy` fails below it: the reserve
    is for what is already on its way. Disk faults come out as `CannotGoOn`.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        *,
        disk: Disk,
        runner: Runner,
        clock: Clock,
        prefix: str = "limpet",
        min_free_bytes: int = 268_435_456,
        limits: WriterLimits | None = None,
        reader: Runner | None = None,
        long_runner: Runner | None = None,
    ) -> None:
        if not 1 <= len(folders) <= 3:
            raise ValueError(f"1 to 3 replica directories, not {len(folders)}")
        self._folders = tuple(folders)
        self._disk = disk
        self._runner = runner
        self._reader = reader or runner
        self._long_runner = long_runner
        self._clock = clock
        self._prefix = prefix
        self._min_free_bytes = min_free_bytes
        self._limits = limits or WriterLimits()
        self._patched: dict[str, Patchwork] = {}  # segments whose replicas were found to differ

    async def open_writer(
        self, incarnation: str, warcinfo: MakeWarcinfo, settling: Settling | None = None
    ) -> LocalSegmentWriter:
        """See `SegmentStore.open_writer`. `CannotGoOn` below the minimum of free space, or if a directory is gone."""
        await self._runner.run(self._check_room)

        def new_segment(serial: int) -> OpenSegment:
            name = segment_name(self._prefix, self._clock.wall_us(), serial, incarnation)
            return OpenSegment(self._disk, self._folders, name, warcinfo(name))

        serials = itertools.count()

        def writer(runner: Runner, long: LocalSegmentWriter | None = None) -> LocalSegmentWriter:
            return LocalSegmentWriter(
                runner=runner,
                clock=self._clock,
                limits=self._limits,
                new_segment=new_segment,
                check_room=self._check_room,
                serials=serials,
                long=long,
                settling=settling,
            )

        return writer(self._runner, writer(self._long_runner) if self._long_runner is not None else None)

    async def read(self, location: Location) -> bytes:
        """See `SegmentStore.read`. A damaged member is passed over if another replica has it whole."""
        return await self._reader.run(lambda: self._read(location))

    async def infos(self) -> list[SegmentInfo]:
        """See `SegmentStore.infos`. A replica that lacks the segment altogether does not count as the shortest."""
        return await self._runner.run(self._infos)

    async def read_raw(self, name: str, offset: int, size_bytes: int) -> bytes:
        """See `SegmentStore.read_raw`. Where replicas differ, each member is read from one that has it whole.

        KeyError if the segment is unknown.
        """
        return await self._reader.run(lambda: self._read_raw(name, offset, size_bytes))

    async def settled(self, name: str) -> Settled:
        """See `SegmentStore.settled`."""
        return await self._reader.run(lambda: read_settled(self._disk, self._folders[0], name))

    async def recover(self, name: str, good_bytes: int) -> bool:
        """See `SegmentStore.recover`. Also restores a replica that lacks the segment, of sealed ones too.

        KeyError if the segment is unknown, ValueError if no replica has `good_bytes` bytes.
        """
        return await self._runner.run(lambda: self._recover(name, good_bytes))

    async def seal(self, name: str, index: bytes) -> None:
        """See `SegmentStore.seal`. `Definite` if its writer lives; KeyError if the segment is unknown."""
        await self._runner.run(lambda: self._seal(name, index))

    def _check_room(self) -> None:
        for folder in self._folders:
            try:
                free = self._disk.free_bytes(folder)
            except OSError as error:
                raise CannotGoOn(f"segment directory {folder} cannot be used: {error}") from error
            if free < self._min_free_bytes:
                raise CannotGoOn(
                    f"{free:,} bytes free in {folder}, at least {self._min_free_bytes:,} are needed: "
                    "free some space and run the same command again"
                )

    def _paths(self, name: str) -> list[Path]:
        paths = [path for folder in self._folders if (path := find(self._disk, folder, name)) is not None]
        if not paths:
            raise KeyError(name)
        return paths

    def _read(self, location: Location) -> bytes:
        enough: bytes | None = None
        fault: OSError | None = None
        for path in self._paths(location.segment):
            try:
                data = self._disk.read(path, location.offset, location.length)
            except OSError as error:
                fault = error
                continue
            if len(data) == location.length:
                if len(self._folders) == 1 or is_whole(data):
                    return data
                enough = enough if enough is not None else data
        if enough is not None:
            return enough
        if fault is not None:
            raise CannotGoOn(f"segment {location.segment} cannot be read: {fault}") from fault
        raise ValueError(f"no replica of {location.segment} has {location.length} bytes at {location.offset}")

    def _infos(self) -> list[SegmentInfo]:
        found: dict[str, bool] = {}  # name -> sealed in every replica that has it
        for folder in self._folders:
            for entry in self._disk.names(folder):
                name = entry.removesuffix(OPEN)
                if parse_segment_name(name) is not None:
                    found[name] = found.get(name, True) and name == entry
        return [info for name in sorted(found) if (info := self._info(name, sealed=found[name])) is not None]

    def _info(self, name: str, *, sealed: bool) -> SegmentInfo | None:
        try:
            paths = self._paths(name)
        except KeyError:
            return None
        sizes = [size for path in paths if (size := size_of(self._disk, path)) is not None]
        live = not sealed and any(self._is_locked(path) for path in paths)
        return SegmentInfo(name=name, sealed=sealed, size_bytes=min(sizes, default=0), live=live)

    def _is_locked(self, path: Path) -> bool:
        try:
            file = self._disk.reopen(path)
        except FileNotFoundError:
            return False  # sealed meanwhile
        if file is not None:
            file.close()
        return file is None

    def _read_raw(self, name: str, offset: int, size_bytes: int) -> bytes:
        paths = self._paths(name)
        patched = self._patched.get(name)
        if patched is None:
            parts = [self._disk.read(path, offset, size_bytes) for path in paths]
            longest = max(parts, key=len)
            if all(longest.startswith(part) for part in parts):
                return longest
            patched = self._patched[name] = Patchwork(self._disk, paths)
        return patched.read(offset, size_bytes)

    def _recover(self, name: str, good_bytes: int) -> bool:
        self._patched.pop(name, None)
        try:
            return cut(self._disk, self._folders, name, good_bytes)
        except OSError as error:
            raise CannotGoOn(f"segment {name} cannot be repaired: {error}") from error

    def _seal(self, name: str, index: bytes) -> None:
        self._patched.pop(name, None)
        if any(path.name != name and self._is_locked(path) for path in self._paths(name)):
            raise Definite(f"segment {name} still has its writer")
        try:
            for folder in self._folders:
                if find(self._disk, folder, name) is not None:
                    seal_replica(self._disk, folder, name, index)
            forget_settled(self._disk, self._folders[0], name)
        except OSError as error:
            raise CannotGoOn(f"segment {name} could not be sealed: {error}") from error

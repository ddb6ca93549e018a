"""`SegmentStore` on HDFS."""

import itertools
from collections.abc import Awaitable, Callable, Coroutine
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from limpet.clock.port import Clock
from limpet.model.errors import Definite
from limpet.runtime.executor import Runner
from limpet.segments.full import WriterLimits
from limpet.segments.hdfs.cluster import Hdfs, HdfsFault
from limpet.segments.hdfs.files import cut, find, give_back, seal_file
from limpet.segments.hdfs.growing import GrowingSegment
from limpet.segments.hdfs.places import places_of
from limpet.segments.hdfs.reader import ExactReads
from limpet.segments.hdfs.settings import Alert, HdfsSettings, IsAlive
from limpet.segments.hdfs.writer import HdfsSegmentWriter
from limpet.segments.layout import OPEN
from limpet.segments.port import Location, MakeWarcinfo, SegmentInfo, SegmentsUnavailable, Settled
from limpet.segments.settled import parse_settled
from limpet.segments.settling import Settling
from limpet.warc import parse_segment_name, segment_name

P = ParamSpec("P")
T = TypeVar("T")


def served(
    verb: Callable[Concatenate["HdfsSegments", P], Awaitable[T]],
) -> Callable[Concatenate["HdfsSegments", P], Coroutine[Any, Any, T]]:
    """Every verb may be repeated, so that a fault of HDFS means: not now. So does a file that went in between."""

    async def asked(self: "HdfsSegments", /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await verb(self, *args, **kwargs)
        except (HdfsFault, FileNotFoundError, FileExistsError) as error:
            raise SegmentsUnavailable(str(error)) from error

    update_wrapper(asked, verb)
    return asked


class HdfsSegments:
    """Segments below `settings.root`, those of a day in a folder, named as in a local directory.

    HDFS locks a file for its writer, but lets anybody take it. So `is_alive` says whether the incarnation that a
    segment is named after may still live, by the authority's leases: only when it does not is a file taken from it.
    Once taken, its writer can acknowledge nothing more, whatever it believes. A segment that its living writer gave up
    is closed, and free to be recovered.

    `runner` packs members that are streams, which block; nothing else runs there.
    """

    def __init__(
        self,
        hdfs: Hdfs,
        settings: HdfsSettings,
        *,
        clock: Clock,
        is_alive: IsAlive,
        alert: Alert,
        runner: Runner,
        prefix: str = "limpet",
        limits: WriterLimits | None = None,
    ) -> None:
        if not 1 <= settings.replicas_min <= settings.replication:
            raise ValueError(f"{settings.replicas_min} of {settings.replication} replicas cannot be required")
        self._hdfs = hdfs
        self._settings = settings
        self._root = settings.root
        self._clock = clock
        self._is_alive = is_alive
        self._alert = alert
        self._runner = runner
        self._prefix = prefix
        self._limits = limits or WriterLimits()
        self._reads = ExactReads(hdfs, clock, settings.root)

    @served
    async def open_writer(
        self, incarnation: str, warcinfo: MakeWarcinfo, settling: Settling | None = None
    ) -> HdfsSegmentWriter:
        """See `SegmentStore.open_writer`. `SegmentsUnavailable` when HDFS would take no append."""
        serials = itertools.count()

        def new_segment() -> GrowingSegment:
            name = segment_name(self._prefix, self._clock.wall_us(), next(serials), incarnation)
            return GrowingSegment(
                self._hdfs,
                self._settings,
                clock=self._clock,
                alert=self._alert,
                runner=self._runner,
                name=name,
                warcinfo=warcinfo(name),
            )

        def new_writer(long: HdfsSegmentWriter | None = None) -> HdfsSegmentWriter:
            return HdfsSegmentWriter(
                hdfs=self._hdfs,
                settings=self._settings,
                clock=self._clock,
                limits=self._limits,
                alert=self._alert,
                new_segment=new_segment,
                long=long,
                settling=settling,
            )

        writer = new_writer(new_writer())
        await writer.healthy()
        return writer

    @served
    async def read(self, location: Location) -> bytes:
        """See `SegmentStore.read`. HDFS checks what it reads from one replica and goes on to the next."""
        data = await self._reads.read(location.segment, location.offset, location.length)
        if len(data) < location.length:
            raise ValueError(f"no replica of {location.segment} has {location.length} bytes at {location.offset}")
        return data

    @served
    async def infos(self) -> list[SegmentInfo]:
        """See `SegmentStore.infos`. `size_bytes` is what the NameNode knows; the growing end may be longer."""
        found: dict[str, tuple[bool, int]] = {}  # name -> sealed, bytes
        for path, size_bytes in (await self._hdfs.files(self._root)).items():
            entry = path.rpartition("/")[2]
            name = entry.removesuffix(OPEN)
            if parse_segment_name(name) is not None and not found.get(name, (False, 0))[0]:
                found[name] = (name == entry, size_bytes)
        return [await self._info(name, *found[name]) for name in sorted(found)]

    @served
    async def read_raw(self, name: str, offset: int, size_bytes: int) -> bytes:
        """See `SegmentStore.read_raw`. A dead writer's file is taken first: what HDFS then says is the truth."""
        await self._take(name)
        return await self._reads.read(name, offset, size_bytes)

    @served
    async def settled(self, name: str) -> Settled:
        """See `SegmentStore.settled`. A living writer's hints are left alone, and none are seen."""
        path = places_of(self._root, name).settled
        if await self._is_held(path, name):
            return Settled()
        try:
            size_bytes = await give_back(self._hdfs, self._clock, path, self._settings.recover_seconds_max)
            return parse_settled(await (await self._hdfs.open(path)).read(0, size_bytes) if size_bytes else b"")
        except FileNotFoundError:
            return Settled()

    @served
    async def recover(self, name: str, good_bytes: int) -> bool:
        """See `SegmentStore.recover`. HDFS itself has made the replicas equal; this cuts.

        KeyError if the segment is unknown, ValueError if it has less than `good_bytes` bytes.
        """
        path = await self._take(name)
        if path is None:
            return False
        size_bytes = await self._hdfs.size(path)
        if size_bytes < good_bytes:
            raise ValueError(f"no replica of {name} has {good_bytes} bytes")
        if size_bytes > good_bytes:
            await cut(self._hdfs, self._clock, path, good_bytes, self._settings.recover_seconds_max)
            self._reads.forget(name)
        return True

    @served
    async def seal(self, name: str, index: bytes) -> None:
        """See `SegmentStore.seal`. `Definite` if its writer lives; KeyError if the segment is unknown."""
        if await self._take(name) is None:
            raise Definite(f"segment {name} still has its writer")
        await seal_file(self._hdfs, places_of(self._root, name), index)

    async def close(self) -> None:
        """Let go of connections."""
        await self._hdfs.close()

    async def _info(self, name: str, sealed: bool, size_bytes: int) -> SegmentInfo:
        live = not sealed and await self._is_held(places_of(self._root, name).growing, name)
        return SegmentInfo(name=name, sealed=sealed, size_bytes=size_bytes, live=live)

    async def _is_held(self, path: str, name: str) -> bool:
        """Whether a writer holds it that may live."""
        parsed = parse_segment_name(name)
        try:
            growing = (await self._hdfs.blocks(path, 0, 1)).growing
        except FileNotFoundError:
            return False  # sealed meanwhile
        return growing and parsed is not None and await self._is_alive(parsed.incarnation)

    async def _take(self, name: str) -> str | None:
        """The file, closed, taken from its writer if that is dead; None if it is alive. KeyError."""
        path = await find(self._hdfs, places_of(self._root, name))
        if not path.endswith(OPEN) or not (await self._hdfs.blocks(path, 0, 1)).growing:
            return path
        if await self._is_held(path, name):
            return None
        await give_back(self._hdfs, self._clock, path, self._settings.recover_seconds_max)
        self._reads.forget(name)
        return path

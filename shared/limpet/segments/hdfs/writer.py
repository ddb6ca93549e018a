"""The writer of segments on HDFS: group commit, rolling, and what becomes of a segment that failed."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from limpet.clock.port import Clock
from limpet.model.errors import CannotGoOn
from limpet.segments.full import FullSegments, WriterLimits
from limpet.segments.hdfs.abandoned import Abandoned
from limpet.segments.hdfs.backlog import Append, Backlog, copy_of, fail, long_bytes
from limpet.segments.hdfs.cluster import Hdfs, HdfsFault
from limpet.segments.hdfs.growing import GrowingSegment
from limpet.segments.hdfs.settings import Alert, HdfsSettings
from limpet.segments.port import Appendable, Location, SegmentFailed, SegmentsUnavailable
from limpet.segments.settling import Settling

REOPEN_SECONDS: Final = 0.5


class HdfsSegmentWriter:
    """`SegmentWriter` over HDFS. What is queued while a group is synced becomes the next group.

    A group fails as a whole (`SegmentFailed`): its segment is let go, given back to HDFS in the background and left
    `.open` for recovery; the next group opens a new one. While none can be opened, appends are refused with
    `SegmentsUnavailable`, `healthy` says so, and tries are made at growing intervals. No outage ends the writer; that
    somebody took its file does (`CannotGoOn`): its incarnation is held for dead, and acknowledges nothing more.

    `long`, if given, takes the captures with a member that is a stream, into segments of its own: nobody else waits
    while hundreds of megabytes are packed and synced.

    Full segments wait for their seal as on a local disk, so that what was appended last gets its outcome first. One
    with a capture that got none is not sealed by us. `left_unsealed` names those, and segments whose seal failed: they
    are given back, and recovery seals them.
    """

    def __init__(
        self,
        *,
        hdfs: Hdfs,
        settings: HdfsSettings,
        clock: Clock,
        limits: WriterLimits,
        alert: Alert,
        new_segment: Callable[[], GrowingSegment],
        long: "HdfsSegmentWriter | None" = None,
        settling: Settling | None = None,
    ) -> None:
        self.left_unsealed: list[str] = []
        self.groups = 0  # acknowledged
        self._hdfs = hdfs
        self._settings = settings
        self._clock = clock
        self._limits = limits
        self._alert = alert
        self._new_segment = new_segment
        self._abandoned = Abandoned(hdfs, settings, clock, alert)
        self._long = long
        self._segment: GrowingSegment | None = None
        self._settling = settling
        self._full: FullSegments[GrowingSegment] = FullSegments(clock, limits, settling)
        self._backlog = Backlog(limits.queue_bytes_max)
        self._task: asyncio.Task[None] | None = None
        self._used_at = self._checked_at = clock.monotonic()
        self._trouble: SegmentsUnavailable | None = None  # why no segment could be opened
        self._reopen_at = 0.0
        self._reopen_seconds = REOPEN_SECONDS
        self._end: BaseException | None = None  # why nothing is accepted any more

    @property
    def queued_bytes(self) -> int:
        """Bytes on their way: queued, and in the group being written."""
        return self._backlog.bytes

    async def append(self, members: Sequence[Appendable]) -> list[Location]:
        """See `SegmentWriter.append`. Waits while more than `queue_bytes_max` is on its way."""
        if self._long is not None and long_bytes(members):
            return await self._long.append(members)
        self._check()
        item = Append(members)
        await self._backlog.room(item.queued_bytes)
        self._check()
        self._backlog.put(item)
        self._start()
        return await item.result

    async def healthy(self) -> None:
        """See `SegmentWriter.healthy`: the NameNode takes writes, and enough DataNodes report. Seals when idle."""
        self._check()
        try:
            await self._ask_cluster()
        except HdfsFault as error:
            raise SegmentsUnavailable(f"HDFS does not serve: {error}") from error
        self.upkeep()
        if self._long is not None:
            self._long.upkeep()

    def upkeep(self) -> None:
        """Seal what is full or idle, check what has been idle for a while."""
        if self._end is None and (self._seal_due() or self._check_due()):
            self._start()

    async def settle(self, segment: str, offset: int) -> None:
        """See `SegmentWriter.settle`."""
        for one in [self._segment, *self._full]:
            if one is not None and one.name == segment:
                await one.settle(offset)
                return
        if self._long is not None:
            await self._long.settle(segment, offset)

    async def close(self) -> None:
        """See `SegmentWriter.close`. `CannotGoOn` if a seal failed: the segment is whole, but still `.open`."""
        self._end = self._end or CannotGoOn("the segment writer is closed")
        if self._task is not None:
            await asyncio.shield(self._task)
        self._set_aside()
        failed = [await self._seal(segment) for segment in self._full.pop_all()]
        await self._abandoned.close()
        if self._long is not None:
            await self._long.close()
            self.left_unsealed += self._long.left_unsealed
        if any(failed):
            raise CannotGoOn(f"{'; '.join(filter(None, failed))}: nothing is lost, recovery seals what is open")

    async def _ask_cluster(self) -> None:
        room = await self._hdfs.room()
        if room.datanodes < self._settings.replicas_min:
            detail = f"{room.datanodes} DataNodes report, {self._settings.replicas_min} replicas are required"
            self._alert("replicas_short", detail)
            raise HdfsFault(detail)
        if room.free_bytes < self._settings.min_free_bytes:
            raise HdfsFault(f"{room.free_bytes:,} bytes free, at least {self._settings.min_free_bytes:,} are needed")
        await self._hdfs.mkdirs(self._settings.root)  # refused in safe mode, by a standby, by a full quota

    def _check(self) -> None:
        if self._end is not None:
            raise copy_of(self._end)
        if self._trouble is not None and self._clock.monotonic() < self._reopen_at:
            raise copy_of(self._trouble)

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work(), name="segment writer")

    async def _work(self) -> None:
        try:
            while self._backlog or self._seal_due() or self._check_due():
                await self._step()
        except asyncio.CancelledError:
            self._die(CannotGoOn("the segment writer was stopped"))
            raise
        except BaseException as error:  # noqa: BLE001 - not lost: everybody who waits gets it, and whoever comes
            self._die(error)
        finally:
            self._task = None

    async def _step(self) -> None:
        """Seal one segment, commit one group, or check the one that is idle."""
        full = self._full.pop() or self._pop_idle()
        if full is not None:
            await self._seal(full)
            return
        if not self._backlog:
            await self._check_idle()
            return
        if self._segment is not None and self._is_full(self._segment, self._backlog.first):
            self._set_aside()
        if self._segment is None:
            self._segment = self._new_segment()
        segment = self._segment
        captures_max = min(self._settings.group_captures_max, self._limits.roll_captures_max - segment.captures)
        group = self._backlog.group(captures_max, self._limits.roll_bytes - segment.next_offset)
        try:
            await self._commit(segment, group)
        finally:
            self._used_at = self._clock.monotonic()
            self._backlog.release(group)

    async def _commit(self, segment: GrowingSegment, group: list[Append]) -> None:
        try:
            located = await segment.commit([item.members for item in group])
        except (SegmentFailed, SegmentsUnavailable) as error:
            self._failed(segment, error)
            fail(group, error)
        except asyncio.CancelledError:
            self._segment = None
            fail(group, SegmentFailed(f"the append to {segment.name} was interrupted"))
            raise
        except BaseException as error:
            self._segment = None
            fail(group, error)
            raise
        else:
            self.groups += 1
            self._trouble, self._reopen_seconds = None, REOPEN_SECONDS
            for item, locations in zip(group, located, strict=True):
                if self._settling is not None:
                    self._settling.appended(locations)
                if not item.result.done():
                    item.result.set_result(locations)

    async def _check_idle(self) -> None:
        segment = self._segment
        if segment is None:
            return
        self._checked_at = self._clock.monotonic()
        try:
            await segment.check()
        except SegmentFailed as error:
            self._failed(segment, error)

    def _failed(self, segment: GrowingSegment, error: SegmentFailed | SegmentsUnavailable) -> None:
        """Let go of the segment. One that never took anything says that HDFS takes nothing just now."""
        self._segment = None
        self._forget(segment)
        self._abandoned.take(segment)
        if segment.size_bytes:
            return
        self._trouble = SegmentsUnavailable(f"no segment can be opened: {error}")
        self._trouble.__cause__ = error
        self._reopen_at = self._clock.monotonic() + self._reopen_seconds
        self._reopen_seconds = min(2 * self._reopen_seconds, self._settings.reopen_seconds_max)
        self._backlog.fail(self._trouble)

    def _set_aside(self) -> None:
        """The segment gets no more captures; it waits for its seal."""
        if self._segment is not None:
            self._full.add(self._segment)
            self._segment = None

    async def _seal(self, segment: GrowingSegment) -> str:
        """Seal it, or leave it to recovery if a capture of it has no outcome; what went wrong, or ""."""
        unsettled = self._full.unsettled(segment)
        try:
            if unsettled is None:
                await segment.seal()
            else:
                self.left_unsealed.append(segment.name)
                await segment.leave(unsettled)
                self._abandoned.take(segment)
        except (HdfsFault, FileNotFoundError, FileExistsError) as error:
            self.left_unsealed.append(segment.name)
            self._alert("unsealed", f"{segment.name}: {error}")
            self._abandoned.take(segment)
            return f"segment {segment.name} could not be sealed: {error}"
        finally:
            self._forget(segment)
        return ""

    def _forget(self, segment: GrowingSegment) -> None:
        if self._settling is not None:
            self._settling.forget(segment.name)

    def _is_full(self, segment: GrowingSegment, item: Append) -> bool:
        if not segment.captures:
            return False
        too_long = segment.next_offset + item.size_bytes > self._limits.roll_bytes
        return too_long or segment.captures >= self._limits.roll_captures_max

    def _seal_due(self) -> bool:
        return self._full.is_due() or self._is_idle()

    def _is_idle(self) -> bool:
        used = self._segment is not None and self._segment.captures > 0
        return used and not self._backlog and self._clock.monotonic() - self._used_at >= self._limits.idle_seal_seconds

    def _pop_idle(self) -> GrowingSegment | None:
        if not self._is_idle():
            return None
        segment, self._segment = self._segment, None
        return segment

    def _check_due(self) -> bool:
        since = max(self._used_at, self._checked_at)
        idle = self._segment is not None and self._segment.captures > 0 and not self._backlog
        return idle and self._clock.monotonic() - since >= self._settings.idle_check_seconds

    def _die(self, error: BaseException) -> None:
        self._end = error
        self._backlog.fail(error)

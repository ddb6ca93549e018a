"""The writer of local segments: group commit, rolling, backpressure."""

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from limpet.clock.port import Clock
from limpet.model.errors import CannotGoOn, Definite
from limpet.runtime.executor import Runner
from limpet.segments.full import FullSegments, WriterLimits
from limpet.segments.open_segment import OpenSegment
from limpet.segments.port import Appendable, Location, SegmentFailed
from limpet.segments.settling import Settling
from limpet.warc.members import MemberStream

FAILURES_MAX: Final = 3
"""Segments that may fail in a row before the disk is given up."""


class _Append:
    """One capture on its way into a segment."""

    def __init__(self, members: Sequence[Appendable], size_bytes: int, queued_bytes: int) -> None:
        self.members = members
        self.queued_bytes = queued_bytes  # in memory; a stream holds next to nothing
        self.size_bytes = size_bytes
        self.result: asyncio.Future[list[Location]] = asyncio.get_running_loop().create_future()


class LocalSegmentWriter:
    """`SegmentWriter` over local files. Whatever is queued while a sync runs becomes the next group.

    A full segment stays `.open` and locked a while: recovery looks for captures without an outcome in segments that are
    not sealed, and those appended last may not have theirs yet. `healthy` and later appends seal it. One that holds a
    capture without an outcome when its time has come, or at the end, is not sealed by us.

    Three failed segments in a row are a broken disk: `CannotGoOn` from then on. `left_unsealed` names segments that
    were let go without a seal, or whose seal failed: they stay `.open`, unlocked, and recovery seals them.

    `long`, if given, is a writer with a thread of its own. It takes the captures with a member that is a stream, into
    segments of its own, so that no other capture waits while hundreds of megabytes are packed and synced.
    """

    def __init__(
        self,
        *,
        runner: Runner,
        clock: Clock,
        limits: WriterLimits,
        new_segment: Callable[[int], OpenSegment],
        check_room: Callable[[], None],
        serials: Iterator[int] | None = None,
        long: "LocalSegmentWriter | None" = None,
        settling: Settling | None = None,
    ) -> None:
        self.left_unsealed: list[str] = []
        self._runner = runner
        self._clock = clock
        self._limits = limits
        self._new_segment = new_segment
        self._check_room = check_room
        self._serials = serials if serials is not None else itertools.count()
        self._long = long
        self._segment: OpenSegment | None = None
        self._settling = settling
        self._full: FullSegments[OpenSegment] = FullSegments(clock, limits, settling)
        self._queue: deque[_Append] = deque()
        self._queued_bytes = 0
        self._space = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._used_at = clock.monotonic()
        self._failures = 0
        self._end: BaseException | None = None  # why nothing is accepted any more

    @property
    def queued_bytes(self) -> int:
        """Bytes on their way: queued, and in the group being written."""
        return self._queued_bytes

    async def append(self, members: Sequence[Appendable]) -> list[Location]:
        """See `SegmentWriter.append`. Waits while more than `queue_bytes_max` is on its way."""
        at_hand = sum([len(member) for member in members if isinstance(member, bytes)])
        long_bytes = sum([member.size_bytes_max for member in members if isinstance(member, MemberStream)])
        if long_bytes and self._long is not None:
            return await self._long.append(members)
        item = _Append(members, at_hand + long_bytes, at_hand)
        while self._queued_bytes and self._queued_bytes + item.queued_bytes > self._limits.queue_bytes_max:
            self._space.clear()
            await self._space.wait()
        self._check_end()
        self._queue.append(item)
        self._queued_bytes += item.queued_bytes
        self._start()
        return await item.result

    async def healthy(self) -> None:
        """See `SegmentWriter.healthy`: goes through the writing thread, so a disk that hangs shows. Seals when idle."""
        self._check_end()
        await self._runner.run(self._check_room)
        if self._seal_due():
            self._start()
        if self._long is not None:
            self._long.seal_if_due()

    def seal_if_due(self) -> None:
        """Seal what is full or idle, without asking anything of a thread that may be busy for long."""
        if self._end is None and self._seal_due():
            self._start()

    async def settle(self, segment: str, offset: int) -> None:
        """See `SegmentWriter.settle`."""
        grown = [one for one in (self._segment, *self._full) if one and one.name == segment]
        with contextlib.suppress(OSError, Definite):
            for one in grown:
                await self._runner.run(partial(one.settle, offset))
        if self._long is not None and not grown:
            await self._long.settle(segment, offset)

    async def close(self) -> None:
        """See `SegmentWriter.close`. `CannotGoOn` if the seal failed: the segment is whole, but still `.open`."""
        self._end = self._end or CannotGoOn("the segment writer is closed")
        if self._task is not None:
            await asyncio.shield(self._task)
        self._set_aside()
        failed = [await self._seal(segment) for segment in self._full.pop_all()]
        if self._long is not None:
            await self._long.close()
            self.left_unsealed += self._long.left_unsealed
        if any(failed):
            raise CannotGoOn(f"{'; '.join(filter(None, failed))}: nothing is lost, the next start seals what is open")

    def _check_end(self) -> None:
        if self._end is not None:
            raise _copy(self._end)

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work(), name="segment writer")

    async def _work(self) -> None:
        try:
            while self._queue or self._seal_due():
                await self._step()
        except asyncio.CancelledError:
            self._die(CannotGoOn("the segment writer was stopped"))
            raise
        except BaseException as error:  # noqa: BLE001 - not lost: everybody who waits gets it, and whoever comes
            self._die(error)
        finally:
            self._task = None

    async def _step(self) -> None:
        """Seal one segment, or commit one group."""
        full = self._full.pop() or self._pop_idle()
        if full is not None:
            await self._seal(full)
            return
        self._drop_cancelled()
        if not self._queue:
            return
        if self._segment is not None and self._is_full(self._segment, self._queue[0]):
            self._set_aside()
        elif self._segment is None:
            self._segment = self._new_segment(next(self._serials))
        else:
            await self._commit(self._segment, self._take_group(self._segment))

    async def _commit(self, segment: OpenSegment, group: list[_Append]) -> None:
        captures = [item.members for item in group]
        try:
            located = await self._runner.run(lambda: segment.commit(captures))
        except (SegmentFailed, CannotGoOn) as error:
            self._count_failure(error)
            self._fail(group, error)
        except asyncio.CancelledError:
            segment.usable = False
            self._fail(group, SegmentFailed(f"the append to {segment.name} was interrupted"))
            raise
        except BaseException as error:
            segment.usable = False
            self._fail(group, error)
            raise
        else:
            self._failures = 0
            for item, locations in zip(group, located, strict=True):
                if self._settling is not None:
                    self._settling.appended(locations)
                if not item.result.done():
                    item.result.set_result(locations)
        finally:
            self._used_at = self._clock.monotonic()
            self._release(sum(item.queued_bytes for item in group))
            if not segment.usable:
                self._segment = None
                self._forget(segment)

    def _set_aside(self) -> None:
        """The segment gets no more captures; it waits for its seal."""
        if self._segment is not None:
            self._full.add(self._segment)
            self._segment = None

    async def _seal(self, segment: OpenSegment) -> str:
        """Seal it, or leave it to recovery if a capture of it has no outcome; what went wrong, or ""."""
        unsettled = self._full.unsettled(segment)
        try:
            if unsettled is None:
                await self._runner.run(segment.seal)
            else:
                self.left_unsealed.append(segment.name)
                await self._runner.run(lambda: segment.leave(unsettled))
        except (OSError, Definite) as error:
            self.left_unsealed.append(segment.name)
            return f"segment {segment.name} could not be sealed: {error}"
        finally:
            self._forget(segment)
        return ""

    def _forget(self, segment: OpenSegment) -> None:
        if self._settling is not None:
            self._settling.forget(segment.name)

    def _take_group(self, segment: OpenSegment) -> list[_Append]:
        """What is queued and fits, at least one."""
        group = [self._queue.popleft()]
        captures = segment.captures + 1
        offset = segment.next_offset + group[0].size_bytes
        self._drop_cancelled()
        while self._queue and captures < self._limits.roll_captures_max:
            if offset + self._queue[0].size_bytes > self._limits.roll_bytes:
                break
            group.append(self._queue.popleft())
            offset += group[-1].size_bytes
            captures += 1
            self._drop_cancelled()
        return group

    def _is_full(self, segment: OpenSegment, item: _Append) -> bool:
        if not segment.captures:
            return False
        too_long = segment.next_offset + item.size_bytes > self._limits.roll_bytes
        return too_long or segment.captures >= self._limits.roll_captures_max

    def _seal_due(self) -> bool:
        return self._full.is_due() or self._is_idle()

    def _is_idle(self) -> bool:
        used = self._segment is not None and self._segment.captures > 0
        return used and not self._queue and self._clock.monotonic() - self._used_at >= self._limits.idle_seal_seconds

    def _pop_idle(self) -> OpenSegment | None:
        if not self._is_idle():
            return None
        segment, self._segment = self._segment, None
        return segment

    def _drop_cancelled(self) -> None:
        """An append whose caller has gone is not written: nobody would ever say where it is."""
        while self._queue and self._queue[0].result.done():
            self._release(self._queue.popleft().queued_bytes)

    def _release(self, size_bytes: int) -> None:
        self._queued_bytes -= size_bytes
        self._space.set()

    def _count_failure(self, error: SegmentFailed | CannotGoOn) -> None:
        self._failures += isinstance(error, SegmentFailed)
        if self._failures >= FAILURES_MAX:
            self._end = CannotGoOn(f"{self._failures} segments failed in a row, the last: {error}")

    def _die(self, error: BaseException) -> None:
        self._end = error
        queue, self._queue = self._queue, deque()
        self._fail(queue, error)
        self._release(sum(item.queued_bytes for item in queue))

    @staticmethod
    def _fail(items: Iterable[_Append], error: BaseException) -> None:
        for item in items:
            if not item.result.done():
                item.result.set_exception(_copy(error))


def _copy(error: BaseException) -> BaseException:
    """One exception for each waiter: a shared one would collect all their tracebacks."""
    if not isinstance(error, (SegmentFailed, CannotGoOn)):
        return error
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy

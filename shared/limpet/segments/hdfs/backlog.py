"""Captures on their way into segments."""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence

from limpet.model.errors import CannotGoOn
from limpet.segments.port import Appendable, Location, SegmentFailed, SegmentsUnavailable
from limpet.warc import MemberStream


class Append:
    """One capture, and who waits for its places."""

    def __init__(self, members: Sequence[Appendable]) -> None:
        self.members = members
        self.queued_bytes = sum(len(member) for member in members if isinstance(member, bytes))  # in memory
        self.size_bytes = self.queued_bytes + long_bytes(members)
        self.result: asyncio.Future[list[Location]] = asyncio.get_running_loop().create_future()


class Backlog:
    """Waits for room at one end, gives groups at the other. Appends whose caller has gone are dropped."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0  # queued, and in the group being written
        self._bytes_max = bytes_max
        self._queue: deque[Append] = deque()
        self._space = asyncio.Event()

    def __bool__(self) -> bool:
        self._drop_cancelled()
        return bool(self._queue)

    async def room(self, size_bytes: int) -> None:
        """Wait until so much fits; a capture larger than everything waits until nothing else is on its way."""
        while self.bytes and self.bytes + size_bytes > self._bytes_max:
            self._space.clear()
            await self._space.wait()

    def put(self, item: Append) -> None:
        """Queue it."""
        self._queue.append(item)
        self.bytes += item.queued_bytes

    @property
    def first(self) -> Append:
        """The one that waits longest. IndexError if none does."""
        return self._queue[0]

    def group(self, captures_max: int, bytes_max: int) -> list[Append]:
        """What waits longest and fits, at least one."""
        taken = [self._queue.popleft()]
        size_bytes = taken[0].size_bytes
        while self and len(taken) < captures_max and size_bytes + self._queue[0].size_bytes <= bytes_max:
            taken.append(self._queue.popleft())
            size_bytes += taken[-1].size_bytes
        return taken

    def release(self, items: Iterable[Append]) -> None:
        """They are on their way no longer."""
        self.bytes -= sum(item.queued_bytes for item in items)
        self._space.set()

    def fail(self, error: BaseException) -> None:
        """Everybody who waits gets `error`."""
        queue, self._queue = self._queue, deque()
        fail(queue, error)
        self.release(queue)

    def _drop_cancelled(self) -> None:
        """Not written: nobody would ever say where it is."""
        while self._queue and self._queue[0].result.done():
            self.release([self._queue.popleft()])


def long_bytes(members: Sequence[Appendable]) -> int:
    """What the members that are streams will come to, at most."""
    return sum(member.size_bytes_max for member in members if isinstance(member, MemberStream))


def fail(items: Iterable[Append], error: BaseException) -> None:
    """One exception for each waiter: a shared one would collect all their tracebacks."""
    for item in items:
        if not item.result.done():
            item.result.set_exception(copy_of(error))


def copy_of(error: BaseException) -> BaseException:
    """The same error, without the traceback; unknown ones as they are."""
    if not isinstance(error, (SegmentFailed, SegmentsUnavailable, CannotGoOn)):
        return error
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy

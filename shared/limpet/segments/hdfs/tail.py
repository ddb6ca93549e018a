"""Reads of the growing end of files, several records in one request."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Final

from limpet.clock.port import Clock
from limpet.segments.hdfs.cluster import FileBlocks, Hdfs, HdfsFault

GAP_BYTES_MAX: Final = 262_144
"""Ranges that are no farther apart are read in one request: asking costs about as much as so many bytes."""

SPAN_BYTES_MAX: Final = 8_388_608
PATHS_MAX: Final = 64
AVOID_SECONDS: Final = 30.0
"""A DataNode that failed is asked last for so long."""


class _Want:
    def __init__(self, offset: int, size_bytes: int) -> None:
        self.offset = offset
        self.end = offset + size_bytes
        self.data: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()


class TailReads:
    """What is asked for while a request runs goes into the next ones, file by file."""

    def __init__(self, hdfs: Hdfs, clock: Clock) -> None:
        self._hdfs = hdfs
        self._clock = clock
        self._wanted: dict[str, deque[_Want]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failed_at: dict[str, float] = {}
        self._closed: OrderedDict[str, int] = OrderedDict()
        self.requests = 0

    def closed_bytes(self, path: str) -> int:
        """How much of it lay in closed blocks when it was last read here."""
        return self._closed.get(path, 0)

    async def read(self, path: str, offset: int, size_bytes: int) -> bytes:
        """Up to `size_bytes` bytes at `offset`; shorter at the end. FileNotFoundError, `HdfsFault`."""
        want = _Want(offset, size_bytes)
        self._wanted.setdefault(path, deque()).append(want)
        if path not in self._tasks:
            self._tasks[path] = asyncio.get_running_loop().create_task(self._serve(path), name=f"tail of {path}")
        return await want.data

    async def _serve(self, path: str) -> None:
        try:
            await self._clock.sleep(0)  # those who ask in the same turn share the request
            while waiting := self._wanted.pop(path, None):
                wants = sorted((want for want in waiting if not want.data.done()), key=lambda want: want.offset)
                for group in ranges([(want.offset, want.end) for want in wants]):
                    await self._fill(path, [wants[index] for index in group])
        finally:
            del self._tasks[path]
            for want in self._wanted.pop(path, ()):
                want.data.cancel()

    async def _fill(self, path: str, group: Sequence[_Want]) -> None:
        start, end = group[0].offset, max(want.end for want in group)
        try:
            data = await self._ask(path, start, end - start)
        except Exception as error:  # noqa: BLE001 - not lost: everybody who waits gets it
            for want in group:
                if not want.data.done():
                    want.data.set_exception(_copy(error))
            return
        for want in group:
            if not want.data.done():
                want.data.set_result(data[want.offset - start : want.end - start])

    async def _ask(self, path: str, offset: int, size_bytes: int) -> bytes:
        """From the first DataNode that has all of it; else the most that any had."""
        found = await self._hdfs.blocks(path, offset, size_bytes)
        self._note(path, found)
        nodes = dict.fromkeys(node for block in reversed(found.blocks) for node in block.replicas)
        most: bytes | None = None
        trouble = f"no DataNode has {path}"
        for node in sorted(nodes, key=self._is_avoided):
            self.requests += 1
            try:
                data = await self._hdfs.tail(path, offset, size_bytes, node)
            except HdfsFault as error:
                self._failed_at[node] = self._clock.monotonic()
                trouble = str(error)
                continue
            if len(data) == size_bytes:
                return data
            most = data if most is None or len(data) > len(most) else most
            if offset + size_bytes > found.size_bytes:
                break  # and the NameNode knows no more either
        if most is None and found.blocks:
            raise HdfsFault(trouble)
        return most or b""

    def _note(self, path: str, found: FileBlocks) -> None:
        self._closed[path] = max((block.end for block in found.blocks if block.complete), default=0)
        self._closed.move_to_end(path)
        while len(self._closed) > PATHS_MAX:
            self._closed.popitem(last=False)

    def _is_avoided(self, node: str) -> bool:
        return self._clock.monotonic() - self._failed_at.get(node, float("-inf")) < AVOID_SECONDS


def ranges(wanted: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Groups of neighbours, as indexes into `wanted`: (start, end) in order of their starts.

    A group is no longer than a request may be, unless one range alone is.
    """
    groups: list[list[int]] = []
    first = end = 0
    for index, (wanted_start, wanted_end) in enumerate(wanted):
        if groups and wanted_start - end <= GAP_BYTES_MAX and wanted_end - first <= SPAN_BYTES_MAX:
            groups[-1].append(index)
            end = max(end, wanted_end)
        else:
            groups.append([index])
            first, end = wanted_start, wanted_end
    return groups


def _copy(error: Exception) -> Exception:
    """One exception for each waiter: a shared one would collect all their tracebacks."""
    if isinstance(error, (HdfsFault, FileNotFoundError)):
        copy = type(error)(*error.args)
        copy.__cause__ = error.__cause__
        return copy
    return error

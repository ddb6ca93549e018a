"""Runners that fail on cue: what a SQLite file or an archive sees of a disk that fails, hangs or forgets to answer."""

import sqlite3
from collections.abc import Callable
from typing import TypeVar

from limpet.clock import Clock
from limpet.runtime.executor import InlineRunner, Runner

T = TypeVar("T")


class CountingRunner:
    """Passes everything on and counts it. `runs` goes on counting over several runners that share a counter."""

    def __init__(self, inner: Runner | None = None) -> None:
        self.runs = 0
        self._inner = inner or InlineRunner()

    async def run(self, work: Callable[[], T]) -> T:
        """See `Runner.run`."""
        self.runs += 1
        return await self._inner.run(work)

    def close(self) -> None:
        """See `Runner.close`."""
        self._inner.close()


class LostCommit(CountingRunner):
    """The `nth` call (1 = first) takes effect, then says that the disk failed."""

    def __init__(self, nth: int) -> None:
        super().__init__()
        self._nth = nth

    async def run(self, work: Callable[[], T]) -> T:
        """See `Runner.run`."""
        result = await super().run(work)
        if self.runs == self._nth:
            raise disk_io_error()
        return result


class FailedCommit(CountingRunner):
    """The `nth` call (1 = first) does nothing and says that the disk failed."""

    def __init__(self, nth: int) -> None:
        super().__init__()
        self._nth = nth

    async def run(self, work: Callable[[], T]) -> T:
        """See `Runner.run`."""
        if self.runs + 1 == self._nth:
            self.runs += 1
            raise disk_io_error()
        return await super().run(work)


class HangingRunner:
    """Between two moments (seconds on the clock's monotonic side) every call hangs, then goes on as if nothing was."""

    def __init__(self, clock: Clock, begin: float, end: float) -> None:
        self._clock = clock
        self._begin = begin
        self._end = end
        self._inner = InlineRunner()

    async def run(self, work: Callable[[], T]) -> T:
        """See `Runner.run`."""
        if self._begin <= self._clock.monotonic() < self._end:
            await self._clock.sleep(self._end - self._clock.monotonic())
        return await self._inner.run(work)

    def close(self) -> None:
        """See `Runner.close`."""
        self._inner.close()


def disk_io_error() -> sqlite3.OperationalError:
    """What sqlite3 raises when a sync failed."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    error.sqlite_errorname = "SQLITE_IOERR"
    return error

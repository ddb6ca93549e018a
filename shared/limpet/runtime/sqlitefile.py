"""One SQLite file with one writer, committed in groups.

Operations queue while the previous commit is under way; then all of them run as one transaction and share its sync.
The operations themselves run on the event loop and only COMMIT goes to the runner's thread: sqlite3 gives up the GIL
around every statement, and a thread that must win it back from a busy loop waits a switch interval (5 ms) each time.
"""

import asyncio
import os
import sqlite3
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from limpet.clock.port import Clock
from limpet.model.errors import CannotGoOn, Definite, Indefinite
from limpet.runtime.crashpoints import Killed
from limpet.runtime.executor import Runner
from limpet.runtime.sqliteopen import (
    FileLockedError,
    ReadOnlyFile,
    Synchronous,
    cannot_open,
    connect_read_only,
    connect_writer,
    lock_file,
    open_read_only,
    read_counters,
)
from limpet.runtime.sqlitetx import Reader, Tx
from limpet.schemas.sqlite import Schema

__all__ = [
    "FileLockedError",
    "ReadOnlyFile",
    "Reader",
    "SqliteFile",
    "StoreFailed",
    "StoreStopped",
    "Tx",
    "open_read_only",
]

T = TypeVar("T")

GROUP_OPS_MAX: Final = 512
_OPERATION_FAULTS: Final = frozenset(
    {
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_TOOBIG,
        sqlite3.SQLITE_RANGE,
        sqlite3.SQLITE_MISUSE,
    }
)


class StoreFailed(Indefinite, CannotGoOn):
    """The disk or the file failed under a write, which may or may not be in it: the file is not written again."""


class StoreStopped(Definite, CannotGoOn):
    """The file failed before, or is closed; this write was not tried."""


class _Write:
    """One queued operation and whoever waits for it."""

    __slots__ = ("done", "error", "op", "result")

    def __init__(self, op: Callable[[Tx], Any], done: "asyncio.Future[Any]") -> None:
        self.op = op
        self.done = done
        self.result: Any = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        """Tell the waiter, unless it was cancelled meanwhile."""
        if self.done.done():
            return
        if self.error is None:
            self.done.set_result(self.result)
        else:
            self.done.set_exception(self.error)


class SqliteFile:
    """The owner's side of one file. See `write` and `read`; everybody else uses `open_read_only`.

    `synchronous` FULL syncs every commit; a rehearsal on memory may relax it. `commit_interval_seconds` is the least
    time between two commits, so that groups are worth a sync; a file that was idle commits at once. `cache_bytes` is
    split between the writing and the reading connection. Raises `FileLockedError` when the file has an owner, and
    `CannotGoOn` when it cannot be opened or is of another version.
    """

    def __init__(
        self,
        path: Path,
        *,
        schema: Schema,
        runner: Runner,
        clock: Clock,
        synchronous: Synchronous = "FULL",
        commit_interval_seconds: float = 0.05,
        cache_bytes: int = 2_000_000,
    ) -> None:
        self.path = path
        self._runner = runner
        self._clock = clock
        self._interval_seconds = commit_interval_seconds
        self._queue: deque[_Write] = deque()
        self._flusher: asyncio.Task[None] | None = None
        self._last_commit = float("-inf")
        self._held = float("-inf")
        self._failure = ""  # why the file is not written any more
        self._dead = False
        self._committing = False
        self._lock_fd = lock_file(path)
        try:
            self._open(schema, synchronous, cache_bytes)
        except sqlite3.Error as error:
            fault = cannot_open(path, error)
            os.close(self._lock_fd)
            raise fault from error
        except BaseException:
            os.close(self._lock_fd)
            raise

    def _open(self, schema: Schema, synchronous: Synchronous, cache_bytes: int) -> None:
        self._connection = connect_writer(self.path, schema, synchronous, cache_bytes * 3 // 4)
        self._reading = connect_read_only(self.path, cache_bytes // 4)
        self._tx = Tx(self._connection, schema.queries)
        self._reader = Reader(self._reading, schema.queries)
        self._totals = read_counters(self._reader)
        self.was_clean = self._reader.value("meta_get", ("clean",)) != "0"
        self._tx.run("meta_put", ("clean", "0"))

    # -- the two ways in ---------------------------------------------------------------------------------------------
    async def write(self, op: Callable[[Tx], T]) -> T:
        """Run `op` in the next transaction; its result once that is durable.

        An exception out of `op` undoes this operation alone (`Definite` for a constraint of the database). Raises
        `StoreFailed` when the disk failed under it, `StoreStopped` when the file had failed before, `Killed` after
        `abandon`. A caller that is cancelled does not take its operation back.
        """
        self.check()
        loop = asyncio.get_running_loop()
        write = _Write(op, loop.create_future())
        self._queue.append(write)
        if self._flusher is None:
            self._flusher = loop.create_task(self._flush())
        result: T = await write.done
        return result

    def read(self, op: Callable[[Reader], T]) -> T:
        """`op` over everything that is committed. Never waits for a writer. Raises `CannotGoOn` on a bad file."""
        if self._dead or self._lock_fd < 0:
            self.check()
        try:
            return op(self._reader)
        except sqlite3.Error as error:
            if not _is_fault_of_operation(error):
                self._fail(error, [])
            raise CannotGoOn(f"cannot read {self.path}: {error}") from error

    def pace(self, interval_seconds: float) -> None:
        """Change the least time between two commits: 0 for a stretch of single, waited-for writes."""
        self._interval_seconds = interval_seconds

    @property
    def totals(self) -> dict[str, int]:
        """Committed counters; a copy."""
        return dict(self._totals)

    def idle_seconds(self) -> float:
        """Since the last commit that held."""
        return self._clock.monotonic() - self._held

    @property
    def busy(self) -> bool:
        """Whether a commit is under way; an abandoned file is released when it ends."""
        return self._committing

    def check(self) -> None:
        """Raise what `write` would raise now."""
        if self._dead:
            raise Killed(str(self.path))
        if self._failure:
            raise StoreStopped(self._failure)

    # -- ends --------------------------------------------------------------------------------------------------------
    async def close(self) -> None:
        """Commit what is queued, mark the file clean and release it. After a failure it is released as it is."""
        while self._flusher is not None:
            await asyncio.wait([self._flusher])
        if self._lock_fd < 0:
            return
        try:
            if not self._failure:
                self._failure = f"{self.path} is closed"
                await self._runner.run(self._finish_blocking)
        except sqlite3.Error as error:
            raise CannotGoOn(f"cannot close {self.path} cleanly, it will be recovered: {error}") from error
        finally:
            self._release()

    def abandon(self) -> None:
        """Die, in a rehearsal: what was not committed is lost, every call from now on raises `Killed`."""
        self._dead = True
        self._settle_all(self._queue, Killed(str(self.path)))
        self._queue.clear()
        if not self._committing:
            self._release()

    def _finish_blocking(self) -> None:
        self._tx.run("meta_put", ("clean", "1"))
        self._connection.execute("PRAGMA busy_timeout = 100").fetchall()  # a reader elsewhere only leaves a longer WAL
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _release(self) -> None:
        """Close. The reader goes last and cannot checkpoint: nothing is written to a file that failed."""
        if self._lock_fd < 0:
            return
        self._connection.close()
        self._reading.close()
        os.close(self._lock_fd)
        self._lock_fd = -1

    # -- group commit ------------------------------------------------------------------------------------------------
    async def _flush(self) -> None:
        try:
            while self._queue:
                await self._pace()
                group = [self._queue.popleft() for _ in range(min(len(self._queue), GROUP_OPS_MAX))]
                if group:
                    await self._commit(group)
        finally:
            self._flusher = None

    async def _pace(self) -> None:
        wait_seconds = self._last_commit + self._interval_seconds - self._clock.monotonic()
        if wait_seconds > 0:
            await self._clock.sleep(wait_seconds)
        self._last_commit = self._clock.monotonic()

    async def _commit(self, group: list[_Write]) -> None:
        self._committing = True
        try:
            totals = self._run(group)
            await self._runner.run(self._commit_blocking)
        except Exception as error:  # noqa: BLE001 - whatever broke the commit, nobody may be left waiting
            self._fail(error, group)
        else:
            self._succeed(totals, group)
        finally:
            self._committing = False
            if self._dead:
                self._settle_all(group, Killed(str(self.path)))
                self._release()

    def _commit_blocking(self) -> None:
        self._connection.execute("COMMIT")

    def _succeed(self, totals: dict[str, int], group: list[_Write]) -> None:
        if self._dead:
            return
        self._totals = totals
        self._held = self._clock.monotonic()
        for callback in self._tx.after:
            callback()
        for write in group:
            write.settle()

    def _run(self, group: list[_Write]) -> dict[str, int]:
        """Run the operations in one open transaction; the counters as they will be."""
        self._begin()
        try:
            for write in group:
                write.result = write.op(self._tx)
        except Exception as error:
            if not _is_fault_of_operation(error):
                raise
            self._connection.execute("ROLLBACK")
            self._begin()
            for write in group:
                self._run_alone(write)
        return self._store_counters()

    def _begin(self) -> None:
        self._tx.counts = {}
        self._tx.after = {}
        self._connection.execute("BEGIN IMMEDIATE")

    def _run_alone(self, write: _Write) -> None:
        """Run one operation inside a savepoint, so that its failure undoes nothing else."""
        counts, after = dict(self._tx.counts), dict(self._tx.after)
        self._connection.execute("SAVEPOINT operation")
        try:
            write.result = write.op(self._tx)
        except Exception as error:
            if not _is_fault_of_operation(error):
                raise
            self._connection.execute("ROLLBACK TO operation")
            self._tx.counts, self._tx.after = counts, after
            write.error = self._translated(error)
        self._connection.execute("RELEASE operation")

    def _store_counters(self) -> dict[str, int]:
        if not self._tx.counts:
            return self._totals
        totals = dict(self._totals)
        for counter, delta in self._tx.counts.items():
            totals[counter] = totals.get(counter, 0) + delta
        self._tx.run("counters_put", (msgspec.json.encode(totals).decode(),))
        return totals

    # -- failure -----------------------------------------------------------------------------------------------------
    def _fail(self, error: Exception, group: list[_Write]) -> None:
        """Stop for good: after a failed sync the kernel may have dropped what it could not write (fsyncgate, 2018)."""
        self._failure = self._failure or f"{self.path} failed and is not written any more: {error}"
        for write in group:
            failure = StoreFailed(f"cannot write {self.path}: {error}")
            failure.__cause__ = error
            write.error = failure
            write.settle()
        self._settle_all(self._queue, StoreStopped(self._failure))
        self._queue.clear()

    def _settle_all(self, writes: "deque[_Write] | list[_Write]", error: BaseException) -> None:
        for write in writes:
            write.error = error
            write.settle()

    def _translated(self, error: Exception) -> Exception:
        if not isinstance(error, sqlite3.Error):
            return error
        definite = Definite(f"{self.path} refused the write: {error}")
        definite.__cause__ = error
        return definite


def _is_fault_of_operation(error: Exception) -> bool:
    """Whether the operation is to blame, not the disk or the file."""
    if not isinstance(error, sqlite3.Error):
        return True
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE)
    return code & 0xFF in _OPERATION_FAULTS

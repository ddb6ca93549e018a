"""The seen set on SQLite: one file a shard, whole fingerprints, written behind.

Marks may be lost by contract: they gather in memory and go to the file in large sorted batches without a sync, and a
file that cannot be read is thrown away. What was met lately stays in memory, since most links of a page were on the
page before it.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from limpet.model.errors import CannotGoOn
from limpet.runtime.crashpoints import Killed
from limpet.runtime.executor import Runner
from limpet.runtime.sqliteopen import STATEMENTS_MAX
from limpet.schemas.sqlite import seen_schema

BATCH: Final = 2048
RECENT_MAX: Final = 2048
CACHE_KIB: Final = 512
FP_BYTES: Final = 16


class SqliteSeen:
    """See `SeenShard`. The owner of the shard's own file owns this one too; there is no lock besides that one's.

    Up to `batch` marks wait in memory for one write; up to twice `recent_max` more are remembered.
    Raises `CannotGoOn` when no file can be made at `path`.
    """

    def __init__(self, path: Path, runner: Runner, *, batch: int = BATCH, recent_max: int = RECENT_MAX) -> None:
        self.path = path
        self._runner = runner
        self._batch = batch
        self._recent_max = recent_max
        self._schema = seen_schema()
        self._one = self._schema.queries["seen_one"]
        self._pending: set[bytes] = set()  # marked, not yet on its way to the file
        self._writing: set[bytes] = set()  # on its way
        self._recent: set[bytes] = set()
        self._less_recent: set[bytes] = set()
        self._lock = asyncio.Lock()
        self._broken = False
        self._dead = False
        self._connections: list[sqlite3.Connection] = []
        try:
            self._connect()
        except sqlite3.Error:
            self._replace()

    # -- the port ------------------------------------------------------------------------------------------------------
    async def present(self, fps: Sequence[bytes]) -> list[bool]:
        """See `SeenShard.present`. A file that cannot be read knows nothing."""
        self._check()
        return [self._met(fp) or self._stored(fp) for fp in fps]

    async def mark(self, fps: Sequence[bytes]) -> None:
        """See `SeenShard.mark`. Raises ValueError for a fingerprint that is not 16 bytes long."""
        self._check()
        if any(len(fp) != FP_BYTES for fp in fps):
            raise ValueError("a fingerprint has 16 bytes")
        self._pending.update(fp for fp in fps if not self._met(fp))
        if len(self._pending) >= self._batch and not self._lock.locked():
            await self.flush()

    async def clear(self) -> None:
        """See `SeenShard.clear`."""
        self._check()
        async with self._lock:
            for marks in (self._pending, self._recent, self._less_recent):
                marks.clear()
            self._replace()

    async def close(self) -> None:
        """See `SeenShard.close`."""
        if not self._dead:
            await self.flush()
        self._disconnect()

    def abandon(self) -> None:
        """Die, in a rehearsal: pending marks are lost, every call from now on raises `Killed`."""
        self._dead = True
        self._disconnect()

    def _check(self) -> None:
        if self._dead:
            raise Killed(str(self.path))

    # -- memory --------------------------------------------------------------------------------------------------------
    def _met(self, fp: bytes) -> bool:
        return fp in self._recent or fp in self._pending or fp in self._less_recent or fp in self._writing

    def _remember(self, fp: bytes) -> None:
        if len(self._recent) >= self._recent_max:
            self._recent, self._less_recent = set(), self._recent
        self._recent.add(fp)

    # -- the file ------------------------------------------------------------------------------------------------------
    async def flush(self) -> None:
        """Write what is pending, in one statement: it runs to its end without the GIL, on whatever thread."""
        async with self._lock:
            if not self._pending:
                return
            if self._broken:
                self._replace()
            self._writing, self._pending = self._pending, set()
            marks = b"".join(sorted(self._writing))
            try:
                await self._runner.run(lambda: self._write(marks))
            except sqlite3.Error:
                self._broken = True
            for fp in self._writing:
                self._remember(fp)
            self._writing = set()

    def _write(self, marks: bytes) -> None:
        self._connections[0].execute(self._schema.queries["seen_add"], (marks,)).fetchall()

    def _stored(self, fp: bytes) -> bool:
        try:
            found = bool(self._reader.execute(self._one, (fp,)).fetchall())
        except sqlite3.Error:
            self._broken = True  # replaced before the next write, which nothing else may be using the file for
            return False
        if found:
            self._remember(fp)
        return found

    def _connect(self) -> None:
        self._connections = [self._connection()]
        writer = self._connections[0]
        version = writer.execute("PRAGMA user_version").fetchall()[0][0]
        if version != self._schema.version:
            create = f"BEGIN; {self._schema.script} PRAGMA user_version = {self._schema.version}; COMMIT;"
            writer.executescript(create)
        self._connections.append(self._connection())
        self._reader = self._connections[1].cursor()
        self._reader.execute(self._one, (b"",)).fetchall()

    def _connection(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS_MAX
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            connection.execute("PRAGMA secure_delete = OFF").fetchall()
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _disconnect(self) -> None:
        for connection in self._connections:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        self._connections = []

    def _replace(self) -> None:
        """Begin again with an empty file: losing marks costs row reads, never a URL."""
        self._disconnect()
        self._broken = False
        try:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
            self._connect()
        except (OSError, sqlite3.Error) as error:
            self._disconnect()
            raise CannotGoOn(f"cannot make {self.path}: {error}") from error

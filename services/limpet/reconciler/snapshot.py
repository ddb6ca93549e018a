"""One moment of one shard, read with plain SQL: checkers stand apart from the code that they check.

The snapshot lasts as long as its transaction, a few seconds a shard: a longer one would keep the owner's write-ahead
log from being emptied.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from limpet.runtime.sqliteopen import connect_read_only, other_version
from limpet.schemas.named import parse
from limpet.schemas.sqlite import SEEN_VERSION, SHARD_VERSION

CACHE_BYTES: Final = 4_000_000
READING_CACHE_BYTES: Final = 200_000


class Snapshot:
    """Named queries of `verify.sql` over one shard. `has_marks` tells whether its seen file could be attached."""

    def __init__(self, connection: sqlite3.Connection, *, has_marks: bool = False) -> None:
        self.has_marks = has_marks
        self._connection = connection

    def rows(self, name: str, params: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of query `name`, one by one. Raises sqlite3.Error."""
        return iter(self._connection.execute(queries()[name], params))

    def one(self, name: str, params: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """The first row of query `name`, or None. Raises sqlite3.Error."""
        rows = self._connection.execute(queries()[name], params).fetchmany(1)
        return rows[0] if rows else None

    def value(self, name: str, params: tuple[Any, ...] = ()) -> Any:
        """The first column of the first row of query `name`, or None. Raises sqlite3.Error."""
        row = self.one(name, params)
        return row[0] if row is not None else None

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def faults(self, listed_max: int) -> list[str]:
        """What SQLite itself finds wrong with the file: broken pages, indexes that do not fit their tables."""
        found = self._connection.execute(f"PRAGMA main.integrity_check({listed_max:d})").fetchall()
        return [text for (text,) in found if text != "ok"]


@cache
def queries() -> dict[str, str]:
    """The statements of `verify.sql` by name."""
    text = resources.files("limpet.reconciler").joinpath("verify.sql").read_text("utf-8")
    return {query.name: query.text for query in parse(text, "verify.sql")}


@contextmanager
def snapshot(path: Path, seen_path: Path) -> Iterator[Snapshot]:
    """A shard at one moment. Raises sqlite3.Error for a damaged file, `CannotGoOn` for one of another version."""
    connection = open_shard(path, CACHE_BYTES)
    try:
        has_marks = _attach_marks(connection, seen_path)
        connection.execute("BEGIN")
        shard = Snapshot(connection, has_marks=has_marks)
        if has_marks:
            shard.value("pin_seen")
        yield shard
    finally:
        connection.close()


def reading(path: Path) -> Snapshot:
    """A shard as it is at each question, for looking up what never changes. Errors as `snapshot`."""
    return Snapshot(open_shard(path, READING_CACHE_BYTES))


def open_shard(path: Path, cache_bytes: int) -> sqlite3.Connection:
    """A connection that can only read. Errors as `snapshot`."""
    connection = _connect(path, cache_bytes)
    version = connection.execute("PRAGMA user_version").fetchall()[0][0]
    if version != SHARD_VERSION:
        connection.close()
        raise other_version(path, version, SHARD_VERSION)
    return connection


def _connect(path: Path, cache_bytes: int) -> sqlite3.Connection:
    """Open for reading, also on a disk that cannot be written, where no shared memory file can be made."""
    try:
        connection = connect_read_only(path, cache_bytes)
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        log = path.with_name(path.name + "-wal")
        if not path.exists() or (log.exists() and log.stat().st_size):
            raise
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    return connection


def _attach_marks(connection: sqlite3.Connection, seen_path: Path) -> bool:
    if not seen_path.exists():
        return False
    try:
        connection.execute("ATTACH ? AS marks", (f"{seen_path.absolute().as_uri()}?mode=ro",))
        version = connection.execute("PRAGMA marks.user_version").fetchall()[0][0]
        connection.execute("SELECT 1 FROM marks.seen LIMIT 1").fetchall()
    except sqlite3.Error:
        return False  # the owner throws such a file away and starts another
    return bool(version == SEEN_VERSION)

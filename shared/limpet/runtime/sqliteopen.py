"""Opening SQLite files: the owner's lock, the owner's connection, and a reader's view from any process."""

import fcntl
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec

from limpet.model.errors import CannotGoOn, Definite, UsageError
from limpet.model.openfiles import files_are_out, too_many_files
from limpet.runtime.sqlitetx import Reader
from limpet.schemas.sqlite import Schema

T = TypeVar("T")
Synchronous = Literal["FULL", "NORMAL", "OFF"]

WAL_PAGES: Final = 1000  # of 4 KiB: checkpointed by the commit that passes it, so that no WAL grows without bound
WAL_BYTES_MAX: Final = 8_388_608
BUSY_SECONDS: Final = 10.0  # readers of another process may hold the WAL's recovery lock for a moment
STATEMENTS_MAX: Final = 256
_VERSION_AT: Final = 60
_STEPS_CACHE_BYTES: Final = 16_000_000
_COUNTERS: Final = msgspec.json.Decoder(dict[str, int])


class OtherVersionError(UsageError, CannotGoOn):
    """The file was written by another version of Limpet, which can read it."""


class OlderVersionError(OtherVersionError):
    """The file was written by an earlier Limpet, and `bring_up_to_date` makes it one of this version."""


def other_version(path: Path, found: int, ours: int, *, steps: bool = False) -> CannotGoOn:
    """The error that names both versions and the way out. No version has the number 0: such a file was never ours.

    `steps`: whether there are steps from the version found to ours.
    """
    if found == 0:
        return CannotGoOn(f"{path} is damaged or empty: it has none of the tables of a crawl")
    if steps:
        return OlderVersionError(f"{path} has schema version {found}, not yet {ours}: open it where it can be written")
    return OtherVersionError(f"{path} has schema version {found}, not {ours}: use the Limpet that made it")


class TooManyFilesError(CannotGoOn):
    """The process may not open as many files as it needs: no fault of the file that was asked for."""


def cannot_open(path: Path, error: sqlite3.Error) -> CannotGoOn:
    """The error for a file that SQLite could not open; call it before anything is closed."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CANTOPEN and files_are_out():
        return TooManyFilesError(too_many_files())
    return CannotGoOn(f"cannot open {path}: {error}")


class FileLockedError(Definite):
    """Another process owns this file."""


def lock_file(path: Path) -> int:
    """Take the lock beside `path`; the descriptor that holds it. The kernel drops it when the process dies.

    Raises `FileLockedError` when it is held. A lock file of its own: closing any descriptor of the database itself
    would drop SQLite's POSIX locks (https://www.sqlite.org/howtocorrupt.html, 2.2).
    """
    fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise FileLockedError(f"{path} is in use by another process") from None
    return fd


def connect_writer(path: Path, schema: Schema, synchronous: Synchronous, cache_bytes: int) -> sqlite3.Connection:
    """The one connection that writes; creates the tables of a new file. Raises sqlite3.Error, `CannotGoOn`."""
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS_MAX
    )
    try:
        _set_up(connection, synchronous, cache_bytes)
        _create(connection, path, schema)
    except BaseException:
        connection.close()
        raise
    return connection


def _set_up(connection: sqlite3.Connection, synchronous: Synchronous, cache_bytes: int) -> None:
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute(f"PRAGMA cache_size = -{max(cache_bytes // 1024, 64)}")
    connection.execute("PRAGMA secure_delete = OFF").fetchall()  # some builds zero what is deleted: a write for nothing
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}").fetchall()
    connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_MAX}").fetchall()


def _create(connection: sqlite3.Connection, path: Path, schema: Schema) -> None:
    version = connection.execute("PRAGMA user_version").fetchall()[0][0]
    if version == schema.version:
        return
    if version != 0:
        _take_steps(connection, path, schema, version)
        return
    connection.executescript(f"BEGIN IMMEDIATE; {schema.script} PRAGMA user_version = {schema.version}; COMMIT;")
    _sync_directory(path.parent)


def _take_steps(connection: sqlite3.Connection, path: Path, schema: Schema, version: int) -> None:
    """From an earlier version to ours: all steps, and a note of each in `meta`, or nothing."""
    steps = schema.steps_from(version)
    if not steps:
        raise other_version(path, version, schema.version)
    for name, function in schema.functions.items():
        connection.create_function(name, 1, function, deterministic=True)
    taken = "".join(f"{step.script}\nINSERT INTO meta VALUES ('step_{step.to}', '{step.name}');\n" for step in steps)
    connection.executescript(f"BEGIN IMMEDIATE; {taken} PRAGMA user_version = {schema.version}; COMMIT;")


def version_of(path: Path) -> int:
    """The schema version as the file's header has it, 0 when it has none; nothing is opened but the file itself.

    A commit that is still in the write-ahead log may have raised it: what says "old" here is looked at again.
    """
    with path.open("rb") as file:
        header = file.read(_VERSION_AT + 4)
    return int.from_bytes(header[_VERSION_AT:], "big")  # https://www.sqlite.org/fileformat2.html#database_header


def bring_up_to_date(path: Path, schema: Schema) -> None:
    """Make a file of an earlier version one of ours, under its owner's lock. One of ours is left as it is.

    Raises `FileLockedError` when it has an owner, `OtherVersionError` when there is no way, `CannotGoOn`.
    """
    lock = lock_file(path)
    try:
        connection = connect_writer(path, schema, "FULL", _STEPS_CACHE_BYTES)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()  # so that the header tells
        connection.close()
    except sqlite3.Error as error:
        raise cannot_open(path, error) from error
    finally:
        os.close(lock)


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def connect_read_only(path: Path, cache_bytes: int) -> sqlite3.Connection:
    """A connection that cannot write, not even a checkpoint. Raises sqlite3.Error."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=STATEMENTS_MAX,
    )
    connection.execute(f"PRAGMA cache_size = -{max(cache_bytes // 1024, 64)}")
    return connection


def read_counters(reader: Reader) -> dict[str, int]:
    """The committed counters of a file."""
    totals = reader.value("counters_get")
    return _COUNTERS.decode(totals) if totals else {}


class ReadOnlyFile:
    """Another owner's file, read from outside. Sees every commit as soon as it is made."""

    def __init__(self, path: Path, connection: sqlite3.Connection, schema: Schema) -> None:
        self.path = path
        self._connection = connection
        self._reader = Reader(connection, schema.queries)

    def read(self, op: Callable[[Reader], T]) -> T:
        """`op` over everything that is committed. Raises `CannotGoOn` when the file cannot be read."""
        try:
            return op(self._reader)
        except sqlite3.Error as error:
            raise CannotGoOn(f"cannot read {self.path}: {error}") from error

    @property
    def totals(self) -> dict[str, int]:
        """Committed counters."""
        return self.read(read_counters)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()


def open_read_only(path: Path, schema: Schema, cache_bytes: int = 500_000) -> ReadOnlyFile:
    """Read a file that another process (or another part of this one) owns. Needs no lock and disturbs no writer.

    Raises `CannotGoOn` when it does not exist, is damaged, or is of another version.
    """
    try:
        connection = connect_read_only(path, cache_bytes)
    except sqlite3.Error as error:
        raise cannot_open(path, error) from error
    try:
        version = connection.execute("PRAGMA user_version").fetchall()[0][0]
    except sqlite3.Error as error:
        fault = cannot_open(path, error)
        connection.close()
        raise fault from error
    if version != schema.version:
        connection.close()
        raise other_version(path, version, schema.version, steps=bool(schema.steps_from(version)))
    return ReadOnlyFile(path, connection, schema)

"""A file on SQLite with a table of its own, runners that count or take their time, and virtual time."""

import subprocess
import sys
import textwrap
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from limpet.clock import SystemClock
from limpet.clock.port import Clock
from limpet.runtime import InlineRunner, Runner
from limpet.runtime.sqlitefile import Reader, SqliteFile, Tx
from limpet.schemas.sqlite import Schema, shard_schema
from limpet.testing.loop import SimClock, VirtualLoop, run_virtual

T = TypeVar("T")

SCRIPT = "CREATE TABLE item (name TEXT PRIMARY KEY, value BLOB NOT NULL);"
QUERIES = {
    "put": "INSERT INTO item (name, value) VALUES (?, ?)",
    "all": "SELECT name FROM item ORDER BY name",
    "pages_max": "PRAGMA max_page_count = 40",
    "nonsense": "SELECT name FROM nowhere",
    "values": "SELECT value FROM item",
}


def schema() -> Schema:
    """A table of our own beside what every file has."""
    base = shard_schema()
    return Schema(1, base.script + SCRIPT, {**base.queries, **QUERIES})


class CountingRunner:
    """Runs inline and counts: one run is one commit."""

    def __init__(self) -> None:
        self.runs = 0

    async def run(self, work: Callable[[], T]) -> T:
        self.runs += 1
        return work()

    def close(self) -> None:
        """Nothing to stop."""


class SlowRunner(CountingRunner):
    """A commit that takes `seconds`."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        super().__init__()
        self._clock = clock
        self._seconds = seconds

    async def run(self, work: Callable[[], T]) -> T:
        await self._clock.sleep(self._seconds)
        return await super().run(work)


def opened(path: Path, runner: Runner | None = None, **how: Any) -> SqliteFile:
    """The file at `path`."""
    values: dict[str, Any] = {"clock": SystemClock(), "synchronous": "OFF", "commit_interval_seconds": 0.0} | how
    return SqliteFile(path, schema=schema(), runner=runner or InlineRunner(), **values)


def put(name: str, value: bytes = b"") -> Callable[[Tx], int]:
    """An operation."""
    return lambda tx: tx.run("put", (name, value))


def names(reader: Reader) -> list[str]:
    """What is stored."""
    return [name for (name,) in reader.all("all")]


def size(path: Path) -> int:
    """Length of a file."""
    return path.stat().st_size


def virtual(main: Callable[[SimClock], Coroutine[Any, Any, T]]) -> T:
    """`main` on virtual time."""
    loop = VirtualLoop()
    return run_virtual(main(SimClock(loop)), loop)


def python(program: str, path: Path) -> subprocess.CompletedProcess[str]:
    """A program run to its end in another process; `TESTS` in it stands for the folder of the tests."""
    return subprocess.run(_command(program, path), capture_output=True, text=True, timeout=60, check=True)


def started(program: str, path: Path) -> subprocess.Popen[str]:
    """The same, under way."""
    return subprocess.Popen(_command(program, path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _command(program: str, path: Path) -> list[str]:
    tests = repr(str(Path(__file__).parents[2]))
    return [sys.executable, "-c", textwrap.dedent(program).replace("TESTS", tests), str(path)]

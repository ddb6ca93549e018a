"""One file, one writer, commits in groups: what every store on SQLite stands on."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from limpet.clock import SystemClock
from limpet.clock.port import Clock
from limpet.model.errors import CannotGoOn, Definite, Indefinite
from limpet.runtime import InlineRunner, Killed, Runner, ThreadRunner
from limpet.runtime.sqlitefile import FileLockedError, Reader, SqliteFile, StoreFailed, StoreStopped, Tx, open_read_only
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


# -- groups ------------------------------------------------------------------------------------------------------------
def test_what_is_queued_together_is_committed_together(tmp_path: Path) -> None:
    """A hundred writes of one moment are one commit, and each gets its own answer."""

    async def main() -> None:
        runner = CountingRunner()
        file = opened(tmp_path / "f", runner)
        answers = await asyncio.gather(*(file.write(put(f"{n:03}")) for n in range(100)))
        assert answers == [1] * 100
        assert runner.runs == 1
        assert len(file.read(names)) == 100
        await file.close()

    asyncio.run(main())


def test_what_comes_during_a_commit_shares_the_next_one(tmp_path: Path) -> None:
    """Nobody waits for more than two commits."""

    async def main(clock: SimClock) -> None:
        runner = SlowRunner(clock, 1.0)
        file = opened(tmp_path / "f", runner, clock=clock)
        first = asyncio.create_task(file.write(put("first")))
        await clock.sleep(0.5)
        later = [asyncio.create_task(file.write(put(str(n)))) for n in range(5)]
        await asyncio.gather(first, *later)
        assert (runner.runs, clock.monotonic()) == (2, 2.0)
        file.abandon()

    virtual(main)


def test_commits_keep_their_distance_and_an_idle_file_commits_at_once(tmp_path: Path) -> None:
    """The interval is the least time between two commits, not a delay of the first."""

    async def main(clock: SimClock) -> None:
        runner = CountingRunner()
        file = opened(tmp_path / "f", runner, clock=clock, commit_interval_seconds=0.5)
        await clock.sleep(7)
        times = []
        for name in "abc":
            await file.write(put(name))
            times.append(clock.monotonic())
        assert times == [7.0, 7.5, 8.0]
        await clock.sleep(3)
        await file.write(put("d"))
        assert (clock.monotonic(), runner.runs) == (11.0, 4)
        file.abandon()

    virtual(main)


def test_a_large_queue_is_cut_into_groups(tmp_path: Path) -> None:
    """No transaction is without bound."""

    async def main() -> None:
        runner = CountingRunner()
        file = opened(tmp_path / "f", runner)
        await asyncio.gather(*(file.write(put(str(n))) for n in range(1100)))
        assert runner.runs == 3
        assert len(file.read(names)) == 1100
        await file.close()

    asyncio.run(main())


# -- an operation that fails -------------------------------------------------------------------------------------------
def test_an_operation_that_raises_undoes_only_itself(tmp_path: Path) -> None:
    """Its neighbours of the same group are committed; what it wrote and counted before it raised is not."""

    async def main() -> None:
        file = opened(tmp_path / "f")

        def broken(tx: Tx) -> None:
            tx.run("put", ("half", b""))
            tx.count("things", 100)
            tx.then(lambda: called.append("broken"))
            raise ValueError("no")

        def counted(tx: Tx) -> None:
            tx.run("put", ("whole", b""))
            tx.count("things", 1)
            tx.then(lambda: called.append("whole"))

        called: list[str] = []
        answers = await asyncio.gather(
            file.write(put("a")), file.write(broken), file.write(counted), file.write(broken), return_exceptions=True
        )
        assert isinstance(answers[1], ValueError)
        assert isinstance(answers[3], ValueError)
        assert file.read(names) == ["a", "whole"]
        assert file.totals["things"] == 1
        assert called == ["whole"]
        await file.close()

    asyncio.run(main())


def test_a_constraint_of_the_database_is_definite(tmp_path: Path) -> None:
    """It did not happen, the cause is kept, and the file goes on."""

    async def main() -> None:
        file = opened(tmp_path / "f")
        await file.write(put("a"))
        with pytest.raises(Definite, match="refused") as caught:
            await file.write(put("a"))
        assert isinstance(caught.value.__cause__, sqlite3.IntegrityError)
        with pytest.raises(Definite):
            await file.write(lambda tx: tx.run("nonsense"))
        with pytest.raises(KeyError):
            await file.write(lambda tx: tx.run("no such query"))
        await file.write(put("b"))
        assert file.read(names) == ["a", "b"]
        await file.close()

    asyncio.run(main())


def test_a_cancelled_caller_does_not_take_its_write_back(tmp_path: Path) -> None:
    """The operation was handed over; the others of its group notice nothing."""

    async def main(clock: SimClock) -> None:
        file = opened(tmp_path / "f", SlowRunner(clock, 1.0), clock=clock)
        gone = asyncio.create_task(file.write(put("gone")))
        kept = asyncio.create_task(file.write(put("kept")))
        await clock.sleep(0.5)
        gone.cancel()
        assert await kept == 1
        assert gone.cancelled()
        assert file.read(names) == ["gone", "kept"]
        file.abandon()

    virtual(main)


# -- reading -----------------------------------------------------------------------------------------------------------
def test_a_reader_neither_waits_for_a_writer_nor_sees_what_is_not_committed(tmp_path: Path) -> None:
    """A read in the middle of a transaction answers at once with the state before it."""

    async def main() -> None:
        file = opened(tmp_path / "f")
        await file.write(put("a"))

        def op(tx: Tx) -> tuple[list[str], list[str]]:
            tx.run("put", ("b", b""))
            return names(tx), file.read(names)

        assert await file.write(op) == (["a", "b"], ["a"])
        assert file.read(names) == ["a", "b"]
        await file.close()

    asyncio.run(main())


def test_a_callback_sees_its_commit_before_the_writer_hears_of_it(tmp_path: Path) -> None:
    """What is derived from a write is never behind what its writer knows."""

    async def main() -> None:
        file, seen = opened(tmp_path / "f"), []

        def op(tx: Tx) -> None:
            tx.run("put", ("a", b""))
            tx.then(lambda: seen.append(file.read(names)))

        await file.write(op)
        assert seen == [["a"]]
        await file.close()

    asyncio.run(main())


def test_a_bad_query_of_a_reader_does_not_stop_the_file(tmp_path: Path) -> None:
    """The fault is the question's."""

    async def main() -> None:
        file = opened(tmp_path / "f")
        with pytest.raises(CannotGoOn, match="nowhere"):
            file.read(lambda reader: reader.all("nonsense"))
        await file.write(put("a"))
        await file.close()

    asyncio.run(main())


# -- ends --------------------------------------------------------------------------------------------------------------
def test_a_closed_file_is_clean_and_a_killed_one_is_not(tmp_path: Path) -> None:
    """The next owner is told whether the last one ended by itself."""

    async def main() -> None:
        path = tmp_path / "f"
        file = opened(path)
        assert file.was_clean
        await file.close()
        file = opened(path)
        assert file.was_clean
        file.abandon()
        file = opened(path)
        assert not file.was_clean
        await file.close()
        file = opened(path)
        assert file.was_clean
        await file.close()

    asyncio.run(main())


def test_closing_commits_what_is_queued(tmp_path: Path) -> None:
    """And refuses what comes after."""

    async def main() -> None:
        path = tmp_path / "f"
        file = opened(path)
        pending = asyncio.create_task(file.write(put("a")))
        await asyncio.sleep(0)  # noqa: TID251 - the write is queued
        await file.close()
        assert await pending == 1
        with pytest.raises(StoreStopped, match="closed"):
            await file.write(put("b"))
        with pytest.raises(StoreStopped):
            file.read(names)
        await file.close()
        file = opened(path)
        assert file.read(names) == ["a"]
        await file.close()

    asyncio.run(main())


def test_death_loses_the_open_transaction_and_nothing_else(tmp_path: Path) -> None:
    """Whoever waits hears `Killed`, whoever asks later too; what was answered is there."""

    async def main() -> None:
        path = tmp_path / "f"
        file = opened(path)
        await file.write(put("answered"))
        waiting = asyncio.create_task(file.write(put("waiting")))
        await asyncio.sleep(0)  # noqa: TID251 - the write is queued
        file.abandon()
        for asking in (waiting, file.write(put("later"))):
            with pytest.raises(Killed):
                await asking
        with pytest.raises(Killed):
            file.read(names)
        file = opened(path)
        assert file.read(names) == ["answered"]
        await file.close()

    asyncio.run(main())


def test_death_during_a_commit_releases_the_file_when_the_commit_ends(tmp_path: Path) -> None:
    """The writers hear `Killed` whether or not it was durable, as after a real death."""

    async def main(clock: SimClock) -> None:
        path = tmp_path / "f"
        file = opened(path, SlowRunner(clock, 1.0), clock=clock)
        waiting = asyncio.create_task(file.write(put("a")))
        await clock.sleep(0.5)
        file.abandon()
        assert file.busy
        with pytest.raises(FileLockedError):
            opened(path)
        with pytest.raises(Killed):
            await waiting
        assert not file.busy
        file = opened(path)
        assert file.read(names) in (["a"], [])
        await file.close()

    virtual(main)


# -- failure of the disk -----------------------------------------------------------------------------------------------
def test_a_full_disk_stops_the_file_for_good(tmp_path: Path) -> None:
    """The writers of that transaction do not know; later ones are refused at once; what was answered is there."""

    async def main() -> None:
        path = tmp_path / "f"
        file = opened(path)
        await file.write(put("answered"))
        await file.write(lambda tx: tx.all("pages_max"))
        answers = await asyncio.gather(
            file.write(put("small")), file.write(put("large", bytes(400_000))), return_exceptions=True
        )
        for answer in answers:
            assert isinstance(answer, StoreFailed)
            assert isinstance(answer, Indefinite)
            assert isinstance(answer, CannotGoOn)
            assert str(path) in str(answer)
            assert "\n" not in str(answer)
            assert isinstance(answer.__cause__, sqlite3.Error)
        with pytest.raises(StoreStopped, match="failed") as caught:
            await file.write(put("tiny"))
        assert isinstance(caught.value, Definite)
        with pytest.raises(StoreStopped):
            file.check()
        assert file.read(names) == ["answered"]
        await file.close()
        file = opened(path)
        assert not file.was_clean
        assert file.read(names) == ["answered"]
        await file.close()

    asyncio.run(main())


def test_whoever_queues_behind_a_failing_commit_is_told_that_nothing_happened(tmp_path: Path) -> None:
    """Their operations were never tried."""

    async def main(clock: SimClock) -> None:
        file = opened(tmp_path / "f", BrokenCommit(clock), clock=clock)
        first = asyncio.create_task(file.write(put("a")))
        await clock.sleep(0.5)
        second = asyncio.create_task(file.write(put("b")))
        with pytest.raises(StoreFailed, match="disk I/O error"):
            await first
        with pytest.raises(StoreStopped):
            await second
        file.abandon()

    virtual(main)


class BrokenCommit(SlowRunner):
    """A sync that fails after a second."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, 1.0)

    async def run(self, work: Callable[[], T]) -> T:  # noqa: ARG002 - it never gets that far
        await self._clock.sleep(self._seconds)
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
        raise error


def test_a_write_error_of_the_kernel_stops_the_file(tmp_path: Path) -> None:
    """EFBIG under a real commit: one line that names the file, and the next owner finds everything answered."""
    path = tmp_path / "f"
    program = """
        import asyncio, resource, signal, sys
        sys.path[:0] = [TESTS]
        from pathlib import Path
        from unit.sqlite.test_sqlite_file import opened, put
        from limpet.model.errors import CannotGoOn

        async def main():
            file = opened(Path(sys.argv[1]), synchronous="FULL")
            await file.write(put("answered"))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
            try:
                await file.write(put("large", bytes(1_000_000)))
            except CannotGoOn as error:
                print(error)
            try:
                await file.write(put("small"))
            except CannotGoOn as error:
                print(type(error).__name__)

        asyncio.run(main())
    """
    done = _python(program, path)
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(f"cannot write {path}: ")
    assert lines[1] == "StoreStopped"

    async def main() -> None:
        file = opened(path)
        assert file.read(names) == ["answered"]
        await file.close()

    asyncio.run(main())


def test_a_file_that_is_no_database_is_refused_by_name(tmp_path: Path) -> None:
    """Opened by its owner or by anybody else; the lock is given back."""
    path = tmp_path / "f"
    path.write_bytes(b"this is not what you are looking for" * 1000)
    for _ in range(2):
        with pytest.raises(CannotGoOn, match=str(path)):
            opened(path)
        with pytest.raises(CannotGoOn, match=str(path)):
            open_read_only(path, schema())


def test_a_file_of_another_version_is_refused_by_name(tmp_path: Path) -> None:
    """Never adapted to: the error names both versions."""
    path = tmp_path / "f"
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA user_version = 77; CREATE TABLE t (x);")
    connection.close()
    with pytest.raises(CannotGoOn, match="version 77, not 1"):
        opened(path)
    with pytest.raises(CannotGoOn, match="version 77, not 1"):
        open_read_only(path, schema())


def test_damage_that_a_read_meets_stops_the_file(tmp_path: Path) -> None:
    """A page that makes no sense: the reader is told, and nothing is written to such a file any more."""

    async def main() -> None:
        path = tmp_path / "f"
        file = opened(path)
        for n in range(40):
            await file.write(put(f"{n:03}", bytes(2000)))
        await file.close()
        damaged = bytearray(path.read_bytes())
        damaged[4096 * 40 :] = os.urandom(len(damaged) - 4096 * 40)
        path.write_bytes(damaged)
        file = opened(path)
        with pytest.raises(CannotGoOn, match=str(path)):
            file.read(lambda reader: reader.all("values"))
        with pytest.raises(StoreStopped):
            await file.write(put("more"))
        await file.close()

    asyncio.run(main())


# -- locks and other processes -----------------------------------------------------------------------------------------
def test_a_file_has_one_owner(tmp_path: Path) -> None:
    """A second one is refused without touching the file, until the first lets go."""

    async def main() -> None:
        path = tmp_path / "f"
        file = opened(path)
        with pytest.raises(FileLockedError, match="in use"):
            opened(path)
        await file.write(put("a"))
        await file.close()
        again = opened(path)
        assert again.read(names) == ["a"]
        await again.close()

    asyncio.run(main())


def test_a_dead_process_holds_no_lock_and_loses_nothing_it_answered(tmp_path: Path) -> None:
    """`kill -9` in the middle of its work: the next owner opens at once and finds every acknowledged write."""
    path = tmp_path / "f"
    program = """
        import asyncio, sys
        sys.path[:0] = [TESTS]
        from pathlib import Path
        from unit.sqlite.test_sqlite_file import opened, put

        async def main():
            file = opened(Path(sys.argv[1]), synchronous="FULL")
            n = 0
            while True:
                await file.write(put(f"{n:06}"))
                print(n, flush=True)
                n += 1

        asyncio.run(main())
    """
    with _started(program, path) as process:
        assert process.stdout is not None
        answered = [int(process.stdout.readline()) for _ in range(50)][-1]
        with pytest.raises(FileLockedError):
            opened(path)
        os.kill(process.pid, signal.SIGKILL)
        answered = max([answered, *map(int, process.stdout.read().split("\n")[:-1])])

    async def main() -> None:
        file = opened(path)
        assert not file.was_clean
        stored = file.read(names)
        assert stored[: answered + 1] == [f"{n:06}" for n in range(answered + 1)]
        assert len(stored) <= answered + 2
        await file.close()

    asyncio.run(main())


def test_another_process_reads_while_the_owner_writes(tmp_path: Path) -> None:
    """It sees each commit as soon as it was answered, and cannot write."""
    path = tmp_path / "f"
    program = """
        import sys
        sys.path[:0] = [TESTS]
        from pathlib import Path
        from unit.sqlite.test_sqlite_file import names, open_read_only, schema

        file = open_read_only(Path(sys.argv[1]), schema())
        for _ in sys.stdin:
            print(",".join(file.read(names)), flush=True)
        try:
            file.read(lambda reader: reader.all("put", ("forbidden", b"")))
        except Exception as error:
            print(type(error).__name__)
        file.close()
    """

    async def main() -> None:
        file = opened(path, ThreadRunner("writer"), synchronous="FULL")
        await file.write(put("a"))
        with _started(program, path) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for name in "bcd":
                process.stdin.write("go\n")
                process.stdin.flush()
                assert process.stdout.readline().strip() == ",".join(file.read(names))
                await file.write(put(name))
            process.stdin.close()
            assert process.stdout.readline().strip() == "CannotGoOn"
            assert process.wait(20) == 0
        assert file.read(names) == ["a", "b", "c", "d"]
        await file.close()

    asyncio.run(main())


def test_a_file_is_read_after_its_owner_died_and_after_it_ended(tmp_path: Path) -> None:
    """The write-ahead log of a dead owner is part of the file; a reader needs no owner to see it."""

    async def main() -> None:
        path = tmp_path / "f"
        file = opened(path)
        await file.write(put("a"))
        file.abandon()
        reader = open_read_only(path, schema())
        assert reader.read(names) == ["a"]
        file = opened(path)
        await file.write(put("b"))
        assert reader.read(names) == ["a", "b"]
        await file.close()
        assert reader.read(names) == ["a", "b"]
        reader.close()
        reader = open_read_only(path, schema())
        assert reader.read(names) == ["a", "b"]
        reader.close()

    asyncio.run(main())


def test_there_is_nothing_to_read_where_no_file_is(tmp_path: Path) -> None:
    """A reader never creates one."""
    with pytest.raises(CannotGoOn, match="cannot open"):
        open_read_only(tmp_path / "f", schema())
    assert list(tmp_path.iterdir()) == []


def test_the_write_ahead_log_stays_bounded(tmp_path: Path) -> None:
    """However much is written, with a reader beside it."""

    async def main() -> None:
        path = tmp_path / "f"
        file = opened(path)
        reader = open_read_only(path, schema())
        for n in range(60):
            await file.write(put(f"{n:03}", bytes(300_000)))
            reader.read(names)
        assert size(Path(f"{path}-wal")) < 12_000_000
        assert size(path) > 15_000_000
        reader.close()
        await file.close()
        assert size(Path(f"{path}-wal")) == 0

    asyncio.run(main())


def _python(program: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(_command(program, path), capture_output=True, text=True, timeout=60, check=True)


def _started(program: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(_command(program, path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _command(program: str, path: Path) -> list[str]:
    tests = repr(str(Path(__file__).parents[2]))
    return [sys.executable, "-c", textwrap.dedent(program).replace("TESTS", tests), str(path)]

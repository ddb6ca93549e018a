"""One file, one writer, commits in groups: what every store on SQLite stands on."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from limpet.model.errors import CannotGoOn, Definite
from limpet.runtime import Killed
from limpet.runtime.sqlitefile import FileLockedError, StoreStopped, Tx
from limpet.testing.loop import SimClock
from unit.sqlite.files import CountingRunner, SlowRunner, names, opened, put, virtual


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

"""A file on SQLite whose disk is full, fails or has damaged it."""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from limpet.clock.port import Clock
from limpet.model.errors import CannotGoOn, Definite, Indefinite
from limpet.runtime.sqlitefile import StoreFailed, StoreStopped, open_read_only
from limpet.testing.loop import SimClock
from unit.sqlite.files import SlowRunner, T, names, opened, put, python, schema, virtual


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
        from unit.sqlite.files import opened, put
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
    done = python(program, path)
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

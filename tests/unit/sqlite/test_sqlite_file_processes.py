"""One owner of a file on SQLite, and other processes that read it, before and after its death."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from limpet.model.errors import CannotGoOn
from limpet.runtime import ThreadRunner
from limpet.runtime.sqlitefile import FileLockedError, open_read_only
from unit.sqlite.files import names, opened, put, schema, size, started


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
        from unit.sqlite.files import opened, put

        async def main():
            file = opened(Path(sys.argv[1]), synchronous="FULL")
            n = 0
            while True:
                await file.write(put(f"{n:06}"))
                print(n, flush=True)
                n += 1

        asyncio.run(main())
    """
    with started(program, path) as process:
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
        from limpet.runtime.sqlitefile import open_read_only
        from unit.sqlite.files import names, schema

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
        with started(program, path) as process:
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

"""The seen set on SQLite under what its contract leaves open: slow disks, damage, and other files in its place."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from limpet.clock.port import Clock
from limpet.model.errors import CannotGoOn
from limpet.runtime import InlineRunner, Killed
from limpet.seen.sqlite import SqliteSeen
from limpet.testing.loop import SimClock, VirtualLoop, run_virtual

T = TypeVar("T")


class SlowRunner:
    """A write that takes a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def run(self, work: Callable[[], T]) -> T:
        await self._clock.sleep(1)
        return work()

    def close(self) -> None:
        """Nothing to stop."""


def fps(*numbers: int) -> list[bytes]:
    """Fingerprints."""
    return [number.to_bytes(16, "big") for number in numbers]


def test_marks_on_their_way_to_the_file_are_present(tmp_path: Path) -> None:
    """While a write is under way nothing is forgotten, and marks that come meanwhile wait for the next one."""
    loop = VirtualLoop()

    async def main(clock: SimClock) -> None:
        seen = SqliteSeen(tmp_path / "s", SlowRunner(clock), batch=3, recent_max=1)
        writing = asyncio.create_task(seen.mark(fps(1, 2, 3)))
        await clock.sleep(0.5)
        assert not writing.done()
        assert await seen.present(fps(1, 2, 3, 4)) == [True, True, True, False]
        await seen.mark(fps(4, 5, 6, 7))
        assert await seen.present(fps(4, 7, 8)) == [True, True, False]
        await writing
        await seen.close()
        seen = SqliteSeen(tmp_path / "s", InlineRunner())
        assert await seen.present(fps(*range(1, 9))) == [True] * 7 + [False]
        await seen.close()

    run_virtual(main(SimClock(loop)), loop)


def test_damage_under_an_open_shard_costs_marks_and_nothing_else(tmp_path: Path) -> None:
    """It answers "absent", and the next write begins a new file."""

    async def main() -> None:
        path = tmp_path / "s"
        seen = SqliteSeen(path, InlineRunner(), batch=1, recent_max=1)
        await seen.mark(fps(*range(20_000)))
        assert await seen.present(fps(7, 19_000)) == [True, True]
        await seen.close()
        _damage_second_half(path)
        seen = SqliteSeen(path, InlineRunner(), batch=1, recent_max=1)
        answers = await seen.present(fps(*range(0, 20_000, 50)))
        assert any(answers)
        assert not all(answers)
        await seen.mark(fps(30_000))
        assert await seen.present(fps(30_000, 30_001)) == [True, False]
        await seen.mark(fps(*range(100)))
        await seen.close()
        seen = SqliteSeen(path, InlineRunner())
        assert await seen.present(fps(5, 99, 30_000, 30_001)) == [True, True, True, False]
        await seen.close()

    asyncio.run(main())


def test_a_dead_shard_answers_nothing(tmp_path: Path) -> None:
    """After `abandon` every call raises `Killed`; closing it is harmless."""

    async def main() -> None:
        seen = SqliteSeen(tmp_path / "s", InlineRunner())
        await seen.mark(fps(1))
        seen.abandon()
        for call in (seen.present(fps(1)), seen.mark(fps(1)), seen.clear()):
            with pytest.raises(Killed):
                await call
        await seen.close()

    asyncio.run(main())


def test_a_shard_that_cannot_have_a_file_says_where(tmp_path: Path) -> None:
    """A folder that is not there is no loss of marks but a fault of the set-up."""
    with pytest.raises(CannotGoOn, match="nowhere"):
        SqliteSeen(tmp_path / "nowhere" / "s", InlineRunner())


def _damage_second_half(path: Path) -> None:
    data = path.read_bytes()
    half = len(data) // 2
    path.write_bytes(data[:half] + b"\xa5" * (len(data) - half))

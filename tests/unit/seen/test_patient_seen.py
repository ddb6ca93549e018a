"""Waiting for a shard that is down, on virtual time."""

import asyncio

import pytest

from limpet.seen import PatientSeen, SeenUnavailable, rebuild
from limpet.testing.memory_seen import MemorySeen

FP = b"f" * 16


class PausingClock:
    """Sleeps at once and writes down how long it should have been; the shard comes back after some pauses."""

    def __init__(self, shard: MemorySeen, up_after: int) -> None:
        self.pauses: list[float] = []
        self._shard, self._up_after = shard, up_after

    def wall_us(self) -> int:
        return 1_000 + len(self.pauses)

    def monotonic(self) -> float:
        return 0.0

    def boot_us(self) -> int:
        return 0

    def boot_id(self) -> str:
        return "boot"

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self._shard.down = len(self.pauses) < self._up_after


def test_pauses_grow_to_a_bound_and_the_answer_comes() -> None:
    """Each wait begins with the shortest pause again."""

    async def main() -> None:
        shard = MemorySeen()
        shard.down = True
        clock = PausingClock(shard, 5)
        patient = PatientSeen(shard, clock, lambda: False, pause_seconds_first=1, pause_seconds_max=5)
        await patient.mark([FP])
        assert clock.pauses == [1, 2, 4, 5, 5]
        assert await patient.present([FP]) == [True]
        assert patient.waiting_since_us == 0
        shard.down = True
        await patient.clear()
        assert clock.pauses[5:] == [1]
        assert await patient.present([FP]) == [False]
        await patient.close()

    asyncio.run(main())


def test_a_stop_ends_the_wait_with_the_shards_error() -> None:
    """The caller commits nothing and leaves; since when it had waited stays to be read."""

    async def main() -> None:
        shard = MemorySeen(number=9)
        shard.down = True
        clock = PausingClock(shard, 100)
        patient = PatientSeen(shard, clock, lambda: len(clock.pauses) >= 3)
        with pytest.raises(SeenUnavailable, match="seen shard 9"):
            await patient.mark([FP])
        assert patient.waiting_since_us == 1_000

    asyncio.run(main())


def test_rebuild_marks_in_batches_and_counts() -> None:
    """From any iterator; what it cannot do, it raises."""

    async def main() -> None:
        shard = MemorySeen()
        fps = [bytes([number]) * 16 for number in range(10)]
        assert await rebuild(shard, iter(fps), batch=4) == 10
        assert shard.marks == set(fps)
        assert await rebuild(shard, []) == 0
        shard.down = True
        with pytest.raises(SeenUnavailable):
            await rebuild(shard, fps)

    asyncio.run(main())

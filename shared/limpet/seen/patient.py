"""Waiting for a seen shard that is down: its partition stands still, everything else goes on."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from limpet.clock import Clock
from limpet.seen.port import SeenShard, SeenUnavailable

T = TypeVar("T")

PAUSE_SECONDS_FIRST: Final = 0.25
PAUSE_SECONDS_MAX: Final = 10.0


class PatientSeen:
    """See `SeenShard`: it asks `shard` again, after growing pauses, for as long as that is unavailable.

    When `stopping` says so it gives up with the shard's `SeenUnavailable` instead: nothing was committed, so the work
    is met again. `waiting_since_us` is the wall clock at the first failure of the present wait, 0 while there is none;
    its age is what to alert on.
    """

    def __init__(
        self,
        shard: SeenShard,
        clock: Clock,
        stopping: Callable[[], bool],
        *,
        pause_seconds_first: float = PAUSE_SECONDS_FIRST,
        pause_seconds_max: float = PAUSE_SECONDS_MAX,
    ) -> None:
        self._shard, self._clock, self._stopping = shard, clock, stopping
        self._pause_seconds_first, self._pause_seconds_max = pause_seconds_first, pause_seconds_max
        self.waiting_since_us = 0

    async def present(self, fps: Sequence[bytes]) -> list[bool]:
        """See `SeenShard.present`."""
        return await self._patiently(lambda: self._shard.present(fps))

    async def mark(self, fps: Sequence[bytes]) -> None:
        """See `SeenShard.mark`."""
        await self._patiently(lambda: self._shard.mark(fps))

    async def clear(self) -> None:
        """See `SeenShard.clear`."""
        await self._patiently(self._shard.clear)

    async def close(self) -> None:
        """See `SeenShard.close`."""
        await self._shard.close()

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        pause_seconds = self._pause_seconds_first
        while True:
            try:
                found = await ask()
            except SeenUnavailable:
                self.waiting_since_us = self.waiting_since_us or self._clock.wall_us()
                if self._stopping():
                    raise
                await self._clock.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, self._pause_seconds_max)
            else:
                self.waiting_since_us = 0
                return found

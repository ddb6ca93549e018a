"""Durable time: a wall clock that nobody can move under a running process.

Waits, due times and leases outlive processes, so they are wall-clock times; but a wall clock that is set forward would
end every wait at once. So a process anchors the wall to the boot clock when it starts and reads only the latter. The
difference between the two is what the clock gate looks at, and what stored times are shifted by at the next start.
"""

from limpet.clock.port import Clock

TOLERANCE_US = 2_000_000


class DurableClock:
    """A `Clock` whose wall never jumps. `agrees` is the clock gate: while it is False nothing is claimed or sent."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._anchor_us = clock.wall_us() - clock.boot_us()

    @property
    def anchor_us(self) -> int:
        """Wall minus boot clock, as it was when this process started or last accepted a moved clock."""
        return self._anchor_us

    def wall_us(self) -> int:
        """See `Clock.wall_us`; steady."""
        return self._clock.boot_us() + self._anchor_us

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self._clock.monotonic()

    def boot_us(self) -> int:
        """See `Clock.boot_us`."""
        return self._clock.boot_us()

    def boot_id(self) -> str:
        """See `Clock.boot_id`."""
        return self._clock.boot_id()

    async def sleep(self, seconds: float) -> None:
        """See `Clock.sleep`."""
        await self._clock.sleep(seconds)

    def moved_us(self) -> int:
        """How far the machine's wall clock has moved away from the anchor; positive = set forward."""
        return self._clock.wall_us() - self.wall_us()

    def agrees(self) -> bool:
        """Whether wall and boot clock still tell the same time, within `TOLERANCE_US`."""
        return abs(self.moved_us()) <= TOLERANCE_US

    def accept(self) -> int:
        """Take the machine's wall clock as right again; the shift in microseconds that stored times need."""
        moved = self.moved_us()
        self._anchor_us += moved
        return moved

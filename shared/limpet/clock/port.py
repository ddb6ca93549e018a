"""The clock port."""

from typing import Protocol


class Clock(Protocol):
    """Three readings and a sleep.

    Durable times (due times, waits, leases, fetch times) are wall-clock microseconds since the Unix epoch, named `_us`.
    Intervals inside one process use `monotonic`. `boot_us` counts across suspend and is comparable between processes of
    one boot; with `boot_id` it exposes a wall clock that was moved.
    """

    def wall_us(self) -> int:
        """Wall clock, microseconds since 1970-01-01T00:00Z."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; the zero is arbitrary."""
        ...

    def boot_us(self) -> int:
        """Microseconds since this machine booted, suspend included."""
        ...

    def boot_id(self) -> str:
        """Names this boot of this machine; two equal ids make `boot_us` comparable."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Give way for at least `seconds` (0 = let others run once)."""
        ...

"""The machine's own clocks."""

import asyncio
import time
from pathlib import Path


class SystemClock:
    """`Clock` over CLOCK_REALTIME, CLOCK_MONOTONIC and CLOCK_BOOTTIME (Linux)."""

    def wall_us(self) -> int:
        """See `Clock.wall_us`."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return time.monotonic()  # noqa: TID251 - this is the one place

    def boot_us(self) -> int:
        """See `Clock.boot_us`."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000

    def boot_id(self) -> str:
        """See `Clock.boot_id`."""
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()

    async def sleep(self, seconds: float) -> None:
        """See `Clock.sleep`."""
        await asyncio.sleep(seconds)  # noqa: TID251 - this is the one place

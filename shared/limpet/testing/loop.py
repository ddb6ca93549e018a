"""Virtual time: an event loop that never waits, so that days of politeness run in milliseconds and a seed replays them.

The loop's clock stands still while anything can run and jumps to the next timer when nothing can. Real sockets still
work (they are polled without waiting), but a rehearsal should not need any.
"""

import asyncio
import contextvars
import math
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH_US = 1_800_000_000_000_000
"""Wall clock of a rehearsal at loop time 0."""


class DeadlockError(RuntimeError):
    """Every task waits, and no timer would wake any of them."""


class _JumpSelector(selectors.SelectSelector):
    """Polls; when nothing is ready, time jumps instead of passing."""

    def __init__(self, start: float) -> None:
        super().__init__()
        self.now = start

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """See `selectors.BaseSelector.select`."""
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise DeadlockError("every task waits and no timer is set")
        self.now += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time, starting at `start` seconds."""

    def __init__(self, start: float = 0.0) -> None:
        self._jump = _JumpSelector(start)
        super().__init__(self._jump)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """Virtual seconds."""
        return self._jump.now

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """See `AbstractEventLoop.call_at`. Timers fall on whole microseconds, later ones at least one ahead.

        Else a sleep of less than the clock's resolution would be over before time has moved, and who waits for the rest
        of a deadline in a loop would wait for ever.
        """
        now = self.time()
        if when > now:
            when = max(math.ceil(when * 1e6) / 1e6, now + 1e-6)
        return super().call_at(when, callback, *args, context=context)


class SimClock:
    """`Clock` on a `VirtualLoop`. `jump` moves the wall alone, as an operator or NTP would."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._jumped_us = 0

    def wall_us(self) -> int:
        """See `Clock.wall_us`."""
        return EPOCH_US + self.boot_us() + self._jumped_us

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self._loop.time()

    def boot_us(self) -> int:
        """See `Clock.boot_us`."""
        return round(self._loop.time() * 1e6)

    def boot_id(self) -> str:
        """See `Clock.boot_id`."""
        return "rehearsal"

    async def sleep(self, seconds: float) -> None:
        """See `Clock.sleep`."""
        await asyncio.sleep(seconds)  # noqa: TID251 - on a virtual loop this is virtual time

    def jump(self, seconds: float) -> None:
        """Move the wall clock."""
        self._jumped_us += int(seconds * 1e6)


def run_virtual(main: Coroutine[Any, Any, T], loop: VirtualLoop) -> T:
    """Run `main` to its end on `loop`, then cancel what is left; the loop is closed."""
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main)
    finally:
        try:
            _cancel_all(loop)
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks))
    for task in tasks:
        if not task.cancelled():
            task.exception()  # seen: a rehearsal judges by what is on the disk, not by what was thrown

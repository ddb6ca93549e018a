"""The network between a node and a table: slow, cut, losing requests and replies, delivering some long after."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Protocol, TypeVar

from limpet.model.errors import Indefinite

T = TypeVar("T")

CALL_SECONDS_MAX = 2.0
LATE_SECONDS_MAX = 20.0


class Stoppable(Protocol):
    """The clock of a machine whose process may be stopped: `running` is clear meanwhile."""

    running: asyncio.Event


class Wire:
    """Calls of one node. `trouble`: the part of them to which something happens. Of those that fail nobody knows more.

    A third of the trouble never arrives, a third arrives late, a third takes effect and its reply is lost.
    """

    def __init__(self, clock: Stoppable, rng: Random, trouble: float, slow_seconds: float) -> None:
        self._clock = clock
        self._rng = rng
        self._late: set[asyncio.Task[object]] = set()
        self.trouble = trouble
        self.slow_seconds = slow_seconds
        self.cut = False
        self.failed = 0

    async def call(self, step: Callable[[], Awaitable[T]]) -> T:
        """The result of a call, or `Indefinite`; a stopped process learns of neither until it goes on."""
        try:
            return await self._travel(step)
        except Indefinite:
            self.failed += 1
            raise
        finally:
            await self._clock.running.wait()

    async def _travel(self, step: Callable[[], Awaitable[T]]) -> T:
        fate = self._rng.random()
        await _wait(self._rng.random() * self.slow_seconds)
        if self.cut or fate < self.trouble / 3:
            await _wait(CALL_SECONDS_MAX)
            raise Indefinite("the request was lost")
        if fate < self.trouble * 2 / 3:
            self._late.add(asyncio.ensure_future(self._later(step)))
            await _wait(CALL_SECONDS_MAX)
            raise Indefinite("the request is late")
        result = await step()
        if self.cut or fate < self.trouble:
            await _wait(CALL_SECONDS_MAX)
            raise Indefinite("the reply was lost")
        await _wait(self._rng.random() * self.slow_seconds)
        return result

    async def _later(self, step: Callable[[], Awaitable[object]]) -> None:
        await _wait(self._rng.random() * LATE_SECONDS_MAX)
        await step()


async def _wait(seconds: float) -> None:
    await asyncio.sleep(seconds)  # noqa: TID251 - virtual time

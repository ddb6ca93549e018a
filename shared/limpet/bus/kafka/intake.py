"""One consumer's messages through one handler, each to its end: done, later, dead, or the consumer stops."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from limpet.bus.kafka.redelivery import Redelivery, due_us
from limpet.bus.port import Consumer, Message, Position
from limpet.clock.port import Clock
from limpet.model.errors import LimpetError
from limpet.model.events import UnknownEventVersionError

IDLE_SECONDS: Final = 0.25
Handler = Callable[[Message], Awaitable[None]]


class Intake:
    """Reads a topic or its retry topic.

    What the handler raises decides. A `LimpetError` is about store, bus or this process: it is raised on, nothing is
    committed. Any other exception is about the message: it is set aside (see `Redelivery`). An event version that is
    not known here pauses: the message and all behind it stay where they are until a Limpet that knows it comes.
    """

    def __init__(
        self, consumer: Consumer, handle: Handler, redelivery: Redelivery, clock: Clock, *, batch_max: int = 64
    ) -> None:
        self._consumer = consumer
        self._handle = handle
        self._redelivery = redelivery
        self._clock = clock
        self._batch_max = batch_max
        self._held: list[Message] = []  # received and not yet due
        self.paused: str | None = None  # why, for whoever reports readiness

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`. Raises `TooManyFailuresError` and what the bus and the handler raise."""
        while not stop.is_set():
            if not await self.step():
                await self._rest()

    async def step(self) -> int:
        """One batch; the number of messages that came to an end."""
        if self.paused is not None:
            return 0
        if not self._held:
            self._held = await self._consumer.receive(self._batch_max)
        done: list[Position] = []
        try:
            while self._held and due_us(self._held[0]) <= self._clock.wall_us() and await self._end(self._held[0]):
                done.append(self._held.pop(0).position)
        finally:
            await self._consumer.commit(done)
        return len(done)

    async def _end(self, message: Message) -> bool:
        """Whether the message came to an end; it did not if its version is not known."""
        try:
            await self._handle(message)
        except UnknownEventVersionError as error:
            self.paused = f"{error}; upgrade this process"
            return False
        except LimpetError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a message does to its handler is that message's own fault
            await self._redelivery.set_aside(message, f"{type(error).__name__}: {error}")
        else:
            self._redelivery.succeeded()
        return True

    async def _rest(self) -> None:
        if self._held or self.paused is not None:
            await self._clock.sleep(IDLE_SECONDS)
        else:
            await self._consumer.wait(IDLE_SECONDS)

"""A consumer that gives its messages again: after a fault of ours a batch is met once more, from where it was received.

The bus hands out what was received and not committed only to the next reader. Here it stays in hand instead, at most a
batch of it, so that a store that was down for a while costs no rebalance. Messages of a retry topic are kept until due.
"""

from collections import deque
from collections.abc import Callable, Sequence

from limpet.bus import Consumer, Message, Position
from limpet.bus.kafka import due_us
from limpet.clock import Clock


class Held:
    """See `Consumer`. `went_well` is told of every commit and of every look that found nothing."""

    def __init__(self, consumer: Consumer, clock: Clock, went_well: Callable[[int], None]) -> None:
        self._consumer = consumer
        self._clock = clock
        self._went_well = went_well
        self._held: dict[Position, Message] = {}
        self._again: deque[Message] = deque()
        self._alone = False

    def in_hand(self) -> list[Message]:
        """What was given and is not committed, in order."""
        waiting = {message.position for message in self._again}
        return [self._held[position] for position in sorted(self._held) if position not in waiting]

    def rewind(self, *, alone: bool = False) -> None:
        """Give everything again that is not committed; `alone`: one message at a time, until all of it was given."""
        self._again = deque(self._held[position] for position in sorted(self._held))
        self._alone = alone

    async def receive(self, limit: int) -> list[Message]:
        """See `Consumer.receive`."""
        if not self._again:
            self._alone = False
            fresh = await self._consumer.receive(limit)
            self._held.update((message.position, message) for message in fresh)
            self._again.extend(fresh)
            if not fresh:
                self._went_well(0)
        given: list[Message] = []
        while self._again and len(given) < (1 if self._alone else limit) and self._is_due(self._again[0]):
            given.append(self._again.popleft())
        return given

    def _is_due(self, message: Message) -> bool:
        return due_us(message) <= self._clock.wall_us()

    async def commit(self, positions: Sequence[Position]) -> None:
        """See `Consumer.commit`."""
        await self._consumer.commit(positions)
        for position in positions:
            self._held.pop(position, None)
        self._went_well(len(positions))

    def uncommitted(self) -> dict[int, int]:
        """See `Consumer.uncommitted`."""
        return self._consumer.uncommitted()

    async def wait(self, seconds: float) -> None:
        """See `Consumer.wait`."""
        if not self._again:
            await self._consumer.wait(seconds)
        elif not self._is_due(self._again[0]):
            await self._clock.sleep(seconds)

"""What becomes of a message whose work failed: again later, then a dead letter; both bounded, neither silent.

Every topic has a retry topic and a dead-letter topic with as many partitions. A message keeps its payload and its
partition; how often it was tried, why it failed, where it came from and when it is due stand in its headers. It is
confirmed there before its offset is committed here, so a death in between costs a duplicate.
"""

from collections import deque
from typing import Final

import msgspec

from limpet.bus.kafka.cluster import Cluster
from limpet.bus.kafka.delivery import Headers, Outgoing
from limpet.bus.kafka.producer import KafkaProducer
from limpet.bus.kafka.topics import DEAD, RETRY
from limpet.bus.port import Message
from limpet.model.errors import CannotGoOn

ATTEMPT: Final = "limpet-attempt"
REASON: Final = "limpet-reason"
ORIGIN: Final = "limpet-origin"
DUE: Final = "limpet-due-us"
REASON_BYTES_MAX: Final = 500


class TooManyFailuresError(CannotGoOn):
    """So many messages fail that the fault is not theirs: nothing more is set aside, and the offset stays."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """When a message is given up, and when the consumer is.

    `in_row_max` and `share_max` (of the last `window` messages) stop a bad deploy within one process;
    `waiting_max` (messages of one partition in the retry or the dead-letter topic) does so across restarts.
    """

    attempts_max: int = 3
    delay_seconds: float = 30.0
    in_row_max: int = 20
    share_max: float = 0.2
    window: int = 200
    waiting_max: int = 1_000


class Redelivery:
    """Sets failed messages of one topic aside; `topic` is the plain one, also for what its retry topic gave."""

    def __init__(self, cluster: Cluster, producer: KafkaProducer, topic: str, bounds: Bounds) -> None:
        self._cluster = cluster
        self._producer = producer
        self._topic = topic
        self._bounds = bounds
        self._in_row = 0
        self._recent: deque[bool] = deque(maxlen=bounds.window)  # True = failed
        self.retried = 0
        self.dead = 0

    def succeeded(self) -> None:
        """One message went well."""
        self._in_row = 0
        self._recent.append(False)

    async def set_aside(self, message: Message, reason: str) -> None:
        """Confirm the message in the retry topic, or in the dead-letter topic after its last attempt.

        Raises `TooManyFailuresError` before anything is sent, and what `publish` raises.
        """
        self._in_row += 1
        self._recent.append(True)
        attempt = attempt_of(message)
        target = self._topic + (DEAD if attempt >= self._bounds.attempts_max else RETRY)
        await self._check(target, message.position.partition, reason)
        await self._producer.send(
            target, [Outgoing(message.position.partition, message.payload, self._headers(message, reason))]
        )
        if target.endswith(DEAD):
            self.dead += 1
        else:
            self.retried += 1

    def _headers(self, message: Message, reason: str) -> Headers:
        known = dict(message.headers)
        place = f"{self._topic}/{message.position.partition}/{message.position.offset}"
        attempt = attempt_of(message)
        delay_us = int(self._bounds.delay_seconds * attempt * 1e6)
        return (
            (ATTEMPT, b"%d" % (attempt + 1)),
            (REASON, reason.encode(errors="replace")[:REASON_BYTES_MAX]),
            (ORIGIN, known.get(ORIGIN, place.encode())),
            (DUE, b"%d" % (self._cluster.clock.wall_us() + delay_us)),
        )

    async def _check(self, target: str, partition: int, reason: str) -> None:
        bounds = self._bounds
        if self._in_row > bounds.in_row_max:
            raise TooManyFailuresError(
                f"{self._topic}: {self._in_row} messages in a row failed, the last one: {reason}"
            )
        if len(self._recent) == bounds.window and sum(self._recent) > bounds.share_max * bounds.window:
            raise TooManyFailuresError(
                f"{self._topic}: {sum(self._recent)} of {bounds.window} messages failed, the last one: {reason}"
            )
        if await self._waiting(target, partition) >= bounds.waiting_max:
            raise TooManyFailuresError(
                f"{target}[{partition}] holds {bounds.waiting_max} messages: look at them, then go on; {reason}"
            )

    async def _waiting(self, target: str, partition: int) -> int:
        """Messages of a partition that nobody has finished with."""
        place = (self._cluster.settings.topic(target), partition)
        start, end = (await self._cluster.spans([place]))[place]
        committed = await self._cluster.committed(target, [place])
        return end - max(start, committed.get(place, 0))


def attempt_of(message: Message) -> int:
    """Which attempt at a message this is: 1 for one that was never set aside. Headers of strangers count as none."""
    return max(1, _number(message, ATTEMPT, 1))


def due_us(message: Message) -> int:
    """When a message may be tried; 0 = now."""
    return _number(message, DUE, 0)


def _number(message: Message, name: str, default: int) -> int:
    value = dict(message.headers).get(name, b"")
    return int(value) if value.isdigit() and len(value) < 20 else default

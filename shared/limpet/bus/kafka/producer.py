"""`Producer` on Kafka."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import confluent_kafka

from limpet.bus.kafka.backlog import Backlog
from limpet.bus.kafka.cluster import Cluster
from limpet.bus.kafka.delivery import Delivery, Outgoing, Receipts
from limpet.bus.kafka.errors import of_publish, refusal
from limpet.bus.kafka.settings import producer_config
from limpet.bus.kafka.topics import HEALTH
from limpet.bus.port import BusUnavailableError, OversizedError, Position, UnknownTopicError
from limpet.model.errors import Indefinite, LimpetError

HEALTHY_SECONDS: Final = 1.0
STALLED_SECONDS: Final = 5.0
OVERHEAD_BYTES: Final = 512  # what the driver and the batch around a message may add


class KafkaProducer:
    """See `Producer`. All writers share a log, so `source` is 0.

    One that fails for good (the driver calls it fatal) is replaced at the next publish: its sequence numbers are lost,
    so what was under way is unknown, and a repetition may double it.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        topics: Sequence[str],
        min_insync: int,
        make: Callable[[dict[str, Any]], Any] = confluent_kafka.Producer,
    ) -> None:
        self._cluster = cluster
        self._settings = cluster.settings
        self._topics = topics
        self._min_insync = min_insync
        self._make = make
        self._delivery: Delivery | None = None
        self._backlog = Backlog(cluster, topics)

    # -- publishing --------------------------------------------------------------------------------------------------
    async def publish(self, topic: str, messages: Sequence[tuple[int, bytes]]) -> list[Position]:
        """See `Producer.publish`. Raises `UnknownTopicError`, `OversizedError`, `DeniedError`, `Indefinite`."""
        return await self.send(topic, [Outgoing(partition, payload) for partition, payload in messages])

    async def send(self, topic: str, messages: Sequence[Outgoing]) -> list[Position]:
        """`publish` of messages with headers."""
        if not messages:
            return []
        name = self._settings.topic(topic)
        await self._check(name, messages)
        receipts = await self._current().send(name, messages)
        if receipts.errors:
            raise self._failure(name, receipts)
        self._backlog.published(topic, len(messages))
        return [
            Position(message.partition, 0, offset) for message, offset in zip(messages, receipts.offsets, strict=True)
        ]

    async def _check(self, name: str, messages: Sequence[Outgoing]) -> None:
        """What is sure to be refused is refused before anything is sent."""
        size = await self._cluster.partitions(name)
        bytes_max = self._settings.message_bytes_max - OVERHEAD_BYTES
        for message in messages:
            if not 0 <= message.partition < size:
                raise UnknownTopicError(f"topic {name} has {size} partitions, and no number {message.partition}")
            length = len(message.payload) + sum(len(key) + len(value) for key, value in message.headers)
            if length > bytes_max:
                raise OversizedError(f"topic {name}: a message of {length} bytes; it takes {bytes_max}")

    def _current(self) -> Delivery:
        if self._delivery is not None and self._delivery.failed is not None:
            self._delivery.retire()
            self._delivery = None
        if self._delivery is None:
            self._delivery = Delivery(producer_config(self._settings), self._cluster.clock, make=self._make)
        return self._delivery

    def _failure(self, name: str, receipts: Receipts) -> LimpetError:
        """Definite only if none of the messages can be in the log."""
        self._cluster.forget(name)
        what = f"publishing {len(receipts.offsets)} messages to {name}"
        first = next(iter(receipts.errors.values()))
        refused = [refusal(error, what) for error in receipts.errors.values()]
        if len(refused) == len(receipts.offsets) and all(refused):
            return of_publish(first, what)
        unsure = next((error for error in receipts.errors.values() if refusal(error, what) is None), first)
        return Indefinite(f"{what}: {len(receipts.errors)} are not confirmed ({unsure.name()}: {unsure.str()})")

    # -- health and backlog ------------------------------------------------------------------------------------------
    async def healthy(self) -> None:
        """See `Producer.healthy`: a confirmation of the last second confirms it, else one is asked for."""
        delivery = self._current()
        if (waiting := delivery.oldest_seconds()) > STALLED_SECONDS:
            raise Indefinite(f"kafka: a publish has been waiting for {waiting:.0f} s")
        if self._cluster.clock.monotonic() - delivery.confirmed < HEALTHY_SECONDS:
            return
        for topic in self._topics:
            await self._check_topic(self._settings.topic(topic))
        await self._probe(delivery)

    async def _probe(self, delivery: Delivery) -> None:
        """One empty message to every leader. Metadata alone proves nothing: without a quorum it is as it was."""
        name = self._settings.topic(HEALTH)
        leaders = (await self._cluster.health(name)).leaders
        places = {leader: partition for partition, leader in enumerate(leaders)}
        try:
            async with asyncio.timeout(STALLED_SECONDS):
                receipts = await delivery.send(name, [Outgoing(partition, b"") for partition in places.values()])
        except TimeoutError:
            raise Indefinite(f"kafka: nothing was confirmed for {STALLED_SECONDS:.0f} s") from None
        if receipts.errors:
            raise self._failure(name, receipts)

    async def _check_topic(self, name: str) -> None:
        health = await self._cluster.health(name)
        for partition, (leader, in_sync) in enumerate(zip(health.leaders, health.in_sync, strict=True)):
            if leader < 0:
                raise BusUnavailableError(f"topic {name}, partition {partition} has no leader")
            if in_sync < self._min_insync:
                raise BusUnavailableError(
                    f"topic {name}, partition {partition} has {in_sync} replicas in sync; it needs {self._min_insync}"
                )

    def backlog(self) -> int:
        """See `Producer.backlog`; `observe` brings it up to date."""
        return self._backlog.count()

    async def observe(self) -> None:
        """Learn how far the readers' groups are. Raises `BusUnavailableError`."""
        await self._backlog.observe()

    async def close(self) -> None:
        """Wait a moment for what is on its way, give up the rest."""
        if self._delivery is not None:
            await self._delivery.close()
            self._delivery = None

"""Questions to the cluster: which topics, where logs begin and end, what groups committed."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from limpet.bus.kafka.errors import error_of, of_request
from limpet.bus.kafka.settings import KafkaSettings, client_config, reader_config
from limpet.bus.port import BusUnavailableError
from limpet.clock.port import Clock
from limpet.runtime import Runner, ThreadRunner

T = TypeVar("T")
Place = tuple[str, int]
"""(the cluster's name of a topic, partition)."""

AGAIN_SECONDS: Final = 0.2
QUESTIONS: Final = "questions"
"""The group of the client that asks about logs; it never joins it and commits nothing."""


class Health(msgspec.Struct, frozen=True):
    """One topic as the brokers see it: per partition the leader (-1 = none) and the replicas in sync."""

    leaders: tuple[int, ...]
    in_sync: tuple[int, ...]


class Cluster:
    """One connection for questions. Each is asked again for at most `request_seconds_max`.

    Raises `BusUnavailableError` when there is no answer, `RefusedError`s for what the cluster refuses.
    """

    def __init__(self, settings: KafkaSettings, clock: Clock, *, runner: Runner | None = None) -> None:
        self.settings = settings
        self.clock = clock
        self.admin = AdminClient({"log_level": 0, **client_config(settings)})
        self._runner = runner or ThreadRunner("kafka-metadata")
        self._offsets = runner or ThreadRunner("kafka-offsets")  # one that waits does not hold up the other
        self._askers: dict[str, Consumer] = {}
        self._sizes: dict[str, int] = {}
        self._closed = False

    async def partitions(self, topic: str) -> int:
        """How many partitions a topic has; asked once. Raises `UnknownTopicError`."""
        if topic not in self._sizes:
            self._sizes[topic] = len((await self.health(topic)).leaders)
        return self._sizes[topic]

    def forget(self, topic: str) -> None:
        """Ask about this topic again, next time."""
        self._sizes.pop(topic, None)

    async def health(self, topic: str) -> Health:
        """Leaders and replicas in sync. Raises `UnknownTopicError`."""
        metadata = await self._patiently(f"topic {topic}", lambda: self._runner.run(lambda: self._metadata(topic)))
        parts = [metadata.partitions[number] for number in sorted(metadata.partitions)]
        return Health(tuple(part.leader for part in parts), tuple(len(part.isrs) for part in parts))

    async def replicas(self, topic: str) -> list[int]:
        """The number of replicas of each partition. Raises `UnknownTopicError`."""
        metadata = await self._patiently(f"topic {topic}", lambda: self._runner.run(lambda: self._metadata(topic)))
        return [len(part.replicas) for part in metadata.partitions.values()]

    def _metadata(self, topic: str) -> Any:
        found = self.admin.list_topics(topic, timeout=self.settings.socket_seconds_max).topics[topic]
        if found.error is not None:
            raise KafkaException(found.error)
        return found

    async def committed(self, group: str, places: Iterable[Place]) -> dict[Place, int]:
        """What a group committed; without an entry where it committed nothing."""
        wanted = [TopicPartition(topic, partition) for topic, partition in places]

        def ask() -> dict[Place, int]:
            found = sound(self._asker(group).committed(wanted, self.settings.socket_seconds_max))
            return {(part.topic, part.partition): part.offset for part in found if part.offset >= 0}

        return await self._patiently(f"offsets of group {self.settings.group(group)}", lambda: self._offsets.run(ask))

    async def spans(self, places: Iterable[Place]) -> dict[Place, tuple[int, int]]:
        """Where logs begin, and the offset that the next message gets."""
        wanted = list(places)

        def ask() -> dict[Place, tuple[int, int]]:
            asker, seconds = self._asker(QUESTIONS), self.settings.socket_seconds_max
            return {place: asker.get_watermark_offsets(TopicPartition(*place), seconds) for place in wanted}

        return await self._patiently("the ends of logs", lambda: self._offsets.run(ask))

    def _asker(self, group: str) -> Consumer:
        """A client that reads nothing. The admin client's question for a group's offsets is not used: an answer that
        comes after its time has ended the process (assertion in librdkafka 2.15, seen with a frozen broker).
        """
        if group not in self._askers:
            self._askers[group] = Consumer({"log_level": 0, **reader_config(self.settings, group)})
        return self._askers[group]

    async def _patiently(self, what: str, ask: Callable[[], Awaitable[T]]) -> T:
        end = self.clock.monotonic() + self.settings.request_seconds_max
        while True:
            try:
                return await ask()
            except KafkaException as exception:
                error = of_request(error_of(exception), what)
                if not isinstance(error, BusUnavailableError) or self.clock.monotonic() >= end:
                    raise error from exception
            await self.clock.sleep(AGAIN_SECONDS)

    async def each(self, what: str, futures: Mapping[Any, Future[T]]) -> list[T]:
        """The answers to one request about several things, none asked twice."""
        try:
            return [await answered(future) for future in futures.values()]
        except KafkaException as exception:
            raise of_request(error_of(exception), what) from exception

    async def close(self) -> None:
        """Ask nothing more."""
        if self._closed:
            return
        self._closed = True
        await self._offsets.run(self._close_askers)
        self._offsets.close()
        self._runner.close()

    def _close_askers(self) -> None:
        for asker in self._askers.values():
            asker.close()
        self._askers.clear()


async def answered(future: Future[T]) -> T:
    """The driver's future, awaited. A caller that goes away does not cancel it: the driver would trip over that."""
    return await asyncio.shield(asyncio.wrap_future(future))


def sound(parts: list[TopicPartition]) -> list[TopicPartition]:
    """The parts, none of which has an error. Raises KafkaException."""
    for part in parts:
        if part.error is not None:
            raise KafkaException(part.error)
    return parts

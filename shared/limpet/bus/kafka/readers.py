"""Two ways to get partitions: one says which (`KafkaReader`), or the group does (`KafkaMember`)."""

import asyncio
from typing import Any, Final

from confluent_kafka import KafkaException, TopicPartition

from limpet.bus.kafka.cluster import Cluster, Place, sound
from limpet.bus.kafka.commits import Commits
from limpet.bus.kafka.consumer import FIRST_OFFSET, KafkaConsumer
from limpet.bus.kafka.errors import error_of
from limpet.bus.kafka.inbox import Inbox
from limpet.bus.kafka.reader import Reader
from limpet.bus.kafka.settings import KafkaSettings, member_config, reader_config
from limpet.bus.port import LostPartitionError, UnknownTopicError

COMMITTED_TRIES: Final = 3


class _Consumers:
    """The consumers of one reader, by place."""

    def __init__(self, cluster: Cluster, topic: str, config: dict[str, Any]) -> None:
        self._cluster = cluster
        self._topic = topic
        self._name = cluster.settings.topic(topic)
        self._reader = Reader(config, wake=self._wake)
        self._commits = Commits(cluster, self._reader, topic)
        self._consumers: dict[Place, KafkaConsumer] = {}

    def _wake(self, places: set[Place]) -> None:
        for place in places:
            if (consumer := self._consumers.get(place)) is not None:
                consumer.wake()

    def _consumer(self, place: Place, inbox: Inbox) -> KafkaConsumer:
        return KafkaConsumer(self._cluster, self._reader, self._commits, place, inbox)

    async def close(self) -> None:
        """Stop reading; what was not committed comes again to the next reader."""
        for consumer in self._consumers.values():
            consumer.lose()
        self._consumers.clear()
        await self._reader.close()


class KafkaReader(_Consumers):
    """Reads the partitions of one topic that it is told to read, for the group that has the topic's name.

    Who may read what is decided elsewhere (leases). A group that has members cannot be committed for from here.
    """

    def __init__(self, cluster: Cluster, topic: str) -> None:
        super().__init__(cluster, topic, reader_config(cluster.settings, topic))
        self._reader.start()

    async def consumer(self, partition: int) -> KafkaConsumer:
        """Read a partition from its committed offset on, from the first message if nothing was ever committed.

        Raises `UnknownTopicError`, `DeniedError`, `BusUnavailableError`.
        """
        size = await self._cluster.partitions(self._name)
        if not 0 <= partition < size:
            raise UnknownTopicError(f"topic {self._name} has {size} partitions, and no number {partition}")
        place = (self._name, partition)
        committed = await self._cluster.committed(self._topic, [place])
        if (older := self._consumers.get(place)) is not None:
            older.close()
        inbox = _inbox(self._cluster.settings, committed.get(place, FIRST_OFFSET))
        self._consumers[place] = self._consumer(place, inbox)
        self._reader.assign(place, inbox)
        return self._consumers[place]


class KafkaMember(_Consumers):
    """A member of the group that reads one topic: the group hands out partitions. Also a `Membership`.

    An assignment is a hint. When a partition is taken away its consumer raises `LostPartitionError`; what it had not
    committed goes to the next owner, so a rebalance costs duplicates and loses nothing.
    """

    def __init__(self, cluster: Cluster, topic: str) -> None:
        super().__init__(cluster, topic, member_config(cluster.settings, topic))
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self.rebalances = 0

    async def open(self) -> None:
        """Join the group. Raises `UnknownTopicError`, `DeniedError`, `BusUnavailableError`."""
        await self._cluster.partitions(self._name)
        self._reader.driver.subscribe(
            [self._name], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        self._reader.start()

    def share(self) -> frozenset[int]:
        """See `Membership.share`."""
        return frozenset(partition for _, partition in self._consumers)

    def consumer(self, partition: int) -> KafkaConsumer:
        """The consumer of a partition of the share. Raises `LostPartitionError`."""
        try:
            return self._consumers[self._name, partition]
        except KeyError:
            raise LostPartitionError(f"{self._name}[{partition}] is not ours") from None

    async def changed(self, seconds: float) -> bool:
        """Wait until the share has changed since the last call, at most `seconds`; whether it has."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        return True

    # -- on the polling thread ---------------------------------------------------------------------------------------
    def _assigned(self, driver: Any, parts: list[TopicPartition]) -> None:
        """Begin at the committed offset, told explicitly: the driver must never choose one."""
        found = self._committed(driver, parts)
        inboxes = {
            (part.topic, part.partition): _inbox(self._cluster.settings, max(part.offset, FIRST_OFFSET))
            for part in found
        }
        self._reader.begin(inboxes)
        self._loop.call_soon_threadsafe(self._add, inboxes)

    def _committed(self, driver: Any, parts: list[TopicPartition]) -> list[TopicPartition]:
        for left in reversed(range(COMMITTED_TRIES)):
            try:
                return sound(driver.committed(parts, self._cluster.settings.socket_seconds_max))
            except KafkaException as exception:
                if not left:
                    self._fail(parts, exception)
        return []

    def _fail(self, parts: list[TopicPartition], exception: KafkaException) -> None:
        """Nothing is fetched of these; their consumers say why, and whoever serves them leaves the group."""
        inboxes = {(part.topic, part.partition): _inbox(self._cluster.settings, FIRST_OFFSET) for part in parts}
        for inbox in inboxes.values():
            inbox.fail(error_of(exception))
        self._loop.call_soon_threadsafe(self._add, inboxes)

    def _revoked(self, driver: Any, parts: list[TopicPartition]) -> None:
        places = [(part.topic, part.partition) for part in parts]
        for place in places:
            self._reader.inboxes.pop(place, None)
        driver.incremental_unassign(parts)
        self._loop.call_soon_threadsafe(self._remove, places)

    # -- on the event loop -------------------------------------------------------------------------------------------
    def _add(self, inboxes: dict[Place, Inbox]) -> None:
        self.rebalances += 1
        for place, inbox in inboxes.items():
            self._consumers[place] = self._consumer(place, inbox)
        self._changed.set()

    def _remove(self, places: list[Place]) -> None:
        for place in places:
            if (consumer := self._consumers.pop(place, None)) is not None:
                consumer.lose()
        self._changed.set()


def _inbox(settings: KafkaSettings, offset: int) -> Inbox:
    return Inbox(offset, messages_max=settings.buffer_messages_max, bytes_max=settings.buffer_bytes_max)

"""Everything a process needs of a Kafka bus, opened and closed together."""

from collections.abc import Sequence
from typing import Final, Self

from limpet.bus.kafka.cluster import Cluster
from limpet.bus.kafka.consumer import KafkaConsumer
from limpet.bus.kafka.producer import KafkaProducer
from limpet.bus.kafka.readers import KafkaMember, KafkaReader
from limpet.bus.kafka.settings import KafkaSettings
from limpet.bus.kafka.topics import Topics
from limpet.bus.port import Capabilities
from limpet.clock.port import Clock
from limpet.model.events import TOPICS

CAPABILITIES: Final = Capabilities(positions=True, sources=False, keeps_unread=False, groups=True)


class KafkaBus:
    """One producer, a reader per topic, questions to the cluster. Use it on one event loop; `close` it in the end."""

    def __init__(
        self, settings: KafkaSettings, clock: Clock, *, topics: Sequence[str] = TOPICS, min_insync: int = 2
    ) -> None:
        self.cluster = Cluster(settings, clock)
        self.topics = Topics(self.cluster)
        self.producer = KafkaProducer(self.cluster, topics=topics, min_insync=min_insync)
        self._readers: dict[str, KafkaReader] = {}
        self._members: list[KafkaMember] = []

    async def consumer(self, topic: str, partition: int) -> KafkaConsumer:
        """Read a partition that is ours by other means; see `KafkaReader.consumer`."""
        if topic not in self._readers:
            self._readers[topic] = KafkaReader(self.cluster, topic)
        return await self._readers[topic].consumer(partition)

    async def member(self, topic: str) -> KafkaMember:
        """Join the group that reads a topic; see `KafkaMember`."""
        member = KafkaMember(self.cluster, topic)
        await member.open()
        self._members.append(member)
        return member

    async def close(self) -> None:
        """Leave groups, give up what is on its way, ask nothing more."""
        for reader in [*self._readers.values(), *self._members]:
            await reader.close()
        await self.producer.close()
        await self.cluster.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

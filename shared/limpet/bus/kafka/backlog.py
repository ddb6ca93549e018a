"""How far readers are behind: the ends of the logs minus what their groups committed."""

from collections.abc import Sequence

from limpet.bus.kafka.cluster import Cluster


class Backlog:
    """Of some topics, each read by the group that has its name. Never too low by what this process wrote itself."""

    def __init__(self, cluster: Cluster, topics: Sequence[str]) -> None:
        self._cluster = cluster
        self._topics = topics
        self._observed = 0
        self._since = 0  # published here since the observation began

    def published(self, topic: str, count: int) -> None:
        """This process wrote `count` messages."""
        if topic in self._topics:
            self._since += count

    def count(self) -> int:
        """Messages not committed, as last known."""
        return self._observed + self._since

    async def observe(self) -> None:
        """Ask the cluster. What is published meanwhile may count twice, until the next time."""
        before = self._since
        self._observed = sum([await self._of(topic) for topic in self._topics])
        self._since -= before

    async def _of(self, topic: str) -> int:
        name = self._cluster.settings.topic(topic)
        places = [(name, partition) for partition in range(await self._cluster.partitions(name))]
        committed = await self._cluster.committed(topic, places)
        spans = await self._cluster.spans(places)
        return sum(end - max(start, committed.get(place, 0)) for place, (start, end) in spans.items())

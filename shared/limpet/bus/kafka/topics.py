"""Topics are created on purpose, with the settings that the guarantees rest on, and never changed behind our back."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType

from limpet.bus.kafka.cluster import Cluster, answered
from limpet.bus.kafka.errors import error_of, of_request
from limpet.bus.port import BusUnavailableError, UnknownTopicError
from limpet.model.errors import UsageError
from limpet.model.events import TOPICS

LEADERS_SECONDS_MAX: Final = 15.0
DAY_SECONDS: Final = 86_400
RETRY: Final = ".retry"
DEAD: Final = ".dead"
HEALTH: Final = "health"
"""Takes empty messages, which nobody reads: that they are confirmed is their sense."""


class TopicSettingsError(UsageError):
    """A topic exists with other settings than are asked for."""


class TopicSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One topic as it must be. Durations in seconds, sizes in bytes."""

    name: str
    partitions: int = 32
    replication: int = 3
    min_insync: int = 2
    retention_seconds: int = 7 * DAY_SECONDS
    message_bytes_max: int = 4_194_304

    def __post_init__(self) -> None:
        """Refuse what could not hold its promise. Raises `UsageError`."""
        if self.min_insync > self.replication:
            raise UsageError(
                f"topic {self.name}: min_insync {self.min_insync} is more than its {self.replication} replicas"
            )

    def config(self) -> dict[str, str]:
        """The topic's configuration. Time of append, not the writer's clock, is what retention goes by."""
        return {
            "cleanup.policy": "delete",
            "min.insync.replicas": str(self.min_insync),
            "retention.ms": str(self.retention_seconds * 1000),
            "retention.bytes": "-1",
            "max.message.bytes": str(self.message_bytes_max),
            "message.timestamp.type": "LogAppendTime",
            "unclean.leader.election.enable": "false",
        }


def specs_of(base: TopicSpec, *, topics: Sequence[str] = TOPICS) -> list[TopicSpec]:
    """What one crawl needs: every topic with its retry and dead-letter topics, and `HEALTH`, all made like `base`."""
    names = [HEALTH, *(topic + suffix for topic in topics for suffix in ("", RETRY, DEAD))]
    return [msgspec.structs.replace(base, name=name) for name in names]


class Topics:
    """Creates and checks topics. Names are the crawl's; the prefix of the settings is added."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._seconds = cluster.settings.request_seconds_max

    async def ensure(self, specs: Sequence[TopicSpec]) -> list[str]:
        """Create what is missing; the names that were created. Doing it again changes nothing.

        Raises `TopicSettingsError` naming both values when a topic exists with other settings, before anything is
        created; `DeniedError`, `BusUnavailableError`.
        """
        missing = [spec for spec in specs if not await self.check(spec)]
        created = [spec.name for spec in missing if await self._create(spec)]
        for spec in missing:
            await self._settle(spec)
        return created

    async def check(self, spec: TopicSpec) -> bool:
        """Whether the topic exists, as asked for. Raises `TopicSettingsError`."""
        name = self._cluster.settings.topic(spec.name)
        try:
            await self._cluster.health(name)
        except UnknownTopicError:
            return False
        wanted = {"partitions": str(spec.partitions), "replication factor": str(spec.replication), **spec.config()}
        found = await self._found(name)
        wrong = [
            f"{key} is {found.get(key, 'not set')}, wanted {value}"
            for key, value in wanted.items()
            if found.get(key) != value
        ]
        if wrong:
            raise TopicSettingsError(f"topic {name} exists with other settings: {'; '.join(wrong)}")
        return True

    async def _found(self, name: str) -> dict[str, str | None]:
        metadata = await self._cluster.replicas(name)
        resource = ConfigResource(ResourceType.TOPIC, name)
        futures = self._cluster.admin.describe_configs([resource], request_timeout=self._seconds)
        (entries,) = await self._cluster.each(f"configuration of topic {name}", futures)
        config: dict[str, Any] = entries
        return {
            "partitions": str(len(metadata)),
            "replication factor": str(min(metadata, default=0)),
            **{key: entry.value for key, entry in config.items()},
        }

    async def _create(self, spec: TopicSpec) -> bool:
        name = self._cluster.settings.topic(spec.name)
        topic = NewTopic(name, spec.partitions, spec.replication, config=spec.config())
        futures = self._cluster.admin.create_topics([topic], request_timeout=self._seconds)
        try:
            await answered(next(iter(futures.values())))
        except KafkaException as exception:
            error = error_of(exception)
            if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:  # somebody was faster, or our first answer got lost
                return False
            raise of_request(error, f"creating topic {name}") from exception
        return True

    async def _settle(self, spec: TopicSpec) -> None:
        """Every broker knows it and every partition has a leader; whoever created it, it is as asked for."""
        name, clock = self._cluster.settings.topic(spec.name), self._cluster.clock
        end = clock.monotonic() + LEADERS_SECONDS_MAX
        while True:
            try:
                health = await self._cluster.health(name)
                if len(health.leaders) == spec.partitions and min(health.leaders) >= 0 and await self.check(spec):
                    return
            except UnknownTopicError:
                pass
            if clock.monotonic() >= end:
                raise BusUnavailableError(f"topic {name} was created and has no leaders yet")
            await clock.sleep(0.05)

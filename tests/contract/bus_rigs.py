"""What the suite of the bus port needs of each adapter."""

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest
from confluent_kafka import TopicPartition
from msgspec import structs

from limpet.bus import Capabilities, Consumer, Producer, kafka, sqlite
from limpet.bus.kafka import KafkaBus, KafkaSettings, TopicSpec
from limpet.bus.kafka.cluster import answered
from limpet.bus.kafka.topics import HEALTH
from limpet.bus.sqlite import SqliteConsumer, SqliteLog, SqliteProducer
from limpet.clock import SystemClock
from limpet.model.events import TOPICS
from limpet.runtime import InlineRunner
from limpet.runtime.sqlitefile import ReadOnlyFile, SqliteFile, open_read_only
from limpet.schemas.sqlite import shard_schema
from limpet.testing.kafka import KafkaDouble
from servers import Service

SOURCES = 3
RETENTION_US = 1000


class BusRig(Protocol):
    """One adapter with `SOURCES` writers, whose consumers of partition N live with writer N."""

    capabilities: Capabilities
    fetches_ahead: bool  # a consumer holds messages before they are asked for

    async def open(self) -> None:
        """All processes of the bus begin."""
        ...

    async def kill(self) -> None:
        """All of them die; `open` begins again."""
        ...

    def producer(self, source: int) -> Producer:
        """The writer number `source`; where writers share a log, any."""
        ...

    async def consumer(self, topic: str, partition: int) -> Consumer:
        """The group's reader of one partition, from its committed offsets on."""
        ...

    async def trim(self, now_us: int, topic: str, unread: Mapping[int, Mapping[int, int]]) -> int:
        """Retention at `now_us`. `unread`: partition -> source -> first offset not committed. Messages dropped."""
        ...


class SqliteBusRig:
    """SQLite files; `foreign` reads the logs of others as another process would."""

    capabilities = sqlite.CAPABILITIES
    fetches_ahead = False

    def __init__(self, folder: Path, *, foreign: bool, pending_max: int = 20_000) -> None:
        self._folder = folder
        self._foreign = foreign
        self._pending_max = pending_max
        self._clock = SystemClock()
        self._files: list[SqliteFile] = []
        self._readers: list[ReadOnlyFile] = []
        self._logs: list[SqliteLog] = []
        self._producers: list[SqliteProducer] = []

    async def open(self) -> None:
        for source in range(SOURCES):
            path = self._folder / f"{source}.sqlite"
            file = SqliteFile(
                path,
                schema=shard_schema(),
                runner=InlineRunner(),
                clock=self._clock,
                synchronous="OFF",
                commit_interval_seconds=0,
            )
            self._files.append(file)
            log = SqliteLog(file, source, self._clock, own=True, pending_max=self._pending_max)
            self._logs.append(log)
            self._producers.append(SqliteProducer(file, log, self._clock, retention_us=RETENTION_US))

    async def kill(self) -> None:
        for reader in self._readers:
            reader.close()
        for file in self._files:
            file.abandon()
        self._files, self._readers, self._logs, self._producers = [], [], [], []

    def producer(self, source: int) -> Producer:
        return self._producers[source]

    async def consumer(self, topic: str, partition: int) -> Consumer:
        logs = {source: self._log(source, partition) for source in range(SOURCES)}
        return SqliteConsumer(self._files[partition], topic, partition, logs, self._clock)

    def _log(self, source: int, partition: int) -> SqliteLog:
        if not self._foreign or source == partition:
            return self._logs[source]
        reader = open_read_only(self._folder / f"{source}.sqlite", shard_schema())
        self._readers.append(reader)
        return SqliteLog(reader, source, self._clock, own=False, poll_seconds=0.005, pending_max=self._pending_max)

    async def trim(self, now_us: int, topic: str, unread: Mapping[int, Mapping[int, int]]) -> int:
        dropped = 0
        for source, producer in enumerate(self._producers):
            committed = {partition: sources[source] for partition, sources in unread.items()}
            dropped += await producer.trim(now_us, {topic: committed})
        return dropped


class KafkaBusRig:
    """Topics of their own on a cluster. Dropping is what the real one does at our word (DeleteRecords)."""

    capabilities = kafka.CAPABILITIES
    fetches_ahead = True

    def __init__(self, settings: KafkaSettings, double: KafkaDouble | None = None) -> None:
        self._settings = settings
        self._double = double
        self._buses: list[KafkaBus] = []
        self._read: set[tuple[str, int]] = set()
        self._made = False

    async def open(self) -> None:
        self._buses = [self._bus() for _ in range(SOURCES)]
        if self._made:
            return
        self._made = True
        if self._double is not None:
            for topic in [HEALTH, *TOPICS]:
                self._double.create(self._settings.topic(topic))
            return
        spec = TopicSpec(name="", partitions=SOURCES, replication=1, min_insync=1)
        await self._buses[0].topics.ensure([structs.replace(spec, name=topic) for topic in [HEALTH, *TOPICS]])

    def _bus(self) -> KafkaBus:
        return KafkaBus(self._settings, SystemClock(), min_insync=1)

    async def kill(self) -> None:
        for bus in self._buses:
            await bus.close()
        self._buses = []
        self._read.clear()

    def producer(self, source: int) -> Producer:
        return self._buses[source].producer

    async def consumer(self, topic: str, partition: int) -> Consumer:
        bus = self._buses[partition]
        if (topic, partition) in self._read:  # a second one is in another process
            bus = self._bus()
            self._buses.append(bus)
        self._read.add((topic, partition))
        return await bus.consumer(topic, partition)

    async def trim(self, now_us: int, topic: str, unread: Mapping[int, Mapping[int, int]]) -> int:
        for bus in self._buses[:SOURCES]:
            await bus.producer.observe()
        if now_us <= RETENTION_US:
            return 0
        cluster, name = self._buses[0].cluster, self._settings.topic(topic)
        places = [(name, partition) for partition in unread]
        before = await cluster.spans(places)
        wanted = [TopicPartition(name, partition, sources[0]) for partition, sources in unread.items()]
        for future in cluster.admin.delete_records(wanted).values():
            await answered(future)
        after = await cluster.spans(places)
        return sum(after[place][0] - before[place][0] for place in places)


SQLITES = ("sqlite", "sqlite-foreign", "sqlite-foreign-overflowing", "sqlite-overflowing")
REAL = pytest.param("kafka", marks=pytest.mark.servers)
ALL = [*SQLITES, "kafka-double", REAL]
"""Every adapter; one more is one line more."""
DROPPING = [*SQLITES, REAL]
"""Those whose messages can be dropped at will: the double never lets go of one."""
KEEPING = [*SQLITES]
"""Those whose `Capabilities.keeps_unread` is true."""


def rig_of(request: pytest.FixtureRequest, folder: Path) -> Iterator[BusRig]:
    """The rig that the parameter of the fixture names."""
    kind: str = request.param
    if kind in SQLITES:
        pending_max = 2 if "overflowing" in kind else 20_000
        yield SqliteBusRig(folder, foreign="foreign" in kind, pending_max=pending_max)
    elif kind == "kafka-double":
        double: KafkaDouble = request.getfixturevalue("kafka_double")
        yield KafkaBusRig(kafka_settings(double.bootstrap), double)
    else:
        servers: Service = request.getfixturevalue("kafka_servers")
        yield KafkaBusRig(kafka_settings(servers.endpoints()["bootstrap"]))


def kafka_settings(bootstrap: str) -> KafkaSettings:
    """Topics of their own, and little patience."""
    return KafkaSettings(bootstrap=bootstrap, prefix=f"t{secrets.token_hex(6)}", linger_seconds=0.001)

"""The servers read through their plain drivers: CQL rows, HDFS files, Kafka offsets and messages, Valkey members."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, Self

import hdfs_native
import msgspec
import redis
from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import RoundRobinPolicy
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from e2e.cluster.archive import OPEN, SUFFIX, Record, records_of
from e2e.cluster.config import KEYSPACE, PREFIX, ROOT
from e2e.cluster.evidence import Announced, Fact, Lag, Left, Marks, Parse, Row, announced_of, fact_of
from e2e.cluster.servers_up import SHARDS, ClusterServers

QUERY_SECONDS_MAX: Final = 60.0
KAFKA_SECONDS_MAX: Final = 20.0
FETCHED: Final = "document.fetched"
LINKS: Final = "links.discovered"
SAMPLES_MAX: Final = 8
NO_OFFSET: Final = -1001
JOB_VERSION: Final = -1
JOB_DONE: Final = "done"


class Authority:
    """The URL store, read as anybody with a driver may."""

    def __init__(self, servers: ClusterServers) -> None:
        profile = ExecutionProfile(
            load_balancing_policy=RoundRobinPolicy(),
            consistency_level=ConsistencyLevel.LOCAL_QUORUM,
            request_timeout=QUERY_SECONDS_MAX,
        )
        self._cluster = Cluster(
            servers.contact_points,
            port=servers.cassandra_port,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            protocol_version=5,
        )
        self._session = self._cluster.connect(KEYSPACE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.shutdown()

    def run(self, cql: str, *values: Any) -> None:
        """A statement, for tests that put something there."""
        self._session.execute(cql, values)

    def _all(self, cql: str) -> list[Any]:
        return list(self._session.execute(cql))

    def rows(self) -> list[Row]:
        """Every URL."""
        found = self._all(
            "SELECT DISTINCT fp, key, url, host, shard, state, reason, due_us, claim, lease_us, holder, latest_us "
            "FROM url"
        )
        return [Row(*values) for values in found]

    def facts(self) -> list[Fact]:
        """Every outcome."""
        found = self._all("SELECT fp, fetched_us, outcome FROM url")
        return [
            fact_of(fp, fetched_us, msgspec.msgpack.decode(outcome))
            for fp, fetched_us, outcome in found
            if fetched_us is not None  # a URL without outcomes has one row of static cells alone
        ]

    def parses(self) -> list[Parse]:
        """What became of every document: outputs by parser version, and (version -1) the job for another attempt."""
        outputs: dict[tuple[bytes, int], bool] = {}
        jobs: dict[tuple[bytes, int], str] = {}
        found = self._all("SELECT fp, fetched_us, version, output, state FROM parse")
        for fp, fetched_us, version, output, state in found:
            place = (fp, fetched_us)
            outputs[place] = outputs.get(place, False) or (version != JOB_VERSION and bool(output))
            if version == JOB_VERSION and state != JOB_DONE:
                jobs[place] = state or "open"
        return [Parse(*place, accepted=accepted, job=jobs.get(place, "")) for place, accepted in outputs.items()]

    def troubles(self) -> list[str]:
        """Open repair items, and damage in segments."""
        items = self._all("SELECT kind, subject, detail FROM repair")
        damage = self._all("SELECT reason FROM damage")
        return [f"repair {kind} of {subject}: {detail}" for kind, subject, detail in items] + [
            f"damage: {reason}" for (reason,) in damage
        ]


class Bus:
    """Kafka, read as a stranger: no group is joined, nothing is committed."""

    def __init__(self, servers: ClusterServers) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": servers.bootstrap, "group.id": "onlooker", "enable.auto.commit": False}
        )
        self._admin = AdminClient({"bootstrap.servers": servers.bootstrap})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def lags(self, topic: str) -> list[Lag]:
        """How far the readers of a topic are, by partition."""
        name = f"{PREFIX}.{topic}"
        wanted = [TopicPartition(name, part) for part in range(SHARDS)]
        group = f"limpet.{name}"
        asked = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)])
        committed = {one.partition: one.offset for one in asked[group].result(KAFKA_SECONDS_MAX).topic_partitions}
        return [self._lag(topic, place, committed.get(place.partition, NO_OFFSET)) for place in wanted]

    def _lag(self, topic: str, place: TopicPartition, committed: int) -> Lag:
        start, end = self._consumer.get_watermark_offsets(place, timeout=KAFKA_SECONDS_MAX)
        return Lag(topic, place.partition, committed if committed >= 0 else start, end)

    def dead(self) -> int:
        """Dead letters of both topics."""
        return sum(lag.end for topic in (FETCHED, LINKS) for lag in self.lags(f"{topic}.dead"))

    def messages(self, topic: str) -> Iterator[bytes]:
        """Every message that is in the log."""
        name = f"{PREFIX}.{topic}"
        ends = {}
        for part in range(SHARDS):
            start, end = self._consumer.get_watermark_offsets(TopicPartition(name, part), timeout=KAFKA_SECONDS_MAX)
            if start < end:
                ends[part] = (start, end)
        self._consumer.assign([TopicPartition(name, part, start) for part, (start, _) in ends.items()])
        waiting = set(ends)
        while waiting:
            message = self._consumer.poll(KAFKA_SECONDS_MAX)
            assert message is not None, f"{name} gave nothing for {KAFKA_SECONDS_MAX:g} s"
            yield from self._value(message)
            if _offset(message) + 1 >= ends[message.partition() or 0][1]:
                waiting.discard(message.partition() or 0)
        self._consumer.unassign()

    def _value(self, message: Message) -> Iterator[bytes]:
        assert message.error() is None, message.error()
        if (value := message.value()) is not None:
            yield value

    def announced(self) -> list[Announced]:
        """Every `document.fetched`."""
        return [announced_of(payload) for payload in self.messages(FETCHED)]


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def marks_of(servers: ClusterServers) -> list[Marks]:
    """What each seen shard holds, of whatever epoch is the latest."""
    found = []
    for shard, node in enumerate(servers.valkey.nodes):
        with redis.Redis(node.host, node.ports["server"], socket_timeout=10) as client:
            found.append(_marks(client, shard))
    return found


def _marks(client: "redis.Redis", shard: int) -> Marks:
    """Keys: seen:CRAWL:EPOCH:SHARD says the layout, seen:CRAWL:EPOCH:SHARD:SET holds members (SET in hex)."""
    keys = [key.decode() for key in client.scan_iter(match="seen:*", count=1000)]
    layouts = [key for key in keys if key.count(":") == 3]
    if not layouts:
        return Marks(shard, 1, frozenset())
    layout = max(layouts, key=lambda key: int(key.split(":")[2]))
    about = json.loads(client.get(layout) or b"{}")
    members = {
        (int(key.rpartition(":")[2], 16), int(member))
        for key in keys
        if key.startswith(f"{layout}:")
        for member in client.smembers(key)
    }
    assert about["shard"] == shard, f"the server of shard {shard} says that it is shard {about['shard']}"
    return Marks(shard, about["sets"], frozenset(members))


def hdfs_of(servers: ClusterServers) -> hdfs_native.Client:
    """Past the proxy."""
    node = servers.hdfs.nodes[0]
    return hdfs_native.Client(f"hdfs://{node.host}:{node.ports['rpc']}")


def open_segments(servers: ClusterServers) -> list[str]:
    """Names of those that are not sealed."""
    paths = (status.path for status in hdfs_of(servers).list_status(ROOT, recursive=True) if not status.isdir)
    return [path.rpartition("/")[2] for path in paths if path.endswith(f"{SUFFIX}{OPEN}")]


def segments_of(servers: ClusterServers) -> tuple[list[Record], dict[str, int], list[str]]:
    """Response records; bytes at the end of a segment that are no record; segments that were never sealed."""
    client = hdfs_of(servers)
    records: list[Record] = []
    torn: dict[str, int] = {}
    unsealed: list[str] = []
    for status in client.list_status(ROOT, recursive=True):
        name = status.path.rpartition("/")[2]
        if status.isdir or not name.removesuffix(OPEN).endswith(SUFFIX):
            continue
        if name.endswith(OPEN):
            unsealed.append(name)
            continue
        with client.read(status.path) as file:
            data = file.read()
        found, left = records_of(name, data)
        records += found
        if left:
            torn[name] = left
    return records, torn, unsealed


def left_of(authority: Authority, bus: Bus) -> Left:
    """What is still to be done, by the authority's rows and the readers' offsets."""
    rows, parses = authority.rows(), authority.parses()
    leased = [row for row in rows if row.state == "leased"]
    due = [row for row in rows if row.state == "due" or (row.due_us and row.state != "leased")]
    lags = [lag for topic in (FETCHED, LINKS) for lag in bus.lags(topic) if lag.committed < lag.end]
    accepted = {(parse.fp, parse.fetched_us) for parse in parses if parse.accepted}
    unparsed = [row for row in rows if row.state == "fetched" and (row.fp, row.latest_us) not in accepted]
    samples = [f"{row.url} is {row.state}, due {row.due_us}, lease {row.lease_us}" for row in (leased + due)[:4]]
    samples += [f"{lag.topic}[{lag.partition}] is read to {lag.committed} of {lag.end}" for lag in lags[:2]]
    samples += [f"{row.url} at {row.latest_us} is not parsed" for row in unparsed[:2]]
    return Left(
        states=Counter(row.state for row in rows),
        leased=len(leased),
        due=len(due),
        unread=sum(lag.end - lag.committed for lag in lags),
        jobs=sum(1 for parse in parses if parse.job and not parse.accepted),
        unparsed=len(unparsed),
        samples=tuple(samples[:SAMPLES_MAX]),
    )

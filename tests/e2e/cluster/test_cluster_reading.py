"""The proofs' own readers, tried on servers into which a known crawl was put by hand."""

import asyncio
from dataclasses import replace

import hdfs_native
import msgspec
import pytest
import redis
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from e2e.cluster.config import KEYSPACE, PREFIX, ROOT
from e2e.cluster.conftest import StartServers
from e2e.cluster.evidence import Announced, Fact, Lag, Parse, Row
from e2e.cluster.made_evidence import SEGMENT, segment_bytes, sound
from e2e.cluster.reading import FETCHED, Authority, Bus, marks_of, segments_of
from e2e.cluster.servers_up import SHARDS, ClusterServers
from limpet.clock import SystemClock
from limpet.urlstore.cassandra import CassandraSettings, migrate

LOCATION = {"segment": "s", "offset": 1, "length": 2}
CUT = b"a capture that a death has cut"


@pytest.mark.servers
def test_what_was_put_there_is_read(start_servers: StartServers) -> None:
    """Messages and offsets, files and marks."""
    servers = start_servers("single")
    messages_are_read(servers)
    files_are_read(servers)
    marks_are_read(servers)
    rows_are_read(servers)


def messages_are_read(servers: ClusterServers) -> None:
    """What is in the log, and how far its readers are."""
    name, about = f"{PREFIX}.{FETCHED}", {"bootstrap.servers": servers.bootstrap}
    admin = AdminClient({**about})  # it has to live as long as its futures
    for future in admin.create_topics([NewTopic(name, SHARDS, 1)]).values():
        future.result(20)
    producer = Producer({**about})
    for part in (3, 3, 5):
        event = b'{"url":"http://x.test/","fetched_us":7,"location":{"segment":"s","offset":1,"length":2}}'
        producer.produce(name, event, partition=part)
    assert producer.flush(20) == 0
    reader = Consumer({**about, "group.id": f"limpet.{name}"})
    reader.commit(offsets=[TopicPartition(name, 3, 1)], asynchronous=False)
    reader.close()
    with Bus(servers) as bus:
        assert bus.announced() == [Announced("http://x.test/", 7, ("s", 1, 2))] * 3
        behind = [lag for lag in bus.lags(FETCHED) if lag.committed < lag.end]
    assert behind == [Lag(FETCHED, 3, 1, 2), Lag(FETCHED, 5, 0, 1)]


def files_are_read(servers: ClusterServers) -> None:
    """Sealed segments record by record, open ones by name, torn ends by size."""
    client = hdfs_native.Client(servers.namenode_url)
    data = segment_bytes()
    for name, content in ((SEGMENT, data), (f"other-{SEGMENT}", CUT), (f"open-{SEGMENT}.open", data)):
        with client.create(f"{ROOT}/20261130/{name}") as file:
            file.write(content)
    records, torn, unsealed = segments_of(servers)
    assert records == sound().records
    assert torn == {f"other-{SEGMENT}": len(CUT)}
    assert unsealed == [f"open-{SEGMENT}.open"]


def marks_are_read(servers: ClusterServers) -> None:
    """Members of the latest epoch, set by set."""
    node = servers.valkey.nodes[4]
    with redis.Redis(node.host, node.ports["server"]) as client:
        for epoch, members in ((1, [1, 2]), (2, [5, -6])):
            client.set(f"seen:crawl:{epoch}:4", '{"shard":4,"sets":99}')
            client.sadd(f"seen:crawl:{epoch}:4:1f", *members)
    found = marks_of(servers)
    assert [marks.shard for marks in found] == list(range(SHARDS))
    assert found[4] == replace(found[3], shard=4, sets=99, members=frozenset({(31, 5), (31, -6)}))


def rows_are_read(servers: ClusterServers) -> None:
    """A row with and without outcomes, what became of bodies, what is in repair: in the tables that Limpet makes."""
    settings = CassandraSettings(
        contact_points=tuple(servers.contact_points), port=servers.cassandra_port, keyspace=KEYSPACE, replication=1
    )
    asyncio.run(migrate(settings, SystemClock()))
    outcome = msgspec.msgpack.encode({"url": "http://x.test/", "status": 200, "location": LOCATION})
    with Authority(servers) as authority:
        for number in (1, 2):
            authority.run(
                "INSERT INTO url (fp, key, url, host, shard, state, reason, due_us, claim, lease_us, holder, "
                "latest_us) VALUES (%s, 'k', 'http://x.test/', 'x.test', 3, 'fetched', '', 0, %s, 0, '', 7)",
                bytes([number]),
                b"",
            )
        authority.run("INSERT INTO url (fp, fetched_us, outcome) VALUES (%s, 7, %s)", b"\x01", outcome)
        for version, output, state in ((3, b"o", ""), (-1, b"", "open")):
            authority.run(
                "INSERT INTO parse (fp, fetched_us, version, output, state) VALUES (%s, 7, %s, %s, %s)",
                b"\x01",
                version,
                output,
                state,
            )
        authority.run("INSERT INTO repair (shard, kind, subject, detail) VALUES (3, 'k', 's', 'd')")
        rows = [Row(bytes([number]), "k", "http://x.test/", "x.test", 3, "fetched", latest_us=7) for number in (1, 2)]
        assert sorted(authority.rows(), key=lambda row: row.fp) == rows
        assert authority.facts() == [Fact(b"\x01", 7, "http://x.test/", 200, ("s", 1, 2))]
        assert authority.parses() == [Parse(b"\x01", 7, accepted=True, job="open")]
        assert authority.troubles() == ["repair k of s: d"]

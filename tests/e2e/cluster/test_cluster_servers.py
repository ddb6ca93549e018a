"""The servers of the cluster proofs: all up, each reached through its proxy, which can spoil the network."""

import contextlib
import socket
from pathlib import Path

import pytest

from e2e.cluster.conftest import StartServers
from e2e.cluster.servers_up import ClusterServers
from e2e.processes import wait_until
from servers import wire

MEMORY_MEGABYTES_MAX = {"single": 3_000, "three": 5_000}


def ping(port: int, seconds_max: float) -> bytes:
    """What a seen shard says; b"" when it says nothing in time."""
    with contextlib.suppress(OSError), wire.connection("127.0.0.1", port, seconds_max) as stream:
        stream.sendall(b"*1\r\n$4\r\nPING\r\n")
        return wire.exactly(stream, 7)
    return b""


@pytest.mark.servers
def test_everything_is_reached_through_proxies(start_servers: StartServers) -> None:
    """One node of each: all of it fits the machine, and every client is sent through a proxy."""
    servers = start_servers("single")
    assert sum(servers.memory_megabytes().values()) < MEMORY_MEGABYTES_MAX["single"]
    all_ways_lead_through_proxies(servers)
    spoilt_and_mended(servers)
    for name in ("kafka-1", "cassandra-1", "datanode-2", "valkey-31"):
        pid = servers.node(name).process
        servers.restart(name)
        assert servers.node(name).process != pid


@pytest.mark.slow
def test_three_of_each_fit_too(start_servers: StartServers) -> None:
    """Three brokers and three Cassandra nodes, with replication worth its name."""
    servers = start_servers("three")
    assert sum(servers.memory_megabytes().values()) < MEMORY_MEGABYTES_MAX["three"]
    all_ways_lead_through_proxies(servers)


def all_ways_lead_through_proxies(servers: ClusterServers) -> None:
    """Every node is asked once by its clients' address; its proxy has seen it."""
    count = 1 if servers.form == "single" else 3
    assert len(servers.bootstrap.split(",")) == len(servers.contact_points) == count
    addresses = [*servers.bootstrap.split(","), *servers.seen_addresses]
    addresses += [f"{host}:{servers.cassandra_port}" for host in servers.contact_points]
    addresses.append(servers.namenode_url.removeprefix("hdfs://"))
    for address in addresses:
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=5):
            pass
    fronted = [*servers.kafka.nodes, *servers.cassandra.nodes, *servers.valkey.nodes, servers.hdfs.nodes[0]]
    assert len(addresses) == len(fronted)
    wait_until(lambda: all(servers.front(node.name).connections for node in fronted), "every proxy to be asked", 5.0)


def spoilt_and_mended(servers: ClusterServers) -> None:
    """Replies are lost, or stand still; afterwards they come again."""
    front = servers.front("valkey-00")
    assert ping(front.port, 2.0) == b"+PONG\r\n"
    for spoil in (front.drop_replies, front.hold):
        spoil()
        assert ping(front.port, 0.3) == b""
        front.mend()
        assert ping(front.port, 2.0) == b"+PONG\r\n"


def test_nothing_is_started_by_making_the_object(tmp_path: Path) -> None:
    """Nodes have names before they have processes."""
    servers = ClusterServers(tmp_path, "three")
    assert [node.name for node in servers.cassandra.nodes] == ["cassandra-1", "cassandra-2", "cassandra-3"]
    assert servers.service_of("datanode-3") is servers.hdfs
    assert not any(node.alive for service in servers.services for node in service.nodes)
    servers.close()

"""Real servers for the suites of the cluster adapters."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.cassandras import keyspace
from contract.serving import serving
from contract.stores import SERVED, STORES, CassandraRig, StoreRig
from limpet.testing.kafka import KafkaDouble
from limpet.urlstore.cassandra import CassandraSettings
from servers import Folder, Service, service


@pytest.fixture(scope="session")
def hdfs_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """HDFS, started for this run; with LIMPET_SERVERS, that of the folder it names, which is left up."""
    with contextlib.contextmanager(_serving)("hdfs", tmp_path_factory) as found:
        yield found


@pytest.fixture(scope="session")
def kafka_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One Kafka broker; otherwise as `hdfs_servers`."""
    with contextlib.contextmanager(_serving)("kafka", tmp_path_factory) as found:
        yield found


@pytest.fixture(scope="session")
def cassandra_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One Cassandra node; otherwise as `hdfs_servers`."""
    with contextlib.contextmanager(_serving)("cassandra", tmp_path_factory) as found:
        yield found


@pytest.fixture(scope="session")
def cassandra_crawl(cassandra_servers: Service) -> CassandraSettings:
    """A keyspace with its tables, for the whole run: tests empty it, because creating tables takes seconds."""
    return keyspace(cassandra_servers)


@pytest.fixture(scope="session")
def kafka_double() -> Iterator[KafkaDouble]:
    """Brokers in memory."""
    with KafkaDouble(brokers=3) as double:
        yield double


@pytest.fixture(params=[*sorted(STORES), pytest.param(SERVED, marks=pytest.mark.servers)])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> StoreRig:
    """One adapter of the URL store; suites of other ports have rigs of their own."""
    if request.param == SERVED:
        return CassandraRig(request.getfixturevalue("cassandra_crawl"))
    return STORES[request.param](tmp_path)


def _serving(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A kind of server until the end of the run."""
    kept = os.environ.get("LIMPET_SERVERS")
    found = service(kind, Folder.at(kept or tmp_path_factory.mktemp("servers")), tied=not kept)
    with serving(found, keep=bool(kept)):
        yield found

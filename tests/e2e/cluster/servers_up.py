"""Everything that the cluster form stands on, for real: Kafka, Cassandra, HDFS, 32 Valkey, each behind a proxy."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from e2e.cluster.fronted import FrontedCassandra, FrontedKafka, front_of
from e2e.cluster.fronts import Front, Fronts
from e2e.cluster.ticking import seconds
from servers import Folder, Form, Node, Service
from servers.hdfs import NAMENODE, Hdfs
from servers.valkey import Valkey

SHARDS: Final = 32


class ClusterServers:
    """All servers, up while the `with` lasts; they die with it, and with the process that runs it."""

    def __init__(self, path: Path, form: Form = "single", *, shards: int = SHARDS) -> None:
        folder = Folder.at(path)
        self.form = form
        self.kafka = FrontedKafka(folder, form, tied=True)
        self.cassandra = FrontedCassandra(folder, form, tied=True)
        self.hdfs = Hdfs(folder, form, tied=True)
        self.valkey = Valkey(folder, form, tied=True, shards=shards)
        self.fronts = Fronts()
        self.up_seconds: dict[str, float] = {}
        # A tied server dies with the thread that started it: these threads live as long as the servers shall.
        self._starters = ThreadPoolExecutor(len(self.services))

    @property
    def services(self) -> tuple[Service, ...]:
        """Every kind of server; the one that takes longest first."""
        return (self.cassandra, self.hdfs, self.kafka, self.valkey)

    def __enter__(self) -> Self:
        try:
            list(self._starters.map(self._up, self.services))
            self._open_fronts()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _up(self, service: Service) -> None:
        begun = seconds()
        service.up()
        self.up_seconds[service.name] = round(seconds() - begun, 1)

    def _open_fronts(self) -> None:
        self.fronts.__enter__()
        for node in self.kafka.nodes:
            self.fronts.open(node.name, node.host, node.ports["broker"], listen=self.kafka.front_ports[node.name])
        for node in self.cassandra.nodes:
            native = node.ports["native"]
            self.fronts.open(node.name, node.host, native, listen=native, address=front_of(node))
        namenode = self.hdfs.node(NAMENODE)
        self.fronts.open(NAMENODE, namenode.host, namenode.ports["rpc"])
        for node in self.valkey.nodes:
            self.fronts.open(node.name, node.host, node.ports["server"])

    def close(self) -> None:
        """Kill them all."""
        self.fronts.close()
        for service in self.services:
            service.down()
        self._starters.shutdown()

    # -- the nodes, by name --------------------------------------------------------------------------------------------
    def service_of(self, node: str) -> Service:
        """The service that a node belongs to."""
        return next(service for service in self.services if any(one.name == node for one in service.nodes))

    def node(self, name: str) -> Node:
        """A node of any service."""
        return self.service_of(name).node(name)

    def front(self, name: str) -> Front:
        """The proxy before a node; DataNodes have none."""
        return self.fronts[name]

    def restart(self, name: str) -> None:
        """`kill -9` if it runs, and up again on its data, where it was."""
        self._starters.submit(self.service_of(name).restart, name).result()

    # -- how clients reach them ----------------------------------------------------------------------------------------
    @property
    def bootstrap(self) -> str:
        """Kafka, through its proxies."""
        return self.kafka.bootstrap()

    @property
    def contact_points(self) -> list[str]:
        """Cassandra, through its proxies."""
        return [front_of(node) for node in self.cassandra.nodes]

    @property
    def cassandra_port(self) -> int:
        """The same for every node and every proxy."""
        return self.cassandra.nodes[0].ports["native"]

    @property
    def namenode_url(self) -> str:
        """HDFS, through the proxy of its NameNode."""
        return f"hdfs://127.0.0.1:{self.fronts[NAMENODE].port}"

    @property
    def namenode_http(self) -> str:
        """The NameNode's HTTP address."""
        node = self.hdfs.node(NAMENODE)
        return f"{node.host}:{node.ports['http']}"

    @property
    def seen_addresses(self) -> list[str]:
        """Seen shards in order, through their proxies."""
        return [f"127.0.0.1:{self.fronts[node.name].port}" for node in self.valkey.nodes]

    # -- figures -------------------------------------------------------------------------------------------------------
    def memory_megabytes(self) -> dict[str, int]:
        """Resident memory by service, now."""
        return {service.name: sum(_memory(service)) >> 20 for service in self.services}


def _memory(service: Service) -> Iterator[int]:
    for node in service.nodes:
        if node.process is not None:
            yield node.process.memory_bytes


def missing_programs() -> list[str]:
    """What this machine lacks to run the servers."""
    wanted = {program for kind in (FrontedKafka, FrontedCassandra, Hdfs, Valkey) for program in kind.programs}
    return sorted(program for program in wanted if shutil.which(program) is None)

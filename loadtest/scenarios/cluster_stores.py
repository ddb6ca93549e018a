"""The servers that the benchmark of the cluster form stands on: started, named in a configuration, and weighed."""

import json
import sys
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import redis

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "infra" / "local"))

from scenarios.crawling import OWNED
from servers import Folder, Service
from servers.cassandra import Cassandra
from servers.hdfs import Hdfs
from servers.kafka import Kafka
from servers.valkey import Valkey

Table = Mapping[str, Any]
PAXOS: Final = "system/paxos"
KAFKA_LOG: Final = ".log"


class Stores:
    """Every kind of server, in a folder; those that ran already are used, and left running."""

    def __init__(self, path: Path, name: str, *, copies: int = 1) -> None:
        """`name`: of the keyspace, the topics and the folder of this crawl."""
        folder = Folder.at(path)
        self.name = name
        self._copies = copies
        self.cassandra, self.kafka = Cassandra(folder), Kafka(folder)
        self.hdfs, self.valkey = Hdfs(folder), Valkey(folder)
        self._started: list[Service] = []

    @property
    def _services(self) -> tuple[Service, ...]:
        return (self.cassandra, self.kafka, self.hdfs, self.valkey)

    def up(self) -> None:
        """Start what does not run, and wait until all of it serves."""
        self._started = [service for service in self._services if not all(node.alive for node in service.nodes)]
        with ThreadPoolExecutor(len(self._services)) as pool:
            list(pool.map(lambda service: service.up(), self._services))

    def down(self) -> None:
        """End what `up` started."""
        for service in self._started:
            service.down()

    def tables(self, *, http: str, folder: Path) -> dict[str, Table]:
        """A configuration with the defaults, but for places and copies; "" holds what belongs to no table."""
        cassandra, kafka = self.cassandra.endpoints(), self.kafka.endpoints()
        hdfs, valkey = self.hdfs.endpoints(), self.valkey.endpoints()
        return {
            "": {"owned": [OWNED]},
            "crawl": {"contact": "mailto:bench@example.org", "scope": "any", "seen_capacity": 1_000_000_000},
            "rules": {"owned_hosts_only": True},
            "cluster": {"http": http, "folder": str(folder)},
            "kafka": {
                "bootstrap": kafka["bootstrap"],
                "prefix": self.name,
                "replication": self._copies,
                "min_insync": self._copies,
            },
            "cassandra": {
                "contact_points": cassandra["contact_points"],
                "port": cassandra["port"],
                "datacenter": cassandra["datacenter"],
                "keyspace": self.name,
                "replication": self._copies,
            },
            "hdfs": {
                "url": hdfs["namenode"],
                "namenodes_http": [hdfs["namenode_http"]],
                "root": f"/{self.name}",
            },
            "seen": {"addresses": valkey["shards"]},
        }

    def write(self, path: Path, *, http: str, folder: Path) -> Path:
        """As TOML: the values are strings, numbers, booleans and lists of them, which JSON writes alike."""
        lines = []
        for name, table in self.tables(http=http, folder=folder).items():
            lines += [f"[{name}]"] if name else []
            lines += [f"{key} = {json.dumps(value)}" for key, value in table.items()]
        path.write_text("\n".join(lines) + "\n")
        return path

    def bytes(self) -> dict[str, int]:
        """What each store holds of this crawl, one copy, in bytes on disk; the seen shards in bytes of memory."""
        tables = self._cassandra_bytes()
        return {
            "cassandra": sum(tables.values()) - tables[PAXOS],
            "cassandra_paxos": tables[PAXOS],
            "kafka": self._kafka_bytes(),
            "seen": sum(self._seen_bytes(address) for address in self.valkey.endpoints()["shards"]),
            "hdfs": self._hdfs_bytes(),
        }

    def cassandra_tables(self) -> dict[str, int]:
        """Bytes on disk by table, of this crawl."""
        return {name: size for name, size in self._cassandra_bytes().items() if name != PAXOS}

    def _cassandra_bytes(self) -> dict[str, int]:
        self.cassandra.flush(self.name)
        self.cassandra.flush("system")
        tables = self.cassandra.nodes[0].data / "tables"
        found = {folder.name.partition("-")[0]: _bytes_in(folder) for folder in (tables / self.name).glob("*-*")}
        return found | {PAXOS: sum(_bytes_in(folder) for folder in (tables / "system").glob("paxos-*"))}

    def _kafka_bytes(self) -> int:
        logs = self.kafka.nodes[0].data.glob(f"{self.name}.*/*{KAFKA_LOG}")
        return sum(path.stat().st_size for path in logs)

    def _seen_bytes(self, address: str) -> int:
        host, _, port = address.rpartition(":")
        with redis.Redis(host, int(port), socket_timeout=10) as client:
            info = client.info("memory")
        return int(info["used_memory_dataset"])

    def _hdfs_bytes(self) -> int:
        address = self.hdfs.endpoints()["namenode_http"]
        url = f"http://{address}/webhdfs/v1/{self.name}?op=GETCONTENTSUMMARY"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return int(json.loads(answer.read())["ContentSummary"]["length"])


def _bytes_in(folder: Path) -> int:
    """Of the files of a table; snapshots and the like lie in folders of their own."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())

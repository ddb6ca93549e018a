"""Cassandra: one node, or three on 127.0.0.1, 127.0.0.2 and 127.0.0.3 with the same ports."""

import struct
import subprocess
from typing import Any, ClassVar, Final

from servers import ports, wire
from servers.jars import Jars
from servers.node import Node
from servers.service import Service
from servers.trouble import Trouble

JARS: Final = Jars(
    "cassandra-5.0.9",
    (
        "org.apache.cassandra:cassandra-all:5.0.9",
        "ch.qos.logback:logback-classic:1.5.18",  # not brought along; must be 1.5
    ),
)
AGENT: Final = "jamm-0.4.0.jar"
DATACENTER: Final = "datacenter1"  # what SimpleSnitch calls it
FLAGS: Final = (
    "-XX:+UseG1GC",
    "-XX:G1HeapRegionSize=1m",
    "-Xss512k",
    "-XX:+PerfDisableSharedMem",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:MaxDirectMemorySize=256m",
    "-Djava.net.preferIPv4Stack=true",
    "-Djdk.attach.allowAttachSelf=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dcassandra.ring_delay_ms=1000",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.superuser_setup_delay_ms=0",
    "-Dcassandra.consistent.simultaneousmoves.allow=true",
    "-Dcassandra-foreground=yes",
)
EXPORTS: Final = [
    "java.base/jdk.internal.misc",
    "java.base/java.lang.ref",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
    "jdk.compiler/com.sun.tools.javac.file",
    "jdk.attach/sun.tools.attach",
]
OPENS: Final = [
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/sun.nio.ch",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "jdk.management/com.sun.management.internal",
    "jdk.compiler/com.sun.tools.javac",
]
LOGBACK: Final = """\
<configuration>
<appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%d %p %c{0} %m%n</pattern></encoder></appender>
<root level="WARN"><appender-ref ref="OUT"/></root>
</configuration>
"""
SETTINGS: Final = """\
cluster_name: limpet
num_tokens: 16
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
authenticator: AllowAllAuthenticator
authorizer: AllowAllAuthorizer
dynamic_snitch: false
commitlog_sync: batch
commitlog_segment_size: 16MiB
commitlog_total_space: 256MiB
memtable_heap_space: 96MiB
memtable_offheap_space: 96MiB
key_cache_size: 16MiB
counter_cache_size: 0MiB
file_cache_size: 32MiB
concurrent_compactors: 1
concurrent_reads: 16
concurrent_writes: 16
disk_access_mode: mmap_index_only
hinted_handoff_enabled: true
paxos_variant: v2
cas_contention_timeout: 5s
write_request_timeout: 5s
read_request_timeout: 5s
cdc_enabled: false
"""
WIPED: Final = "wiped"
STARTUP: Final = 0x01
QUERY: Final = 0x07
READY: Final = 0x02
ROWS: Final = 2
HAS_GLOBAL_TABLE: Final = 1
ONE: Final = 1


class Cassandra(Service):
    """See `Service`. Endpoints: `contact_points`, `port`, `datacenter`."""

    name: ClassVar = "cassandra"
    programs: ClassVar = ("java", "mvn")
    megabytes: ClassVar = {"single": 1400, "three": 3000}
    seconds_max: ClassVar = 240.0

    def plan(self) -> list[Node]:
        """One node or three."""
        count = 1 if self.form == "single" else 3
        return [
            Node(f"cassandra-{number}", self.root / f"cassandra-{number}", host=f"127.0.0.{number}")
            for number in range(1, count + 1)
        ]

    def choose_ports(self) -> dict[str, dict[str, int]]:
        """The ports of clients and of gossip are the same on every address, as drivers expect."""
        native, storage, *management = ports.choose(2 + len(self.nodes))
        return {
            node.name: {"native": native, "storage": storage, "jmx": jmx}
            for node, jmx in zip(self.nodes, management, strict=True)
        }

    def download(self) -> None:
        """The jars."""
        JARS.fetch(self.folder, self.say)

    def prepare(self, node: Node) -> None:
        """Its configuration."""
        conf = node.folder / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        node.data.mkdir(parents=True, exist_ok=True)
        (conf / "logback.xml").write_text(LOGBACK)
        replacing = self._replacing(node)
        seed = self.nodes[1 if replacing and node is self.nodes[0] else 0]  # a seed never streams
        own = {
            "auto_bootstrap": str(replacing).lower(),
            "listen_address": node.host,
            "rpc_address": node.host,
            "storage_port": node.ports["storage"],
            "native_transport_port": node.ports["native"],
            "data_file_directories": f'["{node.data}/tables"]',
            "commitlog_directory": f'"{node.data}/commitlog"',
            "saved_caches_directory": f'"{node.data}/caches"',
            "hints_directory": f'"{node.data}/hints"',
            "cdc_raw_directory": f'"{node.data}/cdc"',
            "seed_provider": "[{class_name: org.apache.cassandra.locator.SimpleSeedProvider, "
            f'parameters: [{{seeds: "{seed.host}:{node.ports["storage"]}"}}]}}]',
        }
        text = SETTINGS + "".join(f"{key}: {value}\n" for key, value in own.items())
        (conf / "cassandra.yaml").write_text(text)

    def command(self, node: Node) -> tuple[str, ...]:
        """The daemon; the heap is small when there are three."""
        heap, lib = (512 if self.form == "single" else 256), JARS.path(self.folder)
        return (
            "java",
            *FLAGS,
            *_opened(),
            *((f"-Dcassandra.replace_address_first_boot={node.host}",) if self._replacing(node) else ()),
            f"-javaagent:{lib / AGENT}",
            f"-Xms{heap}m",
            f"-Xmx{heap}m",
            f"-Dcassandra.config={(node.folder / 'conf' / 'cassandra.yaml').as_uri()}",
            f"-Dlogback.configurationFile={node.folder / 'conf' / 'logback.xml'}",
            f"-Dcassandra.logdir={node.folder}",
            f"-Dcassandra.jmx.local.port={node.ports['jmx']}",
            f"-Dcassandra.storagedir={node.data}",
            "-cp",
            f"{node.folder / 'conf'}:{lib}/*",
            "org.apache.cassandra.service.CassandraDaemon",
        )

    def wipe(self, node: Node | str) -> None:
        """See `Service.wipe`. One of three comes back as its own replacement and fetches its data from the others."""
        super().wipe(node)
        if len(self.nodes) > 1:
            (self.node(node).folder / WIPED).touch()

    def flush(self, keyspace: str) -> None:
        """What is in memory of a keyspace goes to files, on every node, so that their sizes mean something."""
        lib = JARS.path(self.folder)
        for node in self.nodes:
            words = (
                "java",
                "-Xmx64m",
                "-XX:TieredStopAtLevel=1",
                *_opened(),
                f"-Duser.home={node.folder}",
                "-cp",
                f"{lib}/*",
                "org.apache.cassandra.tools.NodeTool",
                "-p",
                str(node.ports["jmx"]),
                "flush",
                keyspace,
            )
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise Trouble(f"{node.name} does not flush {keyspace}: {(done.stderr or done.stdout).strip()[-300:]}")

    def start_all(self) -> int:
        """The seed first: the others ask it who is there."""
        dead = [node for node in self.nodes if not node.alive]
        for node in dead:
            self.prepare(node)
        for node in dead:
            self.start(node)
            if node is self.nodes[0]:
                self.wait(node)
        return len(dead)

    def answers(self, node: Node) -> bool:
        """Whether it accepts queries."""
        return peers(node) is not None

    def complete(self) -> bool:
        """Whether every node knows all the others."""
        return all(peers(node) == len(self.nodes) - 1 for node in self.nodes)

    def endpoints(self) -> dict[str, Any]:
        """What a driver wants."""
        return {
            "form": self.form,
            "contact_points": [node.host for node in self.nodes],
            "port": self.nodes[0].ports["native"],
            "datacenter": DATACENTER,
        }

    def _replacing(self, node: Node) -> bool:
        """Whether the others know its address from before its data was lost; without effect once it has joined."""
        return (node.folder / WIPED).exists()


def _opened() -> tuple[str, ...]:
    """Java's own packages that Cassandra reaches into."""
    exports = (f"--add-exports={package}=ALL-UNNAMED" for package in EXPORTS)
    return (*exports, *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENS))


def peers(node: Node) -> int | None:
    """How many other nodes it knows; None when it does not answer (native protocol v4)."""
    try:
        with wire.connection(node.host, node.ports["native"]) as stream:
            stream.sendall(_frame(STARTUP, struct.pack(">H", 1) + _string("CQL_VERSION") + _string("3.0.0")))
            if _receive(stream)[0] != READY:
                return None
            query = b"SELECT peer_port FROM system.peers_v2"
            stream.sendall(_frame(QUERY, struct.pack(">i", len(query)) + query + struct.pack(">HB", ONE, 0)))
            return _row_count(_receive(stream)[1])
    except (OSError, struct.error):
        return None


def _string(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _frame(opcode: int, body: bytes) -> bytes:
    return struct.pack(">BBhBi", 4, 0, 0, opcode, len(body)) + body


def _receive(stream: wire.Stream) -> tuple[int, bytes]:
    _, _, _, opcode, size = struct.unpack(">BBhBi", wire.exactly(stream, 9))
    return opcode, wire.exactly(stream, size)


def _row_count(body: bytes) -> int | None:
    """Of a result with one column of a simple type."""
    kind, flags, columns = struct.unpack_from(">iii", body)
    if kind != ROWS or flags != HAS_GLOBAL_TABLE or columns != 1:
        return None
    at = 12
    for _ in range(3):  # keyspace, table, column
        at += 2 + struct.unpack_from(">H", body, at)[0]
    return int(struct.unpack_from(">i", body, at + 2)[0])  # after the column's type

"""Kafka in KRaft mode: one node that is broker and controller, or three."""

import base64
import struct
import subprocess
import uuid
from typing import Any, ClassVar, Final

from servers import ports, wire
from servers.folder import read, write
from servers.jars import Jars, jvm
from servers.node import Node
from servers.service import Service
from servers.trouble import Trouble

JARS: Final = Jars(
    "kafka-4.3.1",
    (
        "org.apache.kafka:kafka_2.13:4.3.1",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",  # the binding of slf4j 1.7, which Kafka brings
        "org.apache.logging.log4j:log4j-core:2.25.4",
    ),
)
HEAP_MEGABYTES: Final = 256
LOG4J: Final = """\
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = OUT
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1} %m%n
"""
# Timings that notice a death within seconds and rejoin at once: these servers are killed on purpose.
SETTINGS: Final = """\
process.roles=broker,controller
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
auto.create.topics.enable=false
unclean.leader.election.enable=false
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
group.consumer.heartbeat.interval.ms=500
group.consumer.min.heartbeat.interval.ms=500
group.consumer.session.timeout.ms=6000
group.consumer.min.session.timeout.ms=2000
log.cleaner.dedupe.buffer.size=4194304
num.network.threads=2
num.io.threads=4
background.threads=2
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
controller.quorum.election.timeout.ms=500
controller.quorum.fetch.timeout.ms=1500
replica.lag.time.max.ms=5000
"""
METADATA: Final = 3
METADATA_VERSION: Final = 4


class Kafka(Service):
    """See `Service`. Endpoints: `bootstrap`, `nodes` (name -> address)."""

    name: ClassVar = "kafka"
    programs: ClassVar = ("java", "mvn")
    megabytes: ClassVar = {"single": 400, "three": 1000}
    seconds_max: ClassVar = 90.0

    def plan(self) -> list[Node]:
        """One node or three."""
        count = 1 if self.form == "single" else 3
        return [Node(f"kafka-{number}", self.root / f"kafka-{number}") for number in range(1, count + 1)]

    def choose_ports(self) -> dict[str, dict[str, int]]:
        """Two a node."""
        found = ports.choose(2 * len(self.nodes))
        return {
            node.name: {"broker": found[2 * number], "controller": found[2 * number + 1]}
            for number, node in enumerate(self.nodes)
        }

    def download(self) -> None:
        """The jars."""
        JARS.fetch(self.folder, self.say)

    def prepare(self, node: Node) -> None:
        """Its properties; a log folder formatted with the id of the cluster."""
        properties = node.folder / "server.properties"
        properties.write_text(self._properties(node))
        (node.folder / "log4j2.properties").write_text(LOG4J)
        if (node.data / "meta.properties").exists():
            return
        node.data.mkdir(parents=True, exist_ok=True)
        words = (*self._java(node), "kafka.tools.StorageTool", "format", "-t", self._cluster_id())
        done = subprocess.run(
            (*words, "-c", str(properties)), capture_output=True, text=True, check=False, cwd=node.folder
        )
        if done.returncode != 0:
            raise Trouble(f"cannot format {node.data}: {(done.stderr or done.stdout).strip().splitlines()[-1]}")

    def command(self, node: Node) -> tuple[str, ...]:
        """The server itself."""
        return (*self._java(node), "kafka.Kafka", str(node.folder / "server.properties"))

    def answers(self, node: Node) -> bool:
        """Whether the broker is registered and knows as many brokers as there are alive nodes."""
        return self._brokers(node) >= max(1, sum(1 for other in self.nodes if other.alive))

    def endpoints(self) -> dict[str, Any]:
        """Addresses of the brokers."""
        nodes = {node.name: f"{node.host}:{node.ports['broker']}" for node in self.nodes}
        return {"form": self.form, "bootstrap": ",".join(nodes.values()), "nodes": nodes}

    def _java(self, node: Node) -> tuple[str, ...]:
        log4j = f"-Dlog4j2.configurationFile={node.folder / 'log4j2.properties'}"
        return jvm(HEAP_MEGABYTES, [JARS.path(self.folder) / "*"], log4j)

    def _cluster_id(self) -> str:
        place = self.root / "cluster.json"
        known = read(place).get("id")
        while known is None or known.startswith("-"):  # the tool would take it for an option
            known = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            write(place, {"id": known})
        return str(known)

    def _properties(self, node: Node) -> str:
        count = len(self.nodes)
        voters = [f"{number}@{one.host}:{one.ports['controller']}" for number, one in enumerate(self.nodes, 1)]
        in_sync = min(2, count)
        own = {
            "node.id": node.name.rpartition("-")[2],
            "controller.quorum.voters": ",".join(voters),
            "listeners": f"PLAINTEXT://{node.host}:{node.ports['broker']},"
            f"CONTROLLER://{node.host}:{node.ports['controller']}",
            "advertised.listeners": f"PLAINTEXT://{node.host}:{node.ports['broker']}",
            "log.dirs": str(node.data),
            "default.replication.factor": count,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": count,
            "transaction.state.log.replication.factor": count,
            "transaction.state.log.min.isr": in_sync,
            "share.coordinator.state.topic.replication.factor": count,
            "share.coordinator.state.topic.min.isr": in_sync,
        }
        return SETTINGS + "".join(f"{key}={value}\n" for key, value in own.items())

    def _brokers(self, node: Node) -> int:
        """How many brokers it lists; 0 when it does not answer (Metadata v4, no topics)."""
        body = struct.pack(">hhih", METADATA, METADATA_VERSION, 1, -1) + struct.pack(">ib", 0, 0)
        try:
            with wire.connection(node.host, node.ports["broker"]) as stream:
                stream.sendall(struct.pack(">i", len(body)) + body)
                size = struct.unpack(">i", wire.exactly(stream, 4))[0]
                answer = wire.exactly(stream, size)
        except OSError:
            return 0
        return int(struct.unpack_from(">i", answer, 8)[0])  # after correlation id and throttle time

"""Servers that tell their clients another address than their own: that of the proxy before them."""

from typing import Any, ClassVar, Final

from servers import Folder, Form, Node, ports
from servers.cassandra import Cassandra
from servers.kafka import Kafka

CASSANDRA_FRONT: Final = "127.0.9."  # drivers take one port for all nodes, so the proxies differ by address


class FrontedKafka(Kafka):
    """Brokers whose clients come through `front_ports`."""

    name: ClassVar = "kafka"

    def __init__(self, folder: Folder, form: Form = "single", *, tied: bool = False) -> None:
        super().__init__(folder, form, tied=tied)
        chosen = ports.choose(len(self.nodes))  # not the node's own: somebody else listens there
        self.front_ports = {node.name: port for node, port in zip(self.nodes, chosen, strict=True)}

    def bootstrap(self) -> str:
        """The addresses that clients are told."""
        return ",".join(f"127.0.0.1:{port}" for port in self.front_ports.values())

    def _properties(self, node: Node) -> str:
        own = super()._properties(node)
        told = f"advertised.listeners=PLAINTEXT://{node.host}:{node.ports['broker']}"
        assert told in own
        return own.replace(told, f"advertised.listeners=PLAINTEXT://127.0.0.1:{self.front_ports[node.name]}")


class FrontedCassandra(Cassandra):
    """Nodes whose clients come through the same port of other loopback addresses."""

    name: ClassVar = "cassandra"

    def prepare(self, node: Node) -> None:
        """Its configuration, with the address that drivers are told."""
        super().prepare(node)
        with (node.folder / "conf" / "cassandra.yaml").open("a") as settings:
            settings.write(f"broadcast_rpc_address: {front_of(node)}\n")

    def endpoints(self) -> dict[str, Any]:
        """What a driver wants."""
        return {**super().endpoints(), "contact_points": [front_of(node) for node in self.nodes]}


def front_of(node: Node) -> str:
    """The address before a node."""
    return CASSANDRA_FRONT + node.host.rpartition(".")[2]

"""One broker behind a proxy, with rights that can be denied: what the fault tests of the Kafka adapter are run on."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from msgspec import structs

from contract.bus_rigs import kafka_settings
from limpet.bus.kafka import KafkaBus, KafkaSettings, TopicSpec, specs_of
from limpet.clock import SystemClock
from limpet.model.events import LINKS_DISCOVERED
from servers import Folder, Node, Proxy, ports
from servers.kafka import Kafka

SPEC = TopicSpec(name="", partitions=6, replication=1, min_insync=1)


class ProxiedKafka(Kafka):
    """A broker that sends its clients to `proxy_port`, and asks an authorizer that allows what nobody denied."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(folder)  # not tied: threads that come and go start it again
        (self.proxy_port,) = ports.choose(1)  # not one of the node's: somebody else listens there

    def _properties(self, node: Node) -> str:
        own = super()._properties(node)
        broker = f"advertised.listeners=PLAINTEXT://{node.host}:{node.ports['broker']}"
        proxied = f"advertised.listeners=PLAINTEXT://{node.host}:{self.proxy_port}"
        assert broker in own
        return (
            own.replace(broker, proxied)
            + "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
            + "allow.everyone.if.no.acl.found=true\n"
            + "log.retention.check.interval.ms=500\n"
        )


class Place:
    """The broker, its proxy, and topics of their own."""

    def __init__(self, server: ProxiedKafka, proxy: Proxy, settings: KafkaSettings) -> None:
        self.server = server
        self.node = server.nodes[0]
        self.proxy = proxy
        self.settings = settings
        self._buses: list[KafkaBus] = []

    def bus(self, **changes: Any) -> KafkaBus:
        """A bus as another process would have it."""
        bus = KafkaBus(
            structs.replace(self.settings, **changes), SystemClock(), topics=[LINKS_DISCOVERED], min_insync=1
        )
        self._buses.append(bus)
        return bus

    async def restart(self) -> None:
        """`kill -9`, and again on the same ports and data; the event loop goes on."""
        await asyncio.to_thread(self.server.restart, self.node)

    async def close(self) -> None:
        """Close every bus."""
        for bus in self._buses:
            await bus.close()


@contextlib.asynccontextmanager
async def faulty_place(server: ProxiedKafka, **changes: Any) -> AsyncIterator[Place]:
    """Topics of their own behind a proxy that forwards; buses give up after a few seconds."""
    node = server.nodes[0]
    settings = kafka_settings(f"{node.host}:{server.proxy_port}")
    settings = structs.replace(settings, delivery_seconds_max=6.0, request_seconds_max=8.0, **changes)
    async with Proxy(node.host, node.ports["broker"], listen=server.proxy_port) as proxy:
        place = Place(server, proxy, settings)
        try:
            await place.bus().topics.ensure(specs_of(SPEC, topics=[LINKS_DISCOVERED]))
            yield place
        finally:
            if not node.alive:
                await place.restart()
            node.thaw()
            await place.close()

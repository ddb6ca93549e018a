"""The Kafka adapter on three brokers, of which one dies, then two: replicas in sync are what a confirmation means."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from contract.bus_rigs import kafka_settings
from contract.serving import serving
from contract.test_kafka_faults import Writer, until, whole_log
from limpet.bus import BusUnavailableError
from limpet.bus.kafka import KafkaBus, TopicSpec, specs_of
from limpet.clock import SystemClock
from limpet.model.errors import Indefinite, LimpetError
from limpet.model.events import LINKS_DISCOVERED
from servers import Folder
from servers.kafka import Kafka

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Three brokers, started for this file."""
    folder: Path = tmp_path_factory.mktemp("kafka-three")
    found = Kafka(Folder.at(folder), "three")
    with serving(found):
        yield found


def test_a_confirmation_means_two_replicas(servers: Kafka) -> None:
    """One broker dead: it goes on, nothing confirmed is lost. Two dead: nothing is confirmed, and `healthy` says so.

    All back: everything that was ever confirmed is there.
    """
    settings = structs.replace(
        kafka_settings(servers.endpoints()["bootstrap"]), delivery_seconds_max=8.0, request_seconds_max=6.0
    )

    async def main() -> None:
        async with KafkaBus(settings, SystemClock(), topics=[LINKS_DISCOVERED], min_insync=2) as bus:
            spec = TopicSpec(name="", partitions=2, replication=3, min_insync=2)
            await bus.topics.ensure(specs_of(spec, topics=[LINKS_DISCOVERED]))
            await bus.producer.healthy()
            writer, stop = Writer(bus), asyncio.Event()
            writing = [asyncio.create_task(writer.write(stop, name)) for name in range(2)]
            await until(lambda: len(writer.confirmed) > 500)
            await asyncio.to_thread(servers.nodes[0].kill)
            before = len(writer.confirmed)
            await until(lambda: len(writer.confirmed) > before + 2000)
            stop.set()
            await asyncio.gather(*writing)
            await asyncio.to_thread(servers.nodes[1].kill)
            with pytest.raises(Indefinite):
                await bus.producer.publish(LINKS_DISCOVERED, [(0, b"never confirmed"), (1, b"never confirmed")])
            with pytest.raises((Indefinite, BusUnavailableError)):
                await bus.producer.healthy()
            for node in servers.nodes[:2]:
                servers.start(node)
            await asyncio.to_thread(servers.wait)
            await published_at_last(bus)
            log = {one.position: one.payload for number in (0, 1) for one in await whole_log(bus, number)}
            assert {position: log.get(position) for position in writer.confirmed} == writer.confirmed
            await bus.producer.healthy()

    asyncio.run(main())


async def published_at_last(bus: KafkaBus) -> None:
    """Once the cluster has found itself again."""
    for _ in range(10):
        try:
            await bus.producer.publish(LINKS_DISCOVERED, [(0, b"back"), (1, b"back")])
        except LimpetError:
            continue
        return
    raise AssertionError("nothing was confirmed")

"""A gap on a real broker: the admission's partition brings back what was dropped unread, and goes on behind it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from contract.kafka_faults import Place, ProxiedKafka, faulty_place
from contract.serving import serving
from contract.stores import SqliteRig, candidate, claim_one, fetched, fp, output
from limpet.bus import Consumer
from limpet.bus.kafka import KafkaGapError
from limpet.bus.kafka.cluster import answered
from limpet.clock import SystemClock
from limpet.cluster.held import Held
from limpet.cluster.partitions import Partitions
from limpet.cluster.waiting import Patience, Waits
from limpet.model.events import LINKS_DISCOVERED
from limpet.reconciler.gaps import LINKS_GAP, Gap, GapMender
from limpet.runtime import Immortal
from limpet.testing.chance import SeededRandom
from limpet.urlstore import UrlStore
from servers import Folder
from unit.cluster.doubles import Aside

pytestmark = pytest.mark.servers
CLOCK = SystemClock()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedKafka]:
    """The broker, started for this file."""
    found = ProxiedKafka(Folder.at(tmp_path_factory.mktemp("kafka-gap")))
    with serving(found):
        yield found


class OnlyPartition:
    """A group that gave us partition 0."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def share(self) -> frozenset[int]:
        """See `Member.share`."""
        return frozenset({0})

    def consumer(self, partition: int) -> Consumer:
        """See `Member.consumer`."""
        assert partition == 0
        return self._consumer

    async def changed(self, seconds: float) -> bool:
        """See `Member.changed`."""
        await CLOCK.sleep(seconds)
        return False


async def two_pages(store: UrlStore, place: Place) -> None:
    """Two fetched pages whose links lie on the bus: those of the first are dropped unread, as by retention."""
    bus = place.bus()
    await store.admit([candidate(1), candidate(2)], now_us=1)
    for number in (1, 2):
        claim = await claim_one(store, 10 * number)
        assert await store.complete(fetched(claim, 10 * number + 1))
        (position,) = await bus.producer.publish(LINKS_DISCOVERED, [(0, b"links of %d" % number)])
        places = ((position.partition, position.source, position.offset),)
        document = next(n for n in (1, 2) if fp(n) == claim.fp)
        assert await store.accept_outputs([output(document, 10 * number + 1, positions=places)]) == [True]
    dropped = TopicPartition(place.settings.topic(LINKS_DISCOVERED), 0, 1)
    await answered(next(iter(bus.cluster.admin.delete_records([dropped]).values())))


def test_what_published_dropped_links_is_parsed_again(server: ProxiedKafka, tmp_path: Path) -> None:
    """A job for the page whose links were dropped and for no other, a notice, no open repair; the rest is delivered."""

    async def scenario(place: Place, store: UrlStore) -> None:
        await two_pages(store, place)
        got: list[bytes] = []
        stop = asyncio.Event()
        mender = GapMender(holders=[store], store_of=lambda _url: store, crawl="c", clock=CLOCK, mortality=Immortal())

        async def mend(error: KafkaGapError, step_over: Callable[[], Awaitable[None]]) -> None:
            gap = Gap(partition=0, source=error.source, begin=error.offset, end=error.start)
            assert await mender.mend(gap, store, step_over) == 1

        async def serve(_partition: int, held: Held, leave: asyncio.Event) -> None:
            while not leave.is_set():
                messages = await held.receive(9)
                got.extend(message.payload for message in messages)
                await held.commit([message.position for message in messages])
                if got:
                    stop.set()
                await held.wait(0.2)

        partitions = Partitions(
            LINKS_DISCOVERED,
            OnlyPartition(await place.bus().consumer(LINKS_DISCOVERED, 0)),
            serve,
            clock=CLOCK,
            patience=Patience(CLOCK, SeededRandom(1), Waits(CLOCK)),
            redelivery=Aside(),
            mend=mend,
        )
        await asyncio.wait_for(partitions.run(stop), 60)
        assert got == [b"links of 2"]
        assert [(job.fp, job.fetched_us, job.reason) for job in await store.jobs()] == [(fp(1), 11, LINKS_GAP)]
        assert await store.repairs() == []
        assert [notice.kind for notice in await store.notices()] == [LINKS_GAP]

    async def main() -> None:
        rig = SqliteRig(tmp_path, threaded=False)
        store = await rig.open()
        async with faulty_place(server) as place:
            await scenario(place, store)
        await rig.close()

    asyncio.run(main())

"""The Kafka adapter on a real broker that dies, freezes, forgets, denies, and whose replies get lost."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Literal

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType
from msgspec import structs

from contract.kafka_faults import SPEC, Place, ProxiedKafka, faulty_place
from contract.serving import serving
from contract.test_bus import drained, payloads
from limpet.bus import (
    BusUnavailableError,
    DeniedError,
    GapError,
    LostPartitionError,
    Message,
    OversizedError,
    Position,
    UnknownTopicError,
)
from limpet.bus.kafka import KafkaBus, KafkaConsumer, KafkaMember, TopicSettingsError
from limpet.bus.kafka.cluster import answered
from limpet.clock import SystemClock
from limpet.model.errors import Indefinite, LimpetError
from limpet.model.events import LINKS_DISCOVERED
from servers import Folder, drop, forward

pytestmark = pytest.mark.servers
PARTITIONS = SPEC.partitions
CLOCK = SystemClock()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedKafka]:
    """The broker, started for this file."""
    found = ProxiedKafka(Folder.at(tmp_path_factory.mktemp("kafka-faults")))
    with serving(found):
        yield found


def run(server: ProxiedKafka, scenario: Callable[[Place], Coroutine[Any, Any, None]], **changes: Any) -> None:
    """`scenario` on topics of their own."""

    async def main() -> None:
        async with faulty_place(server, **changes) as place:
            await scenario(place)

    asyncio.run(main())


async def fault(place: Place, kind: str) -> None:
    """One outage of some seconds, from begin to end."""
    if kind == "kill -9":
        await place.restart()
    elif kind == "freeze":
        place.node.freeze()
        await CLOCK.sleep(4)
        place.node.thaw()
    else:
        place.proxy.replies = drop
        await CLOCK.sleep(4)
        place.proxy.replies = forward


async def whole_log(bus: KafkaBus, partition: int) -> list[Message]:
    """Everything there is in a partition, read by a group that never commits."""
    consumer = await bus.consumer(LINKS_DISCOVERED, partition)
    name = bus.cluster.settings.topic(LINKS_DISCOVERED)
    _, end = (await bus.cluster.spans([(name, partition)]))[name, partition]
    found: list[Message] = []
    while not found or found[-1].position.offset < end - 1:
        await consumer.wait(1)
        found += await consumer.receive(1000)
    return found


# -- producing through faults ------------------------------------------------------------------------------------------
class Writer:
    """Publishes batches one after the other until it is told to stop; remembers what was confirmed."""

    def __init__(self, bus: KafkaBus) -> None:
        self._bus = bus
        self.confirmed: dict[Position, bytes] = {}
        self.sent: set[bytes] = set()
        self.failures: list[LimpetError] = []

    async def write(self, stop: asyncio.Event, name: int) -> None:
        """Batches over two partitions."""
        number = 0
        while not stop.is_set():
            batch = [(n % 2, b"%d %d" % (name, number + n)) for n in range(50)]
            number += len(batch)
            self.sent |= {payload for _, payload in batch}
            try:
                positions = await self._bus.producer.publish(LINKS_DISCOVERED, batch)
            except LimpetError as error:
                self.failures.append(error)
            else:
                self.confirmed |= {place: data for place, (_, data) in zip(positions, batch, strict=True)}


@pytest.mark.parametrize("kind", ["kill -9", "freeze", "dropped replies"])
def test_no_confirmed_message_is_lost(server: ProxiedKafka, kind: str) -> None:
    """An outage in mid-produce: what was confirmed lies where it was said to lie; what failed is unknown, not absent.

    Publishing works again afterwards, by the same producer.
    """

    async def scenario(place: Place) -> None:
        bus, stop = place.bus(), asyncio.Event()
        writer = Writer(bus)
        writing = [asyncio.create_task(writer.write(stop, name)) for name in range(4)]
        await until(lambda: len(writer.confirmed) > 1000)
        before = len(writer.confirmed)
        await fault(place, kind)
        during = len(writer.confirmed)
        await until(lambda: len(writer.confirmed) > during + 1000)
        stop.set()
        await asyncio.gather(*writing)
        assert before <= during
        assert all(isinstance(error, Indefinite) for error in writer.failures)
        log = {one.position: one.payload for number in (0, 1) for one in await whole_log(bus, number)}
        assert {position: log.get(position) for position in writer.confirmed} == writer.confirmed
        assert set(log.values()) <= writer.sent

    run(server, scenario)


def test_a_publish_whose_replies_are_lost_is_unknown_and_retried_inside_is_not_doubled(server: ProxiedKafka) -> None:
    """A short loss: the driver repeats, and each message lies once. A long one: `Indefinite`."""

    async def scenario(place: Place) -> None:
        bus = place.bus()
        await bus.producer.publish(LINKS_DISCOVERED, [(0, b"first")])
        place.proxy.replies = drop
        publishing = asyncio.create_task(bus.producer.publish(LINKS_DISCOVERED, [(0, b"%d" % n) for n in range(20)]))
        await CLOCK.sleep(1)
        place.proxy.replies = forward
        await publishing
        assert payloads(await whole_log(bus, 0)) == [b"first", *(b"%d" % n for n in range(20))]
        place.proxy.replies = drop
        begin = CLOCK.monotonic()
        with pytest.raises(Indefinite):
            await bus.producer.publish(LINKS_DISCOVERED, [(0, b"unknown")])
        assert CLOCK.monotonic() - begin < 15
        with pytest.raises(LimpetError):
            await bus.producer.healthy()
        place.proxy.replies = forward
        (position,) = await bus.producer.publish(LINKS_DISCOVERED, [(0, b"last")])
        found = payloads(await whole_log(place.bus(), 0))
        assert found[position.offset] == b"last"
        assert set(found[21:]) <= {b"unknown", b"last"}

    run(server, scenario)


# -- consuming through faults ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["kill -9", "freeze", "dropped replies"])
def test_a_reader_goes_on_after_an_outage(server: ProxiedKafka, kind: str) -> None:
    """An outage in mid-consume: nothing is skipped or doubled in one process, commits are repeated, and another
    process resumes at what was committed.
    """

    async def scenario(place: Place) -> None:
        bus = place.bus()
        total = 6_000
        await bus.producer.publish(LINKS_DISCOVERED, [(0, b"%d" % n) for n in range(total)])
        consumer = await place.bus(buffer_messages_max=200).consumer(LINKS_DISCOVERED, 0)
        received: list[Message] = []
        outage: asyncio.Task[None] | None = None
        while len(received) < total - 500:
            await consumer.wait(1)
            batch = await consumer.receive(100)
            received += batch
            await committed_at_last(consumer, [message.position for message in batch])
            if len(received) >= total // 3 and outage is None:
                outage = asyncio.create_task(fault(place, kind))
                await CLOCK.sleep(0)
        assert outage is not None
        await outage
        assert payloads(received) == [b"%d" % n for n in range(len(received))]
        assert consumer.uncommitted() == {0: len(received)}
        rest = await place.bus().consumer(LINKS_DISCOVERED, 0)
        assert rest.uncommitted() == {0: len(received)}
        assert (await drained(rest, total - len(received), limit=1000))[0].payload == b"%d" % len(received)

    run(server, scenario)


async def committed_at_last(consumer: KafkaConsumer, positions: list[Position]) -> None:
    """A commit without an answer is unknown: it is made again."""
    for _ in range(20):
        try:
            await consumer.commit(positions)
        except (Indefinite, BusUnavailableError):
            continue
        return
    raise AssertionError("no commit went through")


# -- gaps --------------------------------------------------------------------------------------------------------------
def test_retention_that_overtakes_a_reader_is_a_gap(server: ProxiedKafka) -> None:
    """What is in hand is delivered, then the gap is raised with its bounds: nothing is skipped in silence."""

    async def scenario(place: Place) -> None:
        bus = place.bus()
        name = place.settings.topic(LINKS_DISCOVERED)
        for _ in range(10):
            await bus.producer.publish(LINKS_DISCOVERED, [(0, bytes(1000)) for _ in range(500)])
        consumer = await place.bus(buffer_messages_max=100).consumer(LINKS_DISCOVERED, 0)
        (first,) = await drained(consumer, 1, limit=1)
        await consumer.commit([first.position])
        futures = bus.cluster.admin.delete_records([TopicPartition(name, 0, 4900)])
        await answered(next(iter(futures.values())))
        offsets = [first.position.offset]
        with pytest.raises(GapError) as raised:
            await read_on(consumer, offsets)
        assert offsets == list(range(len(offsets)))
        gap: Any = raised.value
        assert (gap.offset, gap.start, gap.end) == (len(offsets), 4900, 5000)
        with pytest.raises(GapError):
            await consumer.receive(1)
        await consumer.commit([Position(0, 0, offset) for offset in [*offsets, 4899]])
        assert [message.position.offset for message in await drained(consumer, 100)] == list(range(4900, 5000))

    run(server, scenario)


async def read_on(consumer: KafkaConsumer, offsets: list[int]) -> None:
    """Until something is raised."""
    while True:
        await consumer.wait(5)
        offsets += [message.position.offset for message in await consumer.receive(50)]


def test_retention_by_time_drops_what_nobody_read_and_a_new_reader_sees_the_gap(server: ProxiedKafka) -> None:
    """A group that never committed begins at offset 0, not where the log happens to begin."""

    async def scenario(place: Place) -> None:
        bus = place.bus()
        spec = structs.replace(SPEC, name="short", retention_seconds=1, partitions=1)
        await bus.topics.ensure([spec])
        await bus.producer.publish("short", [(0, b"a"), (0, b"b")])
        name = place.settings.topic("short")
        for _ in range(600):  # a broker looks for the first time half a minute after its start
            start, _ = (await bus.cluster.spans([(name, 0)]))[name, 0]
            if start == 2:
                break
            await CLOCK.sleep(0.1)
        assert start == 2
        consumer = await bus.consumer("short", 0)
        await consumer.wait(10)
        with pytest.raises(GapError, match="0 to 1 were dropped unread"):
            await consumer.receive(1)

    run(server, scenario)


def test_a_topic_that_was_made_anew_is_a_gap(server: ProxiedKafka) -> None:
    """The committed offset lies beyond the log's end: raised, and no commit goes backwards to make it fit."""

    async def scenario(place: Place) -> None:
        bus = place.bus()
        positions = await bus.producer.publish(LINKS_DISCOVERED, [(0, b"%d" % n) for n in range(10)])
        await (await bus.consumer(LINKS_DISCOVERED, 0)).commit(positions)
        futures = bus.cluster.admin.delete_topics([place.settings.topic(LINKS_DISCOVERED)])
        await answered(next(iter(futures.values())))
        other = place.bus()
        for _ in range(50):
            try:
                if await other.topics.ensure([structs.replace(SPEC, name=LINKS_DISCOVERED)]):
                    break
            except LimpetError:
                pass
            await CLOCK.sleep(0.1)
        # Kafka deletes a group's offsets with the topic; a restored or mirrored cluster keeps them.
        fresh = await other.producer.publish(LINKS_DISCOVERED, [(0, b"new")])
        reader = await other.consumer(LINKS_DISCOVERED, 0)
        if reader.uncommitted() == {0: 0}:
            await reader.commit([Position(0, 0, 9)])
            reader = await place.bus().consumer(LINKS_DISCOVERED, 0)
        assert fresh[0].offset < reader.uncommitted()[0] == 10
        await reader.wait(10)
        with pytest.raises(GapError, match="made anew"):
            await reader.receive(1)
        await reader.commit(fresh)
        assert reader.uncommitted() == {0: 10}

    run(server, scenario)


# -- refusals ----------------------------------------------------------------------------------------------------------
def test_an_unknown_topic_is_refused_and_not_created(server: ProxiedKafka) -> None:
    """For writers, readers and members of groups."""

    async def scenario(place: Place) -> None:
        bus = place.bus()
        with pytest.raises(UnknownTopicError):
            await bus.producer.publish("links.discoverd", [(0, b"a")])
        with pytest.raises(UnknownTopicError):
            await bus.consumer("links.discoverd", 0)
        with pytest.raises(UnknownTopicError):
            await bus.member("links.discoverd")
        known = await asyncio.to_thread(bus.cluster.admin.list_topics, timeout=5)  # the proxy is on this loop
        assert place.settings.topic(LINKS_DISCOVERED) in known.topics
        assert place.settings.topic("links.discoverd") not in known.topics

    run(server, scenario)


def test_a_message_that_only_the_broker_finds_too_large_is_refused(server: ProxiedKafka) -> None:
    """A topic that takes less than the process was told: definite, and the producer goes on."""

    async def scenario(place: Place) -> None:
        bus = place.bus()
        await bus.topics.ensure([structs.replace(SPEC, name="small", message_bytes_max=10_000)])
        with pytest.raises(OversizedError, match="small"):
            await bus.producer.publish("small", [(0, bytes(20_000))])
        assert len(await bus.producer.publish("small", [(0, bytes(2_000))])) == 1

    run(server, scenario)


def deny(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    """A rule that keeps everybody out."""
    return AclBinding(
        kind,
        name,
        ResourcePatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        operation,
        AclPermissionType.DENY,
    )


def test_a_missing_right_is_refused_by_name(server: ProxiedKafka) -> None:
    """To write the topic, and to read for the group: definite errors that say what is denied."""

    async def scenario(place: Place) -> None:
        bus, topic = place.bus(), place.settings.topic(LINKS_DISCOVERED)
        group = place.settings.group(LINKS_DISCOVERED)
        await bus.producer.publish(LINKS_DISCOVERED, [(0, b"a")])
        rules = [
            deny(ResourceType.TOPIC, topic, AclOperation.WRITE),
            deny(ResourceType.GROUP, group, AclOperation.READ),
        ]
        for future in bus.cluster.admin.create_acls(rules).values():
            await answered(future)
        await CLOCK.sleep(0.5)
        with pytest.raises(DeniedError, match=LINKS_DISCOVERED):
            await bus.producer.publish(LINKS_DISCOVERED, [(0, b"b")])
        with pytest.raises(DeniedError, match=LINKS_DISCOVERED):
            await read_and_commit(place.bus())

    run(server, scenario)


async def read_and_commit(bus: KafkaBus) -> None:
    """One message."""
    consumer = await bus.consumer(LINKS_DISCOVERED, 0)
    (message,) = await drained(consumer, 1)
    await consumer.commit([message.position])


# -- topics ------------------------------------------------------------------------------------------------------------
def test_topics_are_made_once_and_never_bent(server: ProxiedKafka) -> None:
    """Again is fine; other settings are refused with both values, and nothing else is created then."""

    async def scenario(place: Place) -> None:
        topics = place.bus().topics
        spec = structs.replace(SPEC, name="made")
        both = await asyncio.gather(topics.ensure([spec]), place.bus().topics.ensure([spec]))
        assert sorted(both) == [[], ["made"]]
        assert await topics.ensure([spec]) == []
        other = structs.replace(spec, retention_seconds=60)
        with pytest.raises(TopicSettingsError, match=r"retention.ms is 604800000, wanted 60000"):
            await topics.ensure([structs.replace(SPEC, name="second"), other])
        with pytest.raises(TopicSettingsError, match="partitions is 6, wanted 7"):
            await topics.check(structs.replace(spec, partitions=7))
        assert not await topics.check(structs.replace(SPEC, name="second"))

    run(server, scenario)


# -- groups ------------------------------------------------------------------------------------------------------------
class Worker:
    """Serves whatever the group hands out; remembers what it finished."""

    def __init__(self, member: KafkaMember) -> None:
        self.member = member
        self.finished: list[Position] = []
        self.lost = 0

    async def work(self, stop: asyncio.Event) -> None:
        """Take small batches of every partition of the share."""
        while not stop.is_set():
            taken = 0
            for partition in self.member.share():
                try:
                    taken += await self._serve(self.member.consumer(partition))
                except LostPartitionError:
                    self.lost += 1
            if not taken:
                await self.member.changed(0.05)

    async def _serve(self, consumer: KafkaConsumer) -> int:
        batch = await consumer.receive(20)
        await CLOCK.sleep(0.02)  # long enough that there is work left for who comes later
        self.finished += [message.position for message in batch]
        await consumer.commit([message.position for message in batch])
        return len(batch)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_rebalance_loses_nothing(server: ProxiedKafka, protocol: Literal["classic", "consumer"]) -> None:
    """Members come and go in mid-work: every message is finished, duplicates are few, offsets end at the end."""

    async def scenario(place: Place) -> None:
        bus = place.bus()
        total = 7_200
        await bus.producer.publish(LINKS_DISCOVERED, [(n % PARTITIONS, b"%d" % n) for n in range(total)])
        stop, leave = asyncio.Event(), asyncio.Event()
        first = Worker(await place.bus(group_protocol=protocol).member(LINKS_DISCOVERED))
        tasks = [asyncio.create_task(first.work(stop))]
        await until(lambda: len(first.finished) > 500)
        assert first.member.share() == frozenset(range(PARTITIONS))
        second_bus = place.bus(group_protocol=protocol)
        second = Worker(await second_bus.member(LINKS_DISCOVERED))
        leaving = asyncio.create_task(second.work(leave))
        await until(lambda: len(second.finished) > 200)
        assert 0 < len(second.member.share()) < PARTITIONS
        leave.set()
        await leaving
        await second_bus.close()
        await until(lambda: len({*first.finished, *second.finished}) == total)
        stop.set()
        await asyncio.gather(*tasks)
        duplicates = len(first.finished) + len(second.finished) - total
        assert duplicates <= 20 * PARTITIONS * 2
        await second_bus_committed(place, total)

    run(server, scenario, group_protocol=protocol, session_seconds=3.0)


async def second_bus_committed(place: Place, total: int) -> None:
    """The group's offsets are at the ends of the logs."""
    cluster = place.bus().cluster
    places = [(place.settings.topic(LINKS_DISCOVERED), partition) for partition in range(PARTITIONS)]
    assert await cluster.committed(LINKS_DISCOVERED, places) == dict.fromkeys(places, total // PARTITIONS)


async def until(true: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for it."""
    end = CLOCK.monotonic() + seconds
    while not true():
        assert CLOCK.monotonic() < end, "waited too long"
        await CLOCK.sleep(0.02)

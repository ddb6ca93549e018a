"""The contract of the bus port, held against every adapter."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.bus_rigs import ALL, DROPPING, KEEPING, RETENTION_US, SOURCES, BusRig, rig_of
from limpet.bus import Consumer, GapError, Message, Position, UnknownTopicError
from limpet.clock import SystemClock
from limpet.model.events import DOCUMENT_FETCHED, LINKS_DISCOVERED

FAR_US = 10**17


@pytest.fixture(params=ALL)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BusRig]:
    """One adapter."""
    yield from rig_of(request, tmp_path)


@pytest.fixture(params=DROPPING)
def dropping(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BusRig]:
    """One adapter whose messages can be dropped at will."""
    yield from rig_of(request, tmp_path)


@pytest.fixture(params=KEEPING)
def keeping(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BusRig]:
    """One adapter whose retention waits for the reader (`Capabilities.keeps_unread`)."""
    yield from rig_of(request, tmp_path)


def run(rig: BusRig, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """`scenario` on a bus that is open; it dies afterwards."""

    async def main() -> None:
        await rig.open()
        try:
            await scenario()
        finally:
            await rig.kill()

    asyncio.run(main())


async def drained(consumer: Consumer, expected: int, limit: int = 100) -> list[Message]:
    """Everything there is: `expected` messages, within a moment."""
    found: list[Message] = []
    for _ in range(200):
        found += await consumer.receive(limit)
        if len(found) >= expected:
            break
        await consumer.wait(0.02)
    assert len(found) == expected
    return found


def payloads(messages: list[Message]) -> list[bytes]:
    """What the messages say."""
    return [message.payload for message in messages]


# -- publish -----------------------------------------------------------------------------------------------------------
def test_published_messages_are_received_once_by_their_partition(rig: BusRig) -> None:
    """Positions come back in the order of the messages and are those the consumer sees; others see nothing."""

    async def scenario() -> None:
        positions = await rig.producer(1).publish(LINKS_DISCOVERED, [(0, b"a"), (2, b"b"), (0, b"c")])
        assert [position.partition for position in positions] == [0, 2, 0]
        zero, one, two = [await rig.consumer(LINKS_DISCOVERED, partition) for partition in range(3)]
        received = await drained(zero, 2)
        assert received == [Message(positions[0], b"a"), Message(positions[2], b"c")]
        assert await drained(two, 1) == [Message(positions[1], b"b")]
        assert await one.receive(10) == []
        assert await zero.receive(10) == []

    run(rig, scenario)


def test_topics_are_apart(rig: BusRig) -> None:
    """A partition number means nothing without its topic."""

    async def scenario() -> None:
        await rig.producer(0).publish(LINKS_DISCOVERED, [(0, b"link")])
        await rig.producer(0).publish(DOCUMENT_FETCHED, [(0, b"document")])
        assert payloads(await drained(await rig.consumer(DOCUMENT_FETCHED, 0), 1)) == [b"document"]
        assert payloads(await drained(await rig.consumer(LINKS_DISCOVERED, 0), 1)) == [b"link"]

    run(rig, scenario)


def test_an_unknown_topic_is_an_error(rig: BusRig) -> None:
    """A message to it would vanish."""

    async def scenario() -> None:
        with pytest.raises(UnknownTopicError):
            await rig.producer(0).publish("links.discoverd", [(0, b"a")])
        assert await rig.producer(0).publish(LINKS_DISCOVERED, []) == []

    run(rig, scenario)


def test_order_holds_per_partition_and_source(rig: BusRig) -> None:
    """Whatever the batches and whoever else publishes, one writer's messages arrive in the order it wrote them."""

    async def scenario() -> None:
        consumer = await rig.consumer(LINKS_DISCOVERED, 1)

        async def write(source: int) -> list[Position]:
            found = []
            for number in range(10):
                batch = [(1, b"%d %d %d" % (source, number, place)) for place in range(number % 3 + 1)]
                found += await rig.producer(source).publish(LINKS_DISCOVERED, [(0, b"other"), *batch])
            return [position for position in found if position.partition == 1]

        written = await asyncio.gather(*(write(source) for source in range(SOURCES)))
        received = await drained(consumer, sum(map(len, written)), limit=7)
        for source, positions in enumerate(written):
            mine = [message for message in received if message.payload.startswith(b"%d " % source)]
            assert [message.position for message in mine] == positions
            assert positions == sorted(positions)

    run(rig, scenario)


def test_receive_is_bounded(rig: BusRig) -> None:
    """Never more than was asked for, and nothing is lost by asking for little."""

    async def scenario() -> None:
        for source in range(SOURCES):
            await rig.producer(source).publish(LINKS_DISCOVERED, [(0, b"%d" % n) for n in range(5)])
        consumer = await rig.consumer(LINKS_DISCOVERED, 0)
        sizes: list[int] = []
        while sum(sizes) < 5 * SOURCES:
            await consumer.wait(5)
            sizes.append(len(await consumer.receive(4)))
        assert max(sizes) == 4
        assert sum(sizes) == 5 * SOURCES

    run(rig, scenario)


def test_no_source_starves_another(rig: BusRig) -> None:
    """With small batches every writer's first message comes before any writer's last; a shared log is a queue."""

    async def scenario() -> None:
        for source in range(SOURCES):
            await rig.producer(source).publish(LINKS_DISCOVERED, [(0, b"%d" % source)] * 8)
        consumer = await rig.consumer(LINKS_DISCOVERED, 0)
        received: list[bytes] = []
        while len(received) < 8 * SOURCES:
            await consumer.wait(5)
            received += payloads(await consumer.receive(2))
        if rig.capabilities.sources:
            assert set(received[: 2 * SOURCES]) == {b"%d" % source for source in range(SOURCES)}
        else:
            assert received == sorted(received)

    run(rig, scenario)


# -- offsets -----------------------------------------------------------------------------------------------------------
def test_what_was_received_and_not_committed_comes_again(rig: BusRig) -> None:
    """A restart begins at the committed offset of each source: at least once, in the same order."""

    async def scenario() -> None:
        for source in range(SOURCES):
            await rig.producer(source).publish(LINKS_DISCOVERED, [(0, b"%d%d" % (source, n)) for n in range(4)])
        consumer = await rig.consumer(LINKS_DISCOVERED, 0)
        received = await drained(consumer, 4 * SOURCES)
        done = [message for message in received if message.payload[1:] in {b"0", b"1"}]
        await consumer.commit([message.position for message in done])
        await rig.kill()
        await rig.open()
        consumer = await rig.consumer(LINKS_DISCOVERED, 0)
        rest = [message for message in received if _comes_again(message, received, done)]
        again = await drained(consumer, len(rest))
        assert sorted(again, key=_place) == sorted(rest, key=_place)
        await consumer.commit([message.position for message in again])
        await rig.kill()
        await rig.open()
        await rig.producer(0).publish(LINKS_DISCOVERED, [(0, b"later")])
        assert payloads(await drained(await rig.consumer(LINKS_DISCOVERED, 0), 1)) == [b"later"]

    run(rig, scenario)


def test_published_messages_survive_the_death_of_their_writer(rig: BusRig) -> None:
    """`publish` returned: the message is durable."""

    async def scenario() -> None:
        await rig.producer(2).publish(DOCUMENT_FETCHED, [(2, b"fact")])
        await rig.kill()
        await rig.open()
        assert payloads(await drained(await rig.consumer(DOCUMENT_FETCHED, 2), 1)) == [b"fact"]

    run(rig, scenario)


def test_a_committed_offset_never_moves_backwards(rig: BusRig) -> None:
    """Committing less than before changes nothing, now or after a restart; nor does committing nothing."""

    async def scenario() -> None:
        positions = await rig.producer(0).publish(LINKS_DISCOVERED, [(0, b"%d" % n) for n in range(5)])
        consumer = await rig.consumer(LINKS_DISCOVERED, 0)
        await drained(consumer, 5)
        await consumer.commit(positions[:4])
        upto = consumer.uncommitted()
        await consumer.commit(positions[:2])
        await consumer.commit([])
        assert consumer.uncommitted() == upto
        await rig.kill()
        await rig.open()
        consumer = await rig.consumer(LINKS_DISCOVERED, 0)
        assert consumer.uncommitted() == upto
        assert payloads(await drained(consumer, 1)) == [b"4"]

    run(rig, scenario)


def test_a_reader_that_was_replaced_cannot_set_the_group_back(rig: BusRig) -> None:
    """Two readers of one partition, the older one late with its commit: the committed offset stays where it is."""

    async def scenario() -> None:
        positions = await rig.producer(0).publish(LINKS_DISCOVERED, [(0, b"%d" % n) for n in range(5)])
        older, newer = await rig.consumer(LINKS_DISCOVERED, 0), await rig.consumer(LINKS_DISCOVERED, 0)
        await newer.commit(positions[:4])
        await older.commit(positions[:2])
        await rig.kill()
        await rig.open()
        assert payloads(await drained(await rig.consumer(LINKS_DISCOVERED, 0), 1)) == [b"4"]

    run(rig, scenario)


def test_every_partition_resumes_at_its_own_offset(rig: BusRig) -> None:
    """Readers that share a log have nothing else in common: one that is far ahead gets nothing a second time."""

    async def scenario() -> None:
        sent = [(n % 2, b"%d" % n) for n in range(10)]
        await rig.producer(2).publish(LINKS_DISCOVERED, sent)
        ahead = await rig.consumer(LINKS_DISCOVERED, 0)
        await ahead.commit([message.position for message in (await drained(ahead, 5))[:4]])
        await rig.kill()
        await rig.open()
        ahead, behind = await rig.consumer(LINKS_DISCOVERED, 0), await rig.consumer(LINKS_DISCOVERED, 1)
        await rig.producer(2).publish(LINKS_DISCOVERED, [(0, b"later"), (1, b"later")])
        assert payloads(await drained(ahead, 2)) == [b"8", b"later"]
        assert payloads(await drained(behind, 6)) == [b"1", b"3", b"5", b"7", b"9", b"later"]

    run(rig, scenario)


def test_a_commit_moves_past_the_highest_of_its_positions(rig: BusRig) -> None:
    """In whatever order they are given; `uncommitted` tells the first offset that is not committed."""

    async def scenario() -> None:
        positions = await rig.producer(0).publish(LINKS_DISCOVERED, [(0, b"%d" % n) for n in range(5)])
        consumer = await rig.consumer(LINKS_DISCOVERED, 0)
        before = consumer.uncommitted()
        await drained(consumer, 5)
        assert consumer.uncommitted() == before
        assert before[positions[0].source] <= positions[0].offset
        await consumer.commit([positions[2], positions[0], positions[1]])
        after = consumer.uncommitted()
        assert positions[2].offset < after[positions[2].source] <= positions[3].offset

    run(rig, scenario)


def test_receiving_goes_on_while_a_commit_is_under_way(rig: BusRig) -> None:
    """The working offset is the consumer's own: a commit never makes it deliver anything twice or skip anything."""

    async def scenario() -> None:
        consumer = await rig.consumer(LINKS_DISCOVERED, 0)
        seen: list[bytes] = []
        for round_ in range(6):
            await rig.producer(1).publish(LINKS_DISCOVERED, [(0, b"%d %d" % (round_, n)) for n in range(3)])
            batch = await drained(consumer, 3)
            _, more = await asyncio.gather(
                consumer.commit([message.position for message in batch]), consumer.receive(10)
            )
            assert more == []
            seen += payloads(batch)
        assert seen == [b"%d %d" % (round_, n) for round_ in range(6) for n in range(3)]

    run(rig, scenario)


def test_the_committed_offset_waits_for_what_is_not_finished(rig: BusRig) -> None:
    """Work that ends out of order is committed once everything before it is finished, and never before."""

    async def scenario() -> None:
        positions = await rig.producer(0).publish(LINKS_DISCOVERED, [(0, b"%d" % n) for n in range(5)])
        consumer = await rig.consumer(LINKS_DISCOVERED, 0)
        await drained(consumer, 5)
        source = positions[0].source
        await consumer.commit([positions[2], positions[4]])
        assert consumer.uncommitted()[source] <= positions[0].offset
        await consumer.commit([positions[0]])
        assert positions[0].offset < consumer.uncommitted()[source] <= positions[1].offset
        await consumer.commit([positions[1]])
        assert positions[2].offset < consumer.uncommitted()[source] <= positions[3].offset
        await rig.kill()
        await rig.open()
        assert payloads(await drained(await rig.consumer(LINKS_DISCOVERED, 0), 2)) == [b"3", b"4"]

    run(rig, scenario)


def test_adapters_declare_what_they_differ_in(rig: BusRig) -> None:
    """`Capabilities.sources` tells whether writers have logs of their own."""

    async def scenario() -> None:
        places = [(await rig.producer(source).publish(LINKS_DISCOVERED, [(0, b"a")]))[0] for source in range(SOURCES)]
        assert len({place.source for place in places}) == (SOURCES if rig.capabilities.sources else 1)
        assert (len({place.offset for place in places}) == SOURCES) or rig.capabilities.sources
        assert rig.capabilities.positions

    run(rig, scenario)


# -- waiting -----------------------------------------------------------------------------------------------------------
def test_wait_returns_when_something_was_published(rig: BusRig) -> None:
    """Long before its time is over."""

    async def scenario() -> None:
        consumer = await rig.consumer(LINKS_DISCOVERED, 0)
        assert await consumer.receive(1) == []
        waiting = asyncio.create_task(consumer.wait(30))
        await rig.producer(1).publish(LINKS_DISCOVERED, [(0, b"a")])
        begin = time.perf_counter()
        await waiting
        assert time.perf_counter() - begin < 5
        assert payloads(await drained(consumer, 1)) == [b"a"]

    run(rig, scenario)


def test_wait_returns_at_once_while_there_is_something(rig: BusRig) -> None:
    """What was left by a bounded receive, and what was there before the consumer, need no waiting."""

    async def scenario() -> None:
        await rig.producer(1).publish(LINKS_DISCOVERED, [(0, b"a"), (0, b"b"), (0, b"c"), (0, b"d")])
        consumer = await rig.consumer(LINKS_DISCOVERED, 0)
        begin = time.perf_counter()
        for _ in range(4):
            await consumer.wait(30)
            assert len(await consumer.receive(1)) == 1
        assert time.perf_counter() - begin < 5

    run(rig, scenario)


def test_wait_gives_up_after_its_time(rig: BusRig) -> None:
    """With nothing to receive it returns all the same."""

    async def scenario() -> None:
        consumer = await rig.consumer(LINKS_DISCOVERED, 0)
        begin = time.perf_counter()
        await consumer.wait(0.03)
        assert 0.02 < time.perf_counter() - begin < 5
        assert await consumer.receive(1) == []

    run(rig, scenario)


def test_a_cancelled_wait_leaves_nothing_behind(rig: BusRig) -> None:
    """No task goes on after it, and the consumer works."""

    async def scenario() -> None:
        consumer = await rig.consumer(LINKS_DISCOVERED, 0)
        before = asyncio.all_tasks()
        waiting = asyncio.create_task(consumer.wait(30))
        await SystemClock().sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert asyncio.all_tasks() == before
        await rig.producer(0).publish(LINKS_DISCOVERED, [(0, b"a")])
        await drained(consumer, 1)

    run(rig, scenario)


# -- retention and gaps ------------------------------------------------------------------------------------------------
def test_retention_never_drops_what_was_not_read(keeping: BusRig) -> None:
    """Age alone is no reason; a partition whose reader is unknown keeps everything."""

    async def scenario() -> None:
        await keeping.producer(0).publish(LINKS_DISCOVERED, [(n % SOURCES, b"%d" % n) for n in range(9)])
        consumer = await keeping.consumer(LINKS_DISCOVERED, 0)
        received = await drained(consumer, 3)
        await consumer.commit([message.position for message in received[:2]])
        assert await keeping.trim(FAR_US, LINKS_DISCOVERED, {}) == 0
        assert await keeping.trim(FAR_US, LINKS_DISCOVERED, {0: consumer.uncommitted()}) == 2
        await keeping.kill()
        await keeping.open()
        assert payloads(await drained(await keeping.consumer(LINKS_DISCOVERED, 0), 1)) == [b"6"]
        assert len(await drained(await keeping.consumer(LINKS_DISCOVERED, 1), 3)) == 3

    run(keeping, scenario)


def test_retention_keeps_what_is_young(keeping: BusRig) -> None:
    """Committed messages stay for the retention time, so that a reader may be set back."""

    async def scenario() -> None:
        await keeping.producer(0).publish(LINKS_DISCOVERED, [(0, b"a")])
        consumer = await keeping.consumer(LINKS_DISCOVERED, 0)
        received = await drained(consumer, 1)
        await consumer.commit([message.position for message in received])
        unread = {0: consumer.uncommitted()}
        assert await keeping.trim(RETENTION_US, LINKS_DISCOVERED, unread) == 0
        assert await keeping.trim(FAR_US, LINKS_DISCOVERED, unread) == 1

    run(keeping, scenario)


def test_an_offset_is_never_given_twice(dropping: BusRig) -> None:
    """Not even after everything was trimmed and the writer began anew: positions are kept with parse outputs."""

    async def scenario() -> None:
        used: set[Position] = set()
        for _ in range(4):
            positions = await dropping.producer(0).publish(LINKS_DISCOVERED, [(0, b"a"), (0, b"b")])
            assert not used & set(positions)
            used |= set(positions)
            consumer = await dropping.consumer(LINKS_DISCOVERED, 0)
            received = await drained(consumer, 2)
            await consumer.commit([message.position for message in received])
            assert await dropping.trim(FAR_US, LINKS_DISCOVERED, {0: consumer.uncommitted()}) == 2
            await dropping.kill()
            await dropping.open()

    run(dropping, scenario)


def test_a_committed_offset_below_the_start_of_the_log_is_a_gap(dropping: BusRig) -> None:
    """It is raised at every receive and never skipped, until the loss is accepted by a commit."""

    async def scenario() -> None:
        positions = await dropping.producer(1).publish(LINKS_DISCOVERED, [(0, b"a"), (0, b"b"), (0, b"c")])
        unread = {0: dict.fromkeys(range(SOURCES), 0) | {positions[1].source: positions[1].offset + 1}}
        assert await dropping.trim(FAR_US, LINKS_DISCOVERED, unread) == 2
        await dropping.kill()
        await dropping.open()
        consumer = await dropping.consumer(LINKS_DISCOVERED, 0)
        for _ in range(2):
            await asyncio.wait_for(consumer.wait(30), 5)
            with pytest.raises(GapError):
                await consumer.receive(9)
        await consumer.commit([positions[1]])
        assert payloads(await drained(consumer, 1)) == [b"c"]

    run(dropping, scenario)


def test_a_message_that_goes_missing_under_a_reader_is_a_gap(dropping: BusRig) -> None:
    """Dropped between the look at the log and the receive: raised, not skipped, unless it is in hand already."""

    async def scenario() -> None:
        positions = await dropping.producer(0).publish(LINKS_DISCOVERED, [(0, b"a"), (0, b"b")])
        consumer = await dropping.consumer(LINKS_DISCOVERED, 0)
        await asyncio.wait_for(consumer.wait(30), 5)
        unread = {0: dict.fromkeys(range(SOURCES), positions[1].offset + 1)}
        assert await dropping.trim(FAR_US, LINKS_DISCOVERED, unread) == 2
        if dropping.fetches_ahead:
            assert payloads(await drained(consumer, 2)) == [b"a", b"b"]
        else:
            with pytest.raises(GapError):
                await consumer.receive(9)

    run(dropping, scenario)


# -- the producer's view -----------------------------------------------------------------------------------------------
def test_the_backlog_counts_what_was_not_committed(rig: BusRig) -> None:
    """It grows with each publish and falls with each commit, as far as is known."""

    async def scenario() -> None:
        producer = rig.producer(0)
        assert producer.backlog() == 0
        await producer.publish(LINKS_DISCOVERED, [(0, b"a"), (0, b"b"), (1, b"c")])
        assert producer.backlog() == 3
        consumer = await rig.consumer(LINKS_DISCOVERED, 0)
        received = await drained(consumer, 2)
        assert producer.backlog() == 3
        await consumer.commit([received[0].position])
        await rig.trim(0, LINKS_DISCOVERED, {0: consumer.uncommitted()})
        assert producer.backlog() == 2
        await rig.kill()
        await rig.open()
        await rig.trim(0, LINKS_DISCOVERED, {0: (await rig.consumer(LINKS_DISCOVERED, 0)).uncommitted()})
        assert rig.producer(0).backlog() == 2

    run(rig, scenario)


def test_a_healthy_producer_says_so(rig: BusRig) -> None:
    """`healthy` returns, before and after a publish, and publishes nothing."""

    async def scenario() -> None:
        await rig.producer(0).healthy()
        await rig.producer(0).publish(LINKS_DISCOVERED, [(0, b"a")])
        await rig.producer(0).healthy()
        assert payloads(await drained(await rig.consumer(LINKS_DISCOVERED, 0), 1)) == [b"a"]

    run(rig, scenario)


def _place(message: Message) -> Position:
    return message.position


def _comes_again(message: Message, received: list[Message], done: list[Message]) -> bool:
    """Whether it lies at or after the first message of its log that was not finished."""
    log = [other for other in received if other.position.source == message.position.source]
    return message.position >= min(other.position for other in log if other not in done)

"""What the Kafka adapter does beyond the port, held against the driver's double."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec import structs

from contract.bus_rigs import kafka_settings
from contract.test_bus import drained, payloads
from limpet.bus import Message, OversizedError, Position, UnknownTopicError
from limpet.bus.kafka import Bounds, Intake, KafkaBus, KafkaSettings, Redelivery, TooManyFailuresError
from limpet.bus.kafka.redelivery import ATTEMPT, DUE, ORIGIN, REASON
from limpet.clock import SystemClock
from limpet.model.errors import Definite
from limpet.model.events import LINKS_DISCOVERED, UnknownEventVersionError
from limpet.testing.kafka import KafkaDouble

BOUNDS = Bounds(attempts_max=2, delay_seconds=0, in_row_max=3)


@pytest.fixture
def settings(kafka_double: KafkaDouble) -> KafkaSettings:
    """Topics of their own: the links, with their retry and dead-letter topics."""
    found = kafka_settings(kafka_double.bootstrap)
    for suffix in ("", ".retry", ".dead"):
        kafka_double.create(found.topic(LINKS_DISCOVERED + suffix))
    return found


def run(settings: KafkaSettings, scenario: Callable[[KafkaBus], Coroutine[Any, Any, None]]) -> None:
    """`scenario` with a bus, which is closed afterwards."""

    async def main() -> None:
        async with KafkaBus(settings, SystemClock(), topics=[LINKS_DISCOVERED], min_insync=1) as bus:
            await scenario(bus)

    asyncio.run(main())


class Handler:
    """Does its work, but for payloads that say otherwise."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    async def __call__(self, message: Message) -> None:
        self.seen.append(message.payload)
        if message.payload.startswith(b"bad"):
            raise ValueError(message.payload.decode())
        if message.payload == b"newer":
            raise UnknownEventVersionError("event version 2 is not known here")
        if message.payload == b"store":
            raise Definite("the store is down")


async def intake(
    bus: KafkaBus, handler: Handler, *, topic: str = LINKS_DISCOVERED, bounds: Bounds = BOUNDS
) -> tuple[Intake, Redelivery]:
    """Partition 0 of a topic, through the handler."""
    redelivery = Redelivery(bus.cluster, bus.producer, LINKS_DISCOVERED, bounds)
    return Intake(await bus.consumer(topic, 0), handler, redelivery, SystemClock()), redelivery


async def worked(taking: Intake, count: int) -> None:
    """Steps until `count` messages came to an end."""
    ended = 0
    for _ in range(500):
        ended += await taking.step()
        if ended >= count:
            break
        await SystemClock().sleep(0.01)
    assert ended == count


# -- refusals ----------------------------------------------------------------------------------------------------------
def test_what_is_sure_to_be_refused_is_not_sent(settings: KafkaSettings) -> None:
    """One message too large, or for a partition that is not there: nothing of the publish is in the log."""

    async def scenario(bus: KafkaBus) -> None:
        with pytest.raises(OversizedError, match="bytes"):
            await bus.producer.publish(LINKS_DISCOVERED, [(0, b"a"), (0, bytes(settings.message_bytes_max))])
        with pytest.raises(UnknownTopicError, match="99"):
            await bus.producer.publish(LINKS_DISCOVERED, [(0, b"a"), (99, b"b")])
        with pytest.raises(UnknownTopicError, match="99"):
            await bus.consumer(LINKS_DISCOVERED, 99)
        with pytest.raises(UnknownTopicError):
            await bus.consumer("links.discoverd", 0)
        await bus.producer.publish(LINKS_DISCOVERED, [(0, b"only")])
        assert payloads(await drained(await bus.consumer(LINKS_DISCOVERED, 0), 1)) == [b"only"]

    run(settings, scenario)


# -- back-pressure -----------------------------------------------------------------------------------------------------
def test_a_slow_reader_holds_little_and_slows_nobody_else(settings: KafkaSettings) -> None:
    """What nobody takes is not fetched; the neighbour's partition flows; all of it comes in the end, in order."""
    small = structs.replace(settings, buffer_messages_max=20)

    async def scenario(bus: KafkaBus) -> None:
        await bus.producer.publish(LINKS_DISCOVERED, [(n % 2, b"%04d" % n) for n in range(4000)])
        slow, quick = await bus.consumer(LINKS_DISCOVERED, 0), await bus.consumer(LINKS_DISCOVERED, 1)
        assert len(await drained(quick, 2000)) == 2000
        await slow.wait(5)
        await SystemClock().sleep(0.5)
        held = len(slow._inbox._messages)
        assert 20 <= held <= 20 + 500
        received: list[Message] = []
        while len(received) < 2000:
            await slow.wait(5)
            received += await slow.receive(50)
        assert [message.position.offset for message in received] == list(range(2000))

    run(small, scenario)


# -- failures of messages ----------------------------------------------------------------------------------------------
def test_a_failed_message_is_tried_again_then_it_is_a_dead_letter(settings: KafkaSettings) -> None:
    """With its payload, its partition, attempts, reason and origin; what is behind it goes on at once."""

    async def scenario(bus: KafkaBus) -> None:
        handler = Handler()
        await bus.producer.publish(LINKS_DISCOVERED, [(0, b"a"), (0, b"bad"), (0, b"b")])
        first, _ = await intake(bus, handler)
        await worked(first, 3)
        second, redelivery = await intake(bus, handler, topic=LINKS_DISCOVERED + ".retry")
        await worked(second, 1)
        assert handler.seen == [b"a", b"bad", b"b", b"bad"]
        assert (redelivery.retried, redelivery.dead) == (0, 1)
        (letter,) = await drained(await bus.consumer(LINKS_DISCOVERED + ".dead", 0), 1)
        headers = dict(letter.headers)
        assert letter.payload == b"bad"
        assert headers[ATTEMPT] == b"3"
        assert headers[REASON] == b"ValueError: bad"
        assert headers[ORIGIN] == f"{LINKS_DISCOVERED}/0/1".encode()
        assert headers[DUE].isdigit()
        assert (await bus.consumer(LINKS_DISCOVERED, 0)).uncommitted() == {0: 3}
        assert (await bus.consumer(LINKS_DISCOVERED + ".retry", 0)).uncommitted() == {0: 1}

    run(settings, scenario)


def test_a_retry_waits_until_it_is_due(settings: KafkaSettings) -> None:
    """The delay stands in the message, so that no restart shortens it."""

    async def scenario(bus: KafkaBus) -> None:
        handler = Handler()
        await bus.producer.publish(LINKS_DISCOVERED, [(0, b"bad")])
        first, _ = await intake(bus, handler, bounds=structs.replace(BOUNDS, delay_seconds=0.5))
        begin = SystemClock().monotonic()  # before the message fails for the first time
        await worked(first, 1)
        second, _ = await intake(bus, handler, topic=LINKS_DISCOVERED + ".retry")
        await worked(second, 1)
        assert SystemClock().monotonic() - begin >= 0.5

    run(settings, scenario)


def test_a_bad_deploy_stops_the_consumer(settings: KafkaSettings) -> None:
    """Too many failures in a row: it ends, the messages stay where they are, and few were set aside."""

    async def scenario(bus: KafkaBus) -> None:
        handler = Handler()
        await bus.producer.publish(LINKS_DISCOVERED, [(0, b"bad %d" % n) for n in range(50)])
        taking, redelivery = await intake(bus, handler)
        with pytest.raises(TooManyFailuresError, match="in a row"):
            await worked(taking, 50)
        assert redelivery.retried == 3
        assert (await bus.consumer(LINKS_DISCOVERED, 0)).uncommitted() == {0: 3}

    run(settings, scenario)


def test_no_restart_widens_the_bound(settings: KafkaSettings) -> None:
    """What waits in the retry topic counts, whoever put it there."""

    async def scenario(bus: KafkaBus) -> None:
        bounds = structs.replace(BOUNDS, in_row_max=1000, waiting_max=4)
        await bus.producer.publish(LINKS_DISCOVERED, [(0, b"bad %d" % n) for n in range(50)])
        for _ in range(3):
            taking, _ = await intake(bus, Handler(), bounds=bounds)
            with pytest.raises(TooManyFailuresError, match="holds 4"):
                await worked(taking, 50)
        assert (await bus.consumer(LINKS_DISCOVERED, 0)).uncommitted() == {0: 4}

    run(settings, scenario)


def test_some_failures_among_many_stop_it_too(settings: KafkaSettings) -> None:
    """A share of the last messages, though never many in a row."""

    async def scenario(bus: KafkaBus) -> None:
        bounds = structs.replace(BOUNDS, window=20, share_max=0.25)
        await bus.producer.publish(LINKS_DISCOVERED, [(0, b"bad" if n % 3 == 0 else b"a") for n in range(60)])
        taking, redelivery = await intake(bus, Handler(), bounds=bounds)
        with pytest.raises(TooManyFailuresError, match="of 20"):
            await worked(taking, 60)
        assert redelivery.retried == 7

    run(settings, scenario)


def test_an_unknown_event_version_pauses(settings: KafkaSettings) -> None:
    """It is no dead letter: nothing behind it is touched, and the offset waits for the upgrade."""

    async def scenario(bus: KafkaBus) -> None:
        handler = Handler()
        await bus.producer.publish(LINKS_DISCOVERED, [(0, b"a"), (0, b"newer"), (0, b"b")])
        taking, redelivery = await intake(bus, handler)
        await worked(taking, 1)
        for _ in range(5):
            assert await taking.step() == 0
        assert taking.paused is not None
        assert "version 2" in taking.paused
        assert handler.seen == [b"a", b"newer"]
        assert (redelivery.retried, redelivery.dead) == (0, 0)
        assert (await bus.consumer(LINKS_DISCOVERED, 0)).uncommitted() == {0: 1}

    run(settings, scenario)


def test_a_fault_of_ours_is_not_the_message_s(settings: KafkaSettings) -> None:
    """A store that is down is raised on; what was finished before is committed, the message comes again."""

    async def scenario(bus: KafkaBus) -> None:
        await bus.producer.publish(LINKS_DISCOVERED, [(0, b"a"), (0, b"store")])
        taking, redelivery = await intake(bus, Handler())
        with pytest.raises(Definite, match="store"):
            await worked(taking, 2)
        assert redelivery.retried == 0
        assert (await bus.consumer(LINKS_DISCOVERED, 0)).uncommitted() == {0: 1}

    run(settings, scenario)


def test_strange_headers_count_as_none(settings: KafkaSettings) -> None:
    """Attempt and due time are read only where they are numbers."""

    async def scenario(bus: KafkaBus) -> None:
        handler = Handler()
        message = Message(Position(0, 0, 0), b"bad", ((ATTEMPT, b"-1"), (DUE, b"9" * 30)))
        redelivery = Redelivery(bus.cluster, bus.producer, LINKS_DISCOVERED, BOUNDS)
        await redelivery.set_aside(message, "x" * 10_000)
        assert redelivery.retried == 1
        second, _ = await intake(bus, handler, topic=LINKS_DISCOVERED + ".retry")
        await worked(second, 1)
        assert handler.seen == [b"bad"]

    run(settings, scenario)

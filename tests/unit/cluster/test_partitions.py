"""Partitions of a group: what is met there decides what becomes of their messages, and of the process."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from limpet.bus import GapError, LostPartitionError
from limpet.bus.kafka import KafkaGapError
from limpet.cluster.held import Held
from limpet.cluster.partitions import Mend, Partitions
from limpet.cluster.waiting import Patience, Waits
from limpet.model.errors import CannotGoOn, Indefinite
from limpet.model.events import UnknownEventVersionError
from limpet.testing.chance import SeededRandom
from limpet.testing.loop import SimClock, VirtualLoop, run_virtual
from unit.cluster.doubles import Aside, MemoryConsumer, MemoryMember

BATCH = 3
Handle = Callable[[bytes], None]


class Desk:
    """A topic served by a handler that may raise; what it handled, in order."""

    def __init__(self, loop: VirtualLoop, handle: Handle, mend: Mend | None = None) -> None:
        self.clock = SimClock(loop)
        self.member = MemoryMember(self.clock)
        self.waits = Waits(self.clock)
        self.aside = Aside()
        self.handled: list[bytes] = []
        self.ended: list[int] = []
        self._handle = handle
        self.stop = asyncio.Event()
        self.partitions = Partitions(
            "topic",
            self.member,
            self._serve,
            clock=self.clock,
            patience=Patience(self.clock, SeededRandom(1), self.waits),
            redelivery=self.aside,
            mend=mend,
        )

    def give(self, partition: int, payloads: list[bytes]) -> MemoryConsumer:
        """A partition from the group."""
        self.member.consumers[partition] = MemoryConsumer(self.clock, payloads, partition)
        return self.member.consumers[partition]

    async def _serve(self, partition: int, held: Held, leave: asyncio.Event) -> None:
        while not leave.is_set():
            messages = await held.receive(BATCH)
            for message in messages:
                self._handle(message.payload)
                self.handled.append(message.payload)
            await held.commit([message.position for message in messages])
            if not messages:
                await held.wait(0.1)
        self.ended.append(partition)


def rehearse(scenario: Callable[[VirtualLoop], Coroutine[Any, Any, None]]) -> None:
    """On virtual time."""
    loop = VirtualLoop()
    run_virtual(scenario(loop), loop)


def good(_payload: bytes) -> None:
    """Nothing goes wrong."""


class Faults:
    """Raises the next of its faults at each call, then none."""

    def __init__(self, *faults: Exception) -> None:
        self.faults = list(faults)

    def __call__(self, _payload: bytes) -> None:
        """The handler."""
        if self.faults:
            raise self.faults.pop(0)


def test_partitions_come_and_go_while_it_runs() -> None:
    """Work begins at the assignment and ends in order at `stop`; what was revoked is dropped."""

    async def scenario(loop: VirtualLoop) -> None:
        desk = Desk(loop, good)
        first = desk.give(0, [b"a", b"b", b"c", b"d"])
        running = asyncio.ensure_future(desk.partitions.run(desk.stop))
        await desk.clock.sleep(1)
        assert first.committed == [0, 1, 2, 3]
        second = desk.give(7, [b"e"])
        await desk.clock.sleep(1)
        assert desk.partitions.served() == [0, 7]
        desk.member.revoke(0)
        await desk.clock.sleep(1)
        assert desk.partitions.served() == [7]
        assert second.committed == [0]
        desk.stop.set()
        await running
        assert desk.ended[-1] == 7

    rehearse(scenario)


def test_a_server_that_is_away_is_waited_for_and_the_batch_given_again() -> None:
    """Nothing is skipped, nothing is set aside, and the wait is told while it lasts."""

    async def scenario(loop: VirtualLoop) -> None:
        desk = Desk(loop, Faults(Indefinite("store away"), Indefinite("store away")))
        consumer = desk.give(0, [b"a", b"b"])
        running = asyncio.ensure_future(desk.partitions.run(desk.stop))
        await desk.clock.sleep(0.3)
        assert desk.waits.now()["topic[0]"][1] == "store away"
        await desk.clock.sleep(5)
        assert desk.handled == [b"a", b"b"]
        assert consumer.committed == [0, 1]
        assert desk.waits.now() == {}
        assert desk.aside.messages == []
        desk.stop.set()
        await running

    rehearse(scenario)


def test_a_commit_without_an_answer_gives_the_batch_again() -> None:
    """Consumers bear repetitions; a hole they would not."""

    async def scenario(loop: VirtualLoop) -> None:
        desk = Desk(loop, good)
        consumer = desk.give(0, [b"a", b"b"])
        consumer.faults.append(Indefinite("no answer"))
        running = asyncio.ensure_future(desk.partitions.run(desk.stop))
        await desk.clock.sleep(3)
        assert desk.handled == [b"a", b"b", b"a", b"b"]
        assert consumer.committed == [0, 1]
        desk.stop.set()
        await running

    rehearse(scenario)


def test_poison_is_found_one_by_one_and_set_aside() -> None:
    """The others of its batch go on; only the message that fails alone is kept elsewhere."""

    def handle(payload: bytes) -> None:
        if payload == b"bad":
            raise ValueError("cannot read this")

    async def scenario(loop: VirtualLoop) -> None:
        desk = Desk(loop, handle)
        consumer = desk.give(0, [b"a", b"bad", b"c", b"d"])
        running = asyncio.ensure_future(desk.partitions.run(desk.stop))
        await desk.clock.sleep(5)
        assert desk.aside.messages == [(b"bad", "ValueError: cannot read this")]
        assert consumer.committed == [0, 1, 2, 3]
        assert desk.handled == [b"a", b"a", b"c", b"d"]
        desk.stop.set()
        await running

    rehearse(scenario)


def test_too_many_failures_end_the_process() -> None:
    """A bad deploy stops instead of draining a topic."""

    async def scenario(loop: VirtualLoop) -> None:
        desk = Desk(loop, Faults(ValueError("x"), ValueError("x")))
        desk.aside.fault = CannotGoOn("too many")
        consumer = desk.give(0, [b"a"])
        with pytest.raises(CannotGoOn, match="too many"):
            await desk.partitions.run(desk.stop)
        assert consumer.committed == []

    rehearse(scenario)


def test_an_unknown_event_version_pauses() -> None:
    """It is never set aside: an upgraded process will know it."""

    async def scenario(loop: VirtualLoop) -> None:
        desk = Desk(loop, Faults(*[UnknownEventVersionError("version 9")] * 1000))
        consumer = desk.give(0, [b"a"])
        running = asyncio.ensure_future(desk.partitions.run(desk.stop))
        await desk.clock.sleep(600)
        assert (consumer.committed, desk.aside.messages) == ([], [])
        assert "version 9" in desk.waits.now()["topic[0]"][1]
        desk.stop.set()
        await running

    rehearse(scenario)


@pytest.mark.parametrize("accepts", [True, False])
def test_a_gap_stands_still_unless_it_can_be_mended(accepts: bool) -> None:
    """What brings back what was dropped comes first, however often it fails; then the partition goes on behind it."""
    asked: list[KafkaGapError] = []

    async def mend(gap: KafkaGapError, step_over: Callable[[], Awaitable[None]]) -> None:
        asked.append(gap)
        if len(asked) < 3:
            raise Indefinite("the store did not answer")
        await step_over()

    async def scenario(loop: VirtualLoop) -> None:
        gap = KafkaGapError(("topic", 0), 5, 9, 20)
        desk = Desk(loop, good, mend if accepts else None)
        consumer = desk.give(0, [b"a"])
        consumer.gaps.extend([gap] * (3 if accepts else 100))
        running = asyncio.ensure_future(desk.partitions.run(desk.stop))
        await desk.clock.sleep(20)
        assert (8 in consumer.committed) is accepts
        assert bool(desk.waits.now()) is not accepts
        desk.stop.set()
        await running

    assert issubclass(KafkaGapError, GapError)
    rehearse(scenario)


def test_a_partition_that_came_back_is_served_anew() -> None:
    """Lost and given again between two looks: the new consumer is the one that is read."""

    async def scenario(loop: VirtualLoop) -> None:
        desk = Desk(loop, good)
        old = desk.give(0, [])
        running = asyncio.ensure_future(desk.partitions.run(desk.stop))
        await desk.clock.sleep(1)
        old.lost = True
        fresh = desk.give(0, [b"a"])
        await desk.clock.sleep(2)
        assert fresh.committed == [0]
        desk.stop.set()
        await running

    rehearse(scenario)


def test_what_a_retry_topic_gives_waits_until_it_is_due() -> None:
    """A message that failed is tried again after its delay, and nothing behind it before."""

    async def scenario(loop: VirtualLoop) -> None:
        clock = SimClock(loop)
        consumer = MemoryConsumer(clock, [b"a"])
        (message,) = await consumer.receive(1)
        due = type(message)(message.position, message.payload, (("limpet-due-us", b"%d" % (clock.wall_us() + 10**7)),))
        consumer._waiting.append(due)
        held = Held(consumer, clock, lambda _count: None)
        assert await held.receive(5) == []
        await clock.sleep(11)
        assert await held.receive(5) == [due]
        assert held.in_hand() == [due]
        consumer.lost = True
        with pytest.raises(LostPartitionError):
            await held.commit([due.position])

    rehearse(scenario)

"""Commits through rebalances, shared requests, lost answers: against scripted answers of a broker."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import pytest
from confluent_kafka import KafkaError

from limpet.bus import DeniedError, LostPartitionError, Message, Position
from limpet.bus.kafka import KafkaConsumer, KafkaSettings
from limpet.bus.kafka.cluster import Cluster, Place
from limpet.bus.kafka.commits import Commits
from limpet.bus.kafka.inbox import Inbox
from limpet.bus.kafka.reader import Reader
from limpet.clock import SystemClock
from limpet.model.errors import Indefinite

Answer = Callable[[], KafkaError | None]


class ScriptedReader(Reader):
    """Answers commits from a script, then well; holds each request until `go` is set."""

    def __init__(self, group: dict[Place, int], script: list[Answer]) -> None:
        self.group = group
        self.script = script
        self.requests: list[dict[Place, int]] = []
        self.go = asyncio.Event()
        self.go.set()

    async def commit(self, offsets: dict[Place, int]) -> dict[Place, KafkaError | None]:
        self.requests.append(dict(offsets))
        await self.go.wait()
        error = self.script.pop(0)() if self.script else None
        if error is None:
            self.group |= offsets
        return dict.fromkeys(offsets, error)


class ScriptedCluster(Cluster):
    """Knows what the group committed."""

    def __init__(self, group: dict[Place, int]) -> None:
        self.settings = KafkaSettings(bootstrap="x:1", request_seconds_max=0.2)
        self.clock = SystemClock()
        self.group = group

    async def committed(self, group: str, places: Iterable[Place]) -> dict[Place, int]:
        del group
        return {place: self.group[place] for place in places if place in self.group}


class Bench:
    """Consumers of some partitions of one group, each with ten messages received."""

    def __init__(self, *script: Answer) -> None:
        self.group: dict[Place, int] = {}
        self.reader = ScriptedReader(self.group, list(script))
        self.cluster = ScriptedCluster(self.group)
        self.commits = Commits(self.cluster, self.reader, "t")

    async def consumer(self, partition: int) -> KafkaConsumer:
        inbox = Inbox(0, messages_max=100, bytes_max=1000)
        inbox.put([Message(position, b"a") for position in positions(partition, 10)])
        consumer = KafkaConsumer(self.cluster, self.reader, self.commits, ("t", partition), inbox)
        assert len(await consumer.receive(10)) == 10
        return consumer


def positions(partition: int, count: int) -> list[Position]:
    """The first ones."""
    return [Position(partition, 0, offset) for offset in range(count)]


def always(code: int) -> Answer:
    """The same error."""
    return lambda: KafkaError(code)


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """On a loop of its own."""
    asyncio.run(scenario())


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.UNKNOWN_MEMBER_ID,
    ],
)
def test_a_commit_that_meets_a_rebalance_is_made_again(code: int) -> None:
    """As long as the partition stays ours it counts in the end."""

    async def scenario() -> None:
        bench = Bench(always(code), always(code))
        consumer = await bench.consumer(0)
        await consumer.commit(positions(0, 4))
        assert bench.group == {("t", 0): 4}
        assert len(bench.reader.requests) == 3
        assert consumer.uncommitted() == {0: 4}

    run(scenario)


def test_a_partition_that_goes_away_in_mid_commit_is_lost() -> None:
    """Its committed offset stays for the new owner, and nothing is received any more."""

    async def scenario() -> None:
        bench = Bench(*[always(KafkaError.ILLEGAL_GENERATION)] * 50)
        consumer = await bench.consumer(0)
        committing = asyncio.create_task(consumer.commit(positions(0, 4)))
        await SystemClock().sleep(0.15)
        consumer.lose()
        with pytest.raises(LostPartitionError):
            await committing
        assert bench.group == {}
        with pytest.raises(LostPartitionError):
            await consumer.receive(1)
        await asyncio.wait_for(consumer.wait(30), 5)

    run(scenario)


def test_what_the_group_has_passed_is_not_sent() -> None:
    """A reader that was replaced does not set it back."""

    async def scenario() -> None:
        bench = Bench()
        consumer = await bench.consumer(0)
        bench.group["t", 0] = 7
        await consumer.commit(positions(0, 4))
        assert bench.reader.requests == []
        assert bench.group == {("t", 0): 7}
        await consumer.commit(positions(0, 9))
        assert bench.group == {("t", 0): 9}

    run(scenario)


def test_who_waits_goes_with_the_next_request() -> None:
    """Ten partitions commit while a request is under way: one more request."""

    async def scenario() -> None:
        bench = Bench()
        consumers = [await bench.consumer(partition) for partition in range(11)]
        bench.reader.go.clear()
        tasks = [asyncio.create_task(consumers[0].commit(positions(0, 1)))]
        await SystemClock().sleep(0.01)
        tasks += [asyncio.create_task(one.commit(positions(one.partition, 2))) for one in consumers[1:]]
        await SystemClock().sleep(0.01)
        bench.reader.go.set()
        await asyncio.gather(*tasks)
        assert [len(request) for request in bench.reader.requests] == [1, 10]
        assert bench.group == {("t", 0): 1} | {("t", partition): 2 for partition in range(1, 11)}

    run(scenario)


def test_a_commit_without_an_answer_is_unknown() -> None:
    """Bounded in time; what it covered is committed by the next one."""

    async def scenario() -> None:
        bench = Bench()
        consumer = await bench.consumer(0)
        bench.reader.go.clear()
        with pytest.raises(Indefinite):
            await consumer.commit(positions(0, 4))
        assert consumer.uncommitted() == {0: 0}
        bench.reader.go.set()
        await consumer.commit([])
        assert bench.group == {("t", 0): 4}

    run(scenario)


def test_a_coordinator_that_moves_is_asked_again() -> None:
    """And one that denies is not."""

    async def scenario() -> None:
        bench = Bench(always(KafkaError.NOT_COORDINATOR), always(KafkaError.GROUP_AUTHORIZATION_FAILED))
        consumer = await bench.consumer(0)
        with pytest.raises(DeniedError, match="t"):
            await consumer.commit(positions(0, 4))
        assert len(bench.reader.requests) == 2

    run(scenario)

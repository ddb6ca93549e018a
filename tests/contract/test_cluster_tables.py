"""One suite for the tables of the cluster's roles: facts, readers and attempts, in memory and on Cassandra."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from contract.cassandras import empty
from limpet.bus import Position
from limpet.clock import SystemClock
from limpet.cluster.attempts import AttemptTable, PartitionMarks, suspect_span
from limpet.cluster.facts import FactsTable
from limpet.cluster.tables import CassandraAttempts, CassandraFacts
from limpet.urlstore.cassandra import CassandraSettings, Session
from unit.cluster.doubles import MemoryAttempts, MemoryConsumer, MemoryFacts

Scenario = Callable[[FactsTable, AttemptTable], Awaitable[None]]
Run = Callable[[Scenario], None]


@pytest.fixture(params=["memory", pytest.param("cassandra", marks=pytest.mark.servers)])
def run(request: pytest.FixtureRequest) -> Run:
    """Plays a scenario on empty tables."""
    if request.param == "memory":
        return lambda scenario: asyncio.run(_on_memory(scenario))
    settings: CassandraSettings = request.getfixturevalue("cassandra_crawl")
    empty(settings)
    return lambda scenario: asyncio.run(_on_cassandra(settings, scenario))


async def _on_memory(scenario: Scenario) -> None:
    await scenario(MemoryFacts(), MemoryAttempts())


async def _on_cassandra(settings: CassandraSettings, scenario: Scenario) -> None:
    session = await Session.open(settings)
    try:
        await scenario(CassandraFacts(session), CassandraAttempts(session))
    finally:
        await session.close()


def test_a_fact_is_written_once(run: Run) -> None:
    """Of any number that write at once, all are told the value of whoever was first."""

    async def scenario(facts: FactsTable, _: AttemptTable) -> None:
        assert await facts.read("crawl") is None
        told = await asyncio.gather(*(facts.write_once("crawl", b"%d" % number) for number in range(8)))
        assert len(set(told)) == 1
        assert await facts.read("crawl") == told[0]
        assert await facts.write_once("crawl", b"late") == told[0]
        assert await facts.read("places") is None

    run(scenario)


def test_an_end_in_order_is_known_to_the_next_reader(run: Run) -> None:
    """The first reader ever finds nothing to suspect, nor does one after a reader that ended."""

    async def scenario(_: FactsTable, attempts: AttemptTable) -> None:
        assert await attempts.begin("t", 1, "a")
        await attempts.end("t", 1, "a")
        assert await attempts.begin("t", 1, "b")
        assert not await attempts.begin("t", 1, "c")  # b died
        assert not await attempts.begin("t", 1, "c")  # repeated, because an answer was lost
        assert await attempts.begin("t", 2, "c")

    run(scenario)


def test_a_reader_that_was_replaced_ends_nothing(run: Run) -> None:
    """It would hide the death of the one that followed it."""

    async def scenario(_: FactsTable, attempts: AttemptTable) -> None:
        await attempts.begin("t", 1, "a")
        await attempts.begin("t", 1, "b")
        await attempts.end("t", 1, "a")
        assert not await attempts.begin("t", 1, "c")

    run(scenario)


def test_attempts_are_counted_by_message_until_it_is_acquitted(run: Run) -> None:
    """Other messages, partitions and topics have counts of their own."""

    async def scenario(_: FactsTable, attempts: AttemptTable) -> None:
        marks = PartitionMarks(attempts, "t", 1)
        assert [await marks.mark(Position(1, 0, 7)) for _ in range(3)] == [1, 2, 3]
        assert await marks.mark(Position(1, 0, 8)) == 1
        assert await PartitionMarks(attempts, "t.retry", 1).mark(Position(1, 0, 7)) == 1
        await marks.acquit(Position(1, 0, 7))
        assert await marks.mark(Position(1, 0, 7)) == 1

    run(scenario)


def test_the_suspect_span_ends_with_the_log() -> None:
    """At most a batch, from what is committed on; nothing that was never written is suspected."""
    consumer = MemoryConsumer(SystemClock(), [])
    consumer.committed = [0, 1, 2]
    assert suspect_span(consumer, 100, 64) == {0: 67}
    assert suspect_span(consumer, 10, 64) == {0: 10}
    assert suspect_span(consumer, 3, 64) == {}

"""One suite for every table of leased shares."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from contract.cassandras import empty
from limpet.clock import SystemClock
from limpet.politeness.sharetable import Drawn, ShareTable, Turn
from limpet.testing.memory_shares import MemoryShareTable
from limpet.urlstore.cassandra import CassandraSettings, Session
from limpet.urlstore.cassandra.shares import CassandraShareTable

Scenario = Callable[[ShareTable], Awaitable[None]]
Run = Callable[[Scenario], None]
KEY = "address 192.0.2.1"


@pytest.fixture(params=["memory", pytest.param("cassandra", marks=pytest.mark.servers)])
def run(request: pytest.FixtureRequest) -> Run:
    """Plays a scenario on an empty table."""
    if request.param == "memory":
        return lambda scenario: asyncio.run(_on_memory(scenario))
    settings: CassandraSettings = request.getfixturevalue("cassandra_crawl")
    empty(settings)
    return lambda scenario: asyncio.run(_on_cassandra(settings, scenario))


async def _on_memory(scenario: Scenario) -> None:
    await scenario(MemoryShareTable())


async def _on_cassandra(settings: CassandraSettings, scenario: Scenario) -> None:
    session = await Session.open(settings)
    try:
        await scenario(CassandraShareTable(session))
    finally:
        await session.close()


def test_turns_change_version_by_version(run: Run) -> None:
    """What is read is what was written last; a version that is taken or skipped changes nothing."""

    async def scenario(table: ShareTable) -> None:
        assert await table.turn(KEY) == Turn()
        first = Turn(1, "a", "a")
        second = Turn(2, "b", "a", 250_000, {"c": 2, "d": 1}, ("b", "e"))
        assert await table.set_turn(KEY, first)
        assert not await table.set_turn(KEY, Turn(1, "b", "b"))
        assert not await table.set_turn(KEY, Turn(3, "b", "b"))
        assert await table.turn(KEY) == first
        assert await table.set_turn(KEY, second)
        assert not await table.set_turn(KEY, Turn(2, "a", "a"))
        assert await table.turn(KEY) == second
        assert await table.turn("address 192.0.2.2") == Turn()

    run(scenario)


def test_days_change_version_by_version(run: Run) -> None:
    """As turns."""

    async def scenario(table: ShareTable) -> None:
        assert await table.drawn(7) == Drawn()
        assert await table.set_drawn(7, Drawn(1, "a", 10))
        assert not await table.set_drawn(7, Drawn(1, "b", 10))
        assert not await table.set_drawn(8, Drawn(2, "b", 10))
        assert await table.set_drawn(7, Drawn(2, "b", 20))
        assert not await table.set_drawn(7, Drawn(2, "a", 20))
        assert await table.drawn(7) == Drawn(2, "b", 20)
        assert await table.drawn(8) == Drawn()

    run(scenario)


def test_an_earlier_attempt_is_not_taken_for_the_last(run: Run) -> None:
    """Two writes of one version by one writer: who is told that his is there finds it there, whatever came first."""

    async def scenario(table: ShareTable) -> None:
        assert await table.set_turn(KEY, Turn(1, "a", "c", queue=("a",)))
        assert not await table.set_turn(KEY, Turn(1, "a", "a"))
        assert await table.turn(KEY) == Turn(1, "a", "c", queue=("a",))
        assert await table.set_drawn(7, Drawn(1, "a", 10))
        assert not await table.set_drawn(7, Drawn(1, "a", 12))
        assert await table.drawn(7) == Drawn(1, "a", 10)

    run(scenario)


def test_one_of_many_writes_a_version(run: Run) -> None:
    """At the same time: exactly one is told that its own is there."""

    async def scenario(table: ShareTable) -> None:
        assert await table.set_turn(KEY, Turn(1, "x"))
        wished = [Turn(2, f"writer{number}", f"writer{number}") for number in range(8)]
        done = await asyncio.gather(*(table.set_turn(KEY, new) for new in wished))
        assert [new for new, won in zip(wished, done, strict=True) if won] == [await table.turn(KEY)]

    run(scenario)


def test_the_latest_of_waits_stands(run: Run) -> None:
    """Of each host, whatever the order in which they are told."""

    async def scenario(table: ShareTable) -> None:
        now_us = SystemClock().wall_us()
        for host, seconds in (("a", 100), ("a", 50), ("b", 60), ("b", 90)):
            await table.tell(KEY, host, now_us + seconds * 1_000_000, seconds)
        assert await table.told(KEY) == {"a": now_us + 100_000_000, "b": now_us + 90_000_000}
        assert await table.told("address 192.0.2.2") == {}

    run(scenario)


def test_notices_arrive_by_key(run: Run) -> None:
    """The last mark of each key, for whom it was meant."""

    async def scenario(table: ShareTable) -> None:
        for key, mark in ((KEY, "1"), ("other", "2"), (KEY, "3")):
            await table.notify("a", key, mark)
        assert await table.notices("a") == {KEY: "3", "other": "2"}
        assert await table.notices("b") == {}

    run(scenario)

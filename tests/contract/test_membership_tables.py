"""One suite for every lease table: beats that only grow, owners that change under their condition."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from contract.cassandras import empty
from limpet.membership import UNOWNED, Beat, LeaseTable, Owner
from limpet.testing.memory_leases import MemoryLeaseTable
from limpet.urlstore.cassandra import CassandraSettings, Session
from limpet.urlstore.cassandra.leases import CassandraLeaseTable

Scenario = Callable[[LeaseTable], Awaitable[None]]
Run = Callable[[Scenario], None]


@pytest.fixture(params=["memory", pytest.param("cassandra", marks=pytest.mark.servers)])
def run(request: pytest.FixtureRequest) -> Run:
    """Plays a scenario on an empty table."""
    if request.param == "memory":
        return lambda scenario: asyncio.run(_on_memory(scenario))
    settings: CassandraSettings = request.getfixturevalue("cassandra_crawl")
    empty(settings)
    return lambda scenario: asyncio.run(_on_cassandra(settings, scenario))


async def _on_memory(scenario: Scenario) -> None:
    await scenario(MemoryLeaseTable())


async def _on_cassandra(settings: CassandraSettings, scenario: Scenario) -> None:
    session = await Session.open(settings)
    try:
        await scenario(CassandraLeaseTable(session))
    finally:
        await session.close()


def test_the_highest_count_stands(run: Run) -> None:
    """Whatever the order of arrival; and each incarnation has its own."""

    async def scenario(table: LeaseTable) -> None:
        latest, other = Beat("a", "crawlnode", 7, frozenset({3, 1})), Beat("b", "parser", 1)
        for beat in (Beat("a", "crawlnode", 6), latest, other, Beat("a", "crawlnode", 5, frozenset({2}))):
            await table.beat(beat)
        found = await table.incarnations()
        assert sorted(found, key=lambda beat: beat.incarnation) == [latest, other]

    run(scenario)


def test_who_is_forgotten_does_not_come_back(run: Run) -> None:
    """A beat that was on its way changes nothing; a name never heard of may be forgotten, too."""

    async def scenario(table: LeaseTable) -> None:
        await table.beat(Beat("a", "crawlnode", 1))
        await table.beat(Beat("b", "crawlnode", 1))
        await table.forget("a")
        await table.forget("c")
        await table.beat(Beat("a", "crawlnode", 2))
        assert [beat.incarnation for beat in await table.incarnations()] == ["b"]

    run(scenario)


def test_a_shard_changes_hands_under_its_condition_only(run: Run) -> None:
    """Owner and epoch both have to be those that were read; what was refused changed nothing."""

    async def scenario(table: LeaseTable) -> None:
        assert await table.owner(4) == UNOWNED
        first = Owner("a", 1)
        assert await table.compare_and_set(4, UNOWNED, first)
        assert not await table.compare_and_set(4, UNOWNED, Owner("b", 1))
        assert not await table.compare_and_set(4, Owner("a", 2), Owner("b", 3))
        assert not await table.compare_and_set(4, Owner("b", 1), Owner("b", 2))
        assert await table.owner(4) == first
        free = Owner("", 1)
        assert await table.compare_and_set(4, first, free)
        assert await table.owners() == {4: free}
        assert await table.compare_and_set(4, free, Owner("b", 2))
        assert not await table.compare_and_set(5, free, Owner("b", 2)), "a shard without a row is nobody's, epoch 0"
        assert await table.owners() == {4: Owner("b", 2)}

    run(scenario)


def test_one_of_many_takes_a_shard(run: Run) -> None:
    """At the same time, from the same state: exactly one is told that it did, or that nobody knows."""

    async def scenario(table: LeaseTable) -> None:
        takers = [Owner(f"taker{number}", 1) for number in range(8)]
        verdicts = await asyncio.gather(*(table.compare_and_set(0, UNOWNED, new) for new in takers))
        winners = [new for new, won in zip(takers, verdicts, strict=True) if won]
        assert winners == [await table.owner(0)]

    run(scenario)

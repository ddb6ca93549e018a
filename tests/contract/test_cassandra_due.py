"""The due index over a real Cassandra while time goes by: what wakes, what is passed, what is dropped, who is late."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from contract.cassandras import empty
from contract.stores import A, B, candidate, claimed, fetched, fp
from limpet.testing.chance import SeededRandom
from limpet.urlstore import Lane
from limpet.urlstore.cassandra import CassandraSettings, CassandraUrlStore, Session

pytestmark = pytest.mark.servers

SECOND_US = 1_000_000
BEGIN_US = 1_700_000_000 * SECOND_US
SLOT_SECONDS = 60


class HandClock:
    """Stands until it is moved."""

    def __init__(self) -> None:
        self.now_us = BEGIN_US

    def wall_us(self) -> int:
        return self.now_us

    def monotonic(self) -> float:
        return self.now_us / 1e6

    def boot_us(self) -> int:
        return self.now_us

    def boot_id(self) -> str:
        return "boot"

    async def sleep(self, seconds: float) -> None:
        self.now_us += int(seconds * 1e6)

    def move(self, seconds: float) -> None:
        self.now_us += int(seconds * 1e6)


class Shard:
    """One shard whose owner changes when a test says so."""

    def __init__(self, session: Session) -> None:
        self.session, self.clock, self._owners = session, HandClock(), 0
        self.store = self.take_over()

    def take_over(self) -> CassandraUrlStore:
        """The next owner, who knows nothing but the tables."""
        self._owners += 1
        tools = {"clock": self.clock, "random": SeededRandom(self._owners), "epoch": self._owners}
        self.store = CassandraUrlStore(self.session, 7, **tools)  # type: ignore[arg-type]  # each is what it is
        return self.store

    async def woken(self) -> list[str]:
        return sorted(queue.authority for queue in await self.store.woken())

    async def fetch(self, count: int, authority: str = A) -> int:
        """Claim and complete so many."""
        claims = await claimed(self.store, self.clock.now_us, count, authority, self.clock.now_us + 600 * SECOND_US)
        for claim in claims:
            assert await self.store.complete(fetched(claim, self.clock.now_us)) is True
        return len(claims)

    async def count(self, table: str) -> int:
        """Rows of a table."""
        statement = f"SELECT COUNT(*) FROM {self.session.settings.keyspace}.{table}"  # noqa: S608 - names of our own
        rows = await asyncio.to_thread(self.session._session.execute, statement)
        return int(rows.one()["count"])


def run(settings: CassandraSettings, scenario: Callable[[Shard], Awaitable[None]]) -> None:
    """`scenario` on an empty keyspace."""

    async def main() -> None:
        session = await Session.open(msgspec.structs.replace(settings, slot_seconds=SLOT_SECONDS))
        try:
            await scenario(Shard(session))
        finally:
            await session.close()

    empty(settings)
    asyncio.run(main())


def test_the_owner_is_woken_when_something_comes_due_and_not_before(cassandra_crawl: CassandraSettings) -> None:
    """At once for what is due at once; at its time for what is due later, by whomever it was entered."""

    async def scenario(shard: Shard) -> None:
        assert await shard.woken() == []
        later_us = shard.clock.now_us + 100 * SECOND_US
        await shard.store.admit([candidate(1), candidate(2, B, due_us=later_us)], shard.clock.now_us)
        assert await shard.woken() == [A]
        assert await shard.fetch(5) == 1
        shard.clock.move(50)
        assert B not in await shard.woken()
        assert await shard.store.next_due(A) is None
        shard.clock.move(51)
        assert B in await shard.woken()
        assert await shard.fetch(5, B) == 1

    run(cassandra_crawl, scenario)


def test_what_follows_a_wake_entry_within_its_tick_is_not_forgotten(cassandra_crawl: CassandraSettings) -> None:
    """The owner looked, found nothing more, and is told once again when nothing can be on its way any more."""

    async def scenario(shard: Shard) -> None:
        await shard.store.admit([candidate(1)], shard.clock.now_us)
        assert await shard.woken() == [A]
        assert await shard.fetch(5) == 1
        assert await shard.store.next_due(A) is None
        await shard.store.admit([candidate(2)], shard.clock.now_us)  # stands beside the wake entry that was read
        shard.clock.move(5)
        assert await shard.woken() == [A]
        assert await shard.fetch(5) == 1
        assert await shard.store.next_due(A) is None
        shard.clock.move(5)
        assert await shard.woken() == []

    run(cassandra_crawl, scenario)


def test_what_was_dealt_with_is_not_read_again_and_its_parts_are_dropped(cassandra_crawl: CassandraSettings) -> None:
    """Slot by slot the index stays as small as what waits; the next owner begins at the cursor."""

    async def scenario(shard: Shard) -> None:
        for number in range(12):
            await shard.store.admit([candidate(number * 10 + one) for one in range(3)], shard.clock.now_us)
            await shard.woken()
            assert await shard.fetch(5) == 3
            shard.clock.move(SLOT_SECONDS / 2)
            assert await shard.store.next_due(A) is None
        assert await shard.count("due") <= 6
        assert await shard.count("wake") <= 6
        shard.take_over()
        before = shard.session.tally().statements
        assert await shard.store.next_due(A) is None
        after = shard.session.tally().statements
        assert after["url_get"] - before["url_get"] <= 6

    run(cassandra_crawl, scenario)


def test_a_backlog_is_handed_on_with_the_shard(cassandra_crawl: CassandraSettings) -> None:
    """Authorities with something left are woken again at each checkpoint: the next owner meets them, and leases too."""

    async def scenario(shard: Shard) -> None:
        await shard.store.admit([candidate(number) for number in range(9)], shard.clock.now_us)
        await shard.store.admit([candidate(50, B)], shard.clock.now_us)
        assert await shard.woken() == [A, B]
        (held,) = await claimed(shard.store, shard.clock.now_us, 1, B, shard.clock.now_us + 7200 * SECOND_US)
        for _ in range(8):
            assert await shard.fetch(1) == 1
            shard.clock.move(SLOT_SECONDS)
            await shard.woken()
        assert await shard.count("wake") <= 8
        shard.take_over()
        assert await shard.woken() == [A, B]
        assert await shard.store.leased_hosts() == ["b.example"]
        ended = await shard.store.expire(shard.clock.now_us, dead=True, poison_after=5)
        assert [row.fp for row, _ in ended] == [held.fp]
        assert await shard.fetch(9) == 1
        assert await shard.fetch(9, B) == 1

    run(cassandra_crawl, scenario)


def test_a_writer_slower_than_the_lag_writes_again(cassandra_crawl: CassandraSettings) -> None:
    """Its row names an entry so far ahead that the next write is in time; who had gone by meets it there."""

    async def scenario(shard: Shard) -> None:
        await shard.store.admit([candidate(1)], shard.clock.now_us)
        moves = shard.store.core.moves
        row = await shard.session.one("url_get", fp=fp(1))
        assert row is not None
        was = row["entry_us"]
        await moves.confirm(row, Lane.NEW, was)
        assert (await shard.session.one("url_get", fp=fp(1)) or {})["entry_us"] == was
        shard.clock.move(10)
        await moves.confirm(row, Lane.NEW, was)
        entry_us = (await shard.session.one("url_get", fp=fp(1)) or {})["entry_us"]
        assert entry_us == shard.clock.now_us + 20 * SECOND_US
        assert await shard.fetch(5) == 0
        shard.clock.move(20)
        assert await shard.woken() == [A]
        assert await shard.fetch(5) == 1
        assert await shard.fetch(5) == 0

    run(cassandra_crawl, scenario)


def test_an_entry_without_a_row_is_passed_once_it_can_have_none(cassandra_crawl: CassandraSettings) -> None:
    """A writer died between entry and row: while it may be on its way it holds the cursor, and then no more."""

    async def scenario(shard: Shard) -> None:
        index = shard.store.core.index
        await index.enter(A, "a.example", Lane.NEW, 0, fp(1))
        await shard.store.admit([candidate(2)], shard.clock.now_us)
        assert await shard.fetch(5) == 1
        shard.clock.move(1)
        await shard.store.next_due(A)
        assert (await index.cursors(A))[Lane.NEW][0] < BEGIN_US
        shard.clock.move(20)
        for _ in range(2):
            await shard.store.next_due(A)
        assert (await index.cursors(A))[Lane.NEW][0] >= BEGIN_US

    run(cassandra_crawl, scenario)

"""Operators' orders and errands between crawl nodes, on Cassandra."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from contract.cassandras import empty
from limpet.clock import DurableClock, SystemClock
from limpet.cluster.errands import CassandraErrands
from limpet.cluster.orders import CassandraOrders
from limpet.cluster.waiting import Waits
from limpet.crawlnode.errands import Errand, NotAsked
from limpet.model.errors import UsageError
from limpet.politeness.orders import HostOrder, Orders
from limpet.robots import NetworkFailure, RobotsAnswer
from limpet.urlstore.cassandra import CassandraSettings, Session

pytestmark = pytest.mark.servers

ERRAND = Errand(url="http://a.example/robots.txt", hops="LPR", via="http://b.example/robots.txt", cause=b"cause")


def play(settings: CassandraSettings, scenario: Callable[[Session], Awaitable[None]]) -> None:
    """On empty tables."""

    async def main() -> None:
        session = await Session.open(settings)
        try:
            await scenario(session)
        finally:
            await session.close()

    empty(settings)
    asyncio.run(main())


def paused(number: int) -> Callable[[HostOrder], HostOrder]:
    """An order."""
    return lambda order: msgspec.structs.replace(order, paused_us=number)


def test_orders_given_at_once_are_all_kept(cassandra_crawl: CassandraSettings) -> None:
    """Each is told what it replaced, and everybody reads the same afterwards."""

    async def scenario(session: Session) -> None:
        books = [CassandraOrders(session) for _ in range(5)]
        assert await books[0].look() == {}
        await asyncio.gather(*(book.change(f"{number}.example", paused(7)) for number, book in enumerate(books)))
        orders = await books[0].look()
        assert orders == {f"{number}.example": HostOrder(paused_us=7) for number in range(5)}
        assert await books[1].change("0.example", paused(7)) == (HostOrder(paused_us=7), HostOrder(paused_us=7))
        assert await books[2].change("0.example", paused(0)) == (HostOrder(paused_us=7), HostOrder())
        assert "0.example" not in await books[3].look()
        assert await books[3].look() is await books[3].look()

    play(cassandra_crawl, scenario)


def test_orders_are_heard_while_a_node_runs(cassandra_crawl: CassandraSettings) -> None:
    """Within a few seconds, once for each look; damaged ones are refused and those before them hold."""

    async def scenario(session: Session) -> None:
        heard: list[Orders] = []

        async def obey(orders: Orders) -> None:
            heard.append(orders)

        book, clock = CassandraOrders(session), SystemClock()
        watching = asyncio.ensure_future(book.watch(obey, clock, Waits(clock)))
        await CassandraOrders(session).change("a.example", paused(9))
        async with asyncio.timeout(10):
            while not (heard and heard[-1]):
                await clock.sleep(0.1)
        assert heard[-1] == {"a.example": HostOrder(paused_us=9)}
        await session.conditional("orders_change", name="hosts", version=2, value=b"{torn", before=1)
        with pytest.raises(UsageError, match="damaged"):
            await CassandraOrders(session).look()
        await clock.sleep(2.5)
        assert book.latest == {"a.example": HostOrder(paused_us=9)}
        watching.cancel()

    play(cassandra_crawl, scenario)


class Node:
    """One end of errands; what it was asked to fetch."""

    def __init__(self, session: Session, name: str, shards: frozenset[int]) -> None:
        self.errands = CassandraErrands(
            session,
            owned=lambda: shards,
            shard_of_host=lambda host: 1 if host == "a.example" else 0,
            clock=DurableClock(SystemClock()),
            name=name,
        )
        self.asked: list[tuple[Errand, float]] = []

    async def run(self, errand: Errand, until: float) -> RobotsAnswer | NotAsked | None:
        """The owner's way to fetch."""
        self.asked.append((errand, until - SystemClock().monotonic()))
        return NetworkFailure("refused") if len(self.asked) == 1 else NotAsked("breaker", wait_us=5)


def test_the_owner_of_a_host_runs_the_errand_once(cassandra_crawl: CassandraSettings) -> None:
    """And nobody else; its answer comes back as it is, and it knows how long somebody waits."""

    async def scenario(session: Session) -> None:
        owner, stranger, asker = (
            Node(session, name, frozenset({shard})) for name, shard in (("o", 1), ("s", 0), ("a", 0))
        )
        serving = [asyncio.ensure_future(node.errands.serve(node.run)) for node in (owner, stranger)]
        assert await asker.errands.ask(ERRAND) == NetworkFailure("refused")
        assert await asker.errands.ask(ERRAND) == NotAsked("breaker", wait_us=5)
        assert [errand for errand, _ in owner.asked] == [ERRAND, ERRAND]
        assert all(80 < seconds < 90 for _, seconds in owner.asked)
        assert stranger.asked == []
        for task in serving:
            task.cancel()

    play(cassandra_crawl, scenario)


def test_who_stops_waits_for_no_errand(cassandra_crawl: CassandraSettings) -> None:
    """None, soon."""

    async def scenario(session: Session) -> None:
        node = Node(session, "a", frozenset())
        waiting = asyncio.ensure_future(node.errands.ask(ERRAND))
        await SystemClock().sleep(0.2)
        node.errands.stop()
        async with asyncio.timeout(5):
            assert await waiting is None

    play(cassandra_crawl, scenario)

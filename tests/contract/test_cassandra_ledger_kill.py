"""`kill -9` of the server under everything that is counted, told and accepted: what was acknowledged is there."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from contract.cassandra_room import Room, fingerprint, fresh_shard, with_session
from contract.stores import job, output
from limpet.model.errors import Definite, Indefinite
from limpet.urlstore import HostRow, Reject
from limpet.urlstore.cassandra import CassandraSettings, Session
from servers import Service

pytestmark = pytest.mark.servers

DAY = 20_000
BEFORE_SECONDS = 1.0
AFTER_SECONDS = 2.0


class Work:
    """One kind of write after the other until it is stopped; what was tried, and what was acknowledged."""

    def __init__(self) -> None:
        self.tried: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.stopped = False

    async def repeat(self, name: str, act: Callable[[int], Awaitable[object]], room: Room) -> None:
        """`act` with rising numbers. A number whose write failed is not used again."""
        while not self.stopped:
            self.tried[name] += 1
            try:
                await act(self.tried[name])
            except (Definite, Indefinite):
                await room.clock.sleep(0.05)
            else:
                self.done[name] += 1


def test_nothing_that_was_acknowledged_is_lost_with_the_server(
    cassandra_servers: Service, cassandra_crawl: CassandraSettings
) -> None:
    """Counts are what was acknowledged or more, never more than was tried; the writers go on by themselves."""
    shard = fresh_shard()
    host = f"h{shard}.example"

    async def under_fire(session: Session) -> Work:
        room, work = Room(session, shard), Work()
        books = room.books

        async def reject(_: int) -> None:
            await books.count_rejects([Reject(host=host, rule="scope", count=1, sample="")])

        async def accept(number: int) -> None:
            await books.parse.accept([output(0, number, fp=fingerprint(shard, number))], None)

        acts: dict[str, Callable[[int], Awaitable[object]]] = {
            "reject": reject,
            "accept": accept,
            "notice": lambda _: books.notify("failed", host, "tls", "s", DAY * 86_400_000_000),
            "request": lambda _: books.requests.count(DAY, 1),
            "urls": lambda _: books.count({host: 1}),
            "job": lambda number: books.jobs.put(job(0, number, fp=fingerprint(shard, -number))),
            "wait": lambda number: books.hosts.put_host(HostRow(host=host, wait_us=number)),
        }
        tasks = [asyncio.ensure_future(work.repeat(name, act, room)) for name, act in acts.items()]
        await room.clock.sleep(BEFORE_SECONDS)
        node = cassandra_servers.nodes[0]
        await asyncio.to_thread(cassandra_servers.restart, node)
        killed_at = Counter(work.done)
        await room.clock.sleep(AFTER_SECONDS)
        while not all(work.done[name] > killed_at[name] for name in acts):
            await room.clock.sleep(0.1)
        work.stopped = True
        await asyncio.gather(*tasks)
        return work

    async def look(session: Session) -> dict[str, int]:
        room = Room(session, shard, epoch=2)
        row = await room.books.hosts.host(host)
        assert row is not None
        outputs = [
            await room.books.parse.outputs(fingerprint(shard, number)) for number in range(1, work.tried["accept"] + 1)
        ]
        return {
            "reject": sum(one.count for one in await room.books.rejects.all()),
            "accept": sum(len(some) for some in outputs),
            "notice": sum(one.count for one in await room.books.notices.undelivered()),
            "request": await room.books.requests.of(DAY),
            "urls": row.urls,
            "job": len(await room.books.jobs.all()),
            "wait": row.wait_us,
        }

    work = with_session(cassandra_crawl, under_fire)
    found = with_session(cassandra_crawl, look)
    assert all(work.done[name] > 0 for name in found)
    lost = {name: (work.done[name], count) for name, count in found.items() if count < work.done[name]}
    assert lost == {}
    assert {name: count for name, count in found.items() if count > work.tried[name]} == {}

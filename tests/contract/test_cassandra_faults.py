"""Cassandra behind a network that loses answers, and Cassandra that dies: what the store makes of it."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from contract.cassandras import empty, keyspace
from contract.stores import A, StillClock, candidate, claim_one, claimed, fetched, fp, outcome, retried
from limpet.clock import SystemClock
from limpet.model.errors import Definite, Indefinite
from limpet.model.lifecycle import State
from limpet.testing.chance import SeededRandom
from limpet.urlstore import Claim, Completion
from limpet.urlstore.cassandra import CassandraSettings, CassandraUrlStore, Session
from servers import Folder, Proxy, Service, service

pytestmark = pytest.mark.servers


class LostReply:
    """Loses the first piece of a reply after a conditional write was sent, and with `cuts` the connection too."""

    def __init__(self, session: Session, name: str, *, cuts: bool) -> None:
        self._session, self._name, self._cuts = session, name, cuts
        self._before = session.tally().conditional.get(name, 0)
        self.lost = False

    def __call__(self, piece: bytes) -> tuple[bytes, bool]:
        if self.lost or self._session.tally().conditional.get(self._name, 0) == self._before:
            return piece, True
        self.lost = True
        return b"", not self._cuts


class Net(NamedTuple):
    """A store whose answers come through a proxy."""

    session: Session
    store: CassandraUrlStore
    proxy: Proxy
    cuts: bool

    async def losing(self, name: str, work: Awaitable[object]) -> object:
        """What `work` says although the answer to its write `name` is lost."""
        fault = LostReply(self.session, name, cuts=self.cuts)
        self.proxy.replies = fault
        answer = await work
        assert fault.lost, f"{name} was not sent"
        await self.healed()
        return answer

    async def healed(self) -> None:
        """Wait until the driver has its connections back: what a scenario goes on with is not what it is about."""
        for _ in range(40 if self.cuts else 0):
            await SystemClock().sleep(0.25)
            with contextlib.suppress(Definite):
                await self.session.one("url_get", fp=fp(1))
                return

    async def state(self, number: int = 1) -> State:
        """The state of a row."""
        row = await self.store.row(fp(number))
        assert row is not None
        return row.state


async def _claim(net: Net) -> None:
    claims: Any = await net.losing("url_claim", claimed(net.store, 10))
    (claim,) = claims
    row = await net.store.row(fp(1))
    assert row is not None
    assert (row.state, row.token) == (State.LEASED, claim.token)


async def _renew(net: Net) -> None:
    claim = await claim_one(net.store, 10)
    assert await net.losing("url_renew", net.store.renew([claim], 20, 9_000)) == [True]
    assert await net.store.complete(fetched(claim, 8_000)) is True


async def _hand_back(net: Net) -> None:
    claim = await claim_one(net.store, 10)
    await net.losing("url_hand_back", net.store.hand_back([claim], 0, 20))
    assert (await claim_one(net.store, 30)).token != claim.token


async def _complete(net: Net) -> None:
    claim = await claim_one(net.store, 10)
    assert await net.losing("url_complete", net.store.complete(fetched(claim, 20))) is True
    assert [one.fetched_us for one in await net.store.outcomes(fp(1))] == [20]
    assert await net.store.complete(fetched(claim, 20)) is False


async def _complete_late(net: Net) -> None:
    old = await claim_one(net.store, 10)
    await net.store.expire(20, dead=True, poison_after=5)
    new = await claim_one(net.store, 30)
    assert await net.losing("url_complete", net.store.complete(fetched(old, 40))) is False
    assert await net.store.outcomes(fp(1)) == []
    assert await net.store.complete(fetched(new, 41)) is True


async def _retry(net: Net) -> None:
    claim = await claim_one(net.store, 10)
    assert await net.losing("url_complete", net.store.complete(retried(claim, 20, due_us=30))) is True
    assert (await claim_one(net.store, 30)).failures == 1


async def _end(net: Net) -> None:
    claim = await claim_one(net.store, 10)
    denied = Completion(claim=claim, state=State.DENIED, now_us=20, reason="robots")
    assert await net.losing("url_end", net.store.complete(denied)) is True
    assert await net.state() is State.DENIED


async def _interrupt(net: Net) -> None:
    await claim_one(net.store, 10)
    ended: Any = await net.losing("url_interrupt", net.store.expire(20, dead=True, poison_after=5))
    assert [(row.fp, state) for row, state in ended] == [(fp(1), State.DUE)]
    assert (await claim_one(net.store, 30)).interruptions == 1


async def _adopt(net: Net) -> None:
    claim = await claim_one(net.store, 10)
    adopting = net.store.adopt(outcome(claim, 15), State.FETCHED, "", 30)
    assert await net.losing("url_adopt", adopting) is True
    assert await net.state() is State.FETCHED


async def _join(net: Net) -> None:
    claim = await claim_one(net.store, 10)
    await net.store.complete(fetched(claim, 20))
    adopting = net.store.adopt(outcome(claim, 15), State.FETCHED, "", 30)
    assert await net.losing("outcome_insert", adopting) is True
    assert [one.fetched_us for one in await net.store.outcomes(fp(1))] == [15, 20]


async def _rearm(net: Net) -> None:
    claim = await claim_one(net.store, 10)
    await net.store.complete(Completion(claim=claim, state=State.FAILED, now_us=20, reason="tls"))
    assert await net.losing("url_move", net.store.rearm([fp(1)], 50)) == 1
    assert (await claim_one(net.store, 50)).fp == fp(1)


async def _reenter(net: Net) -> None:
    row = await net.session.one("url_get", fp=fp(1))
    assert row is not None
    assert await net.losing("url_reenter", net.store.core.moves.reenter(row)) is True
    assert (await claim_one(net.store, 50)).fp == fp(1)


WRITES = [
    _claim,
    _renew,
    _hand_back,
    _complete,
    _complete_late,
    _retry,
    _end,
    _interrupt,
    _adopt,
    _join,
    _rearm,
    _reenter,
]


@pytest.mark.parametrize("cuts", [False, True], ids=["silence", "cut"])
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__.strip("_"))
def test_a_guarded_write_whose_answer_is_lost_ends_in_the_right_verdict(
    cassandra_crawl: CassandraSettings, write: Callable[[Net], Awaitable[None]], cuts: bool
) -> None:
    """The server has done it and nobody heard of it: the row is read, and its stamp tells."""

    async def main() -> None:
        async with Proxy(cassandra_crawl.contact_points[0], cassandra_crawl.port) as proxy:
            settings = msgspec.structs.replace(
                cassandra_crawl, contact_points=("127.0.0.1",), port=proxy.port, request_seconds_max=1.5
            )
            session = await Session.open(settings)
            try:
                store = CassandraUrlStore(session, 7, clock=StillClock(), random=SeededRandom(1), epoch=1)
                await store.admit([candidate(1)], now_us=1)
                await write(Net(session, store, proxy, cuts))
            finally:
                await session.close()

    empty(cassandra_crawl)
    asyncio.run(main())


def test_two_owners_at_once_never_accept_the_same_claim_twice(cassandra_crawl: CassandraSettings) -> None:
    """A stale owner goes on beside the new one, who ends its leases: each URL is accepted once, and none is left."""
    urls = 120
    accepted: list[bytes] = []

    async def owner(store: CassandraUrlStore, *, ends_leases: bool) -> None:
        clock = SystemClock()
        while len(accepted) < urls:
            now_us = clock.wall_us()
            claims = await claimed(store, now_us, 7, A, now_us + 60_000_000)
            if ends_leases:
                await store.core.leases.scan(now_us)
                await store.expire(clock.wall_us(), dead=True, poison_after=10**6)
            for number, claim in enumerate(claims):
                if number == 3:
                    await store.hand_back([claim], 0, clock.wall_us())
                elif await store.complete(fetched(claim, clock.wall_us())):
                    accepted.append(claim.fp)

    async def main() -> None:
        session = await Session.open(cassandra_crawl)
        stale, fresh = (
            CassandraUrlStore(session, 7, clock=SystemClock(), random=SeededRandom(epoch), epoch=epoch)
            for epoch in (1, 2)
        )
        await stale.admit([candidate(number) for number in range(urls)], SystemClock().wall_us())
        async with asyncio.timeout(120):
            await asyncio.gather(owner(stale, ends_leases=False), owner(fresh, ends_leases=True))
        assert len(accepted) == len(set(accepted)) == urls
        assert {row.state for row in await fresh.rows()} == {State.FETCHED}
        assert len(await fresh.all_outcomes()) == urls
        await session.close()

    empty(cassandra_crawl)
    asyncio.run(main())


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Service]:
    """A server of its own, which a test may kill."""
    found = service("cassandra", Folder.at(tmp_path), tied=False)
    try:
        found.up()
        yield found
    finally:
        found.down()


class Acknowledged:
    """What a worker was told that it is durable."""

    def __init__(self) -> None:
        self.admitted: set[int] = set()
        self.fetched: set[int] = set()
        self.claimed: dict[bytes, Claim] = {}
        self.failures = 0


async def _work(store: CassandraUrlStore, known: Acknowledged, first: int, dead: asyncio.Event) -> None:
    """Admit and fetch, batch after batch, until the server answers no more."""
    for number in range(first, first + 100_000, 10):
        authority = f"https://{first}.example"
        batch = range(number, number + 10)
        try:
            now_us = SystemClock().wall_us()
            await store.admit([candidate(one, authority) for one in batch], now_us)
            known.admitted |= set(batch)
            claims = await claimed(store, SystemClock().wall_us(), 5, authority, now_us + 600_000_000)
            known.claimed |= {claim.fp: claim for claim in claims}
            for claim in claims[:4]:
                if await store.complete(fetched(claim, SystemClock().wall_us())):
                    known.fetched.add(int.from_bytes(claim.fp[:4], "big"))
        except (Definite, Indefinite):
            known.failures += 1
            if dead.is_set():
                return


def test_nothing_acknowledged_is_lost_when_the_server_is_killed(mortal: Service) -> None:
    """Kill -9 in the middle of admissions, claims and completions; after a restart the index serves what was left."""
    settings = msgspec.structs.replace(keyspace(mortal), request_seconds_max=3.0)
    known = Acknowledged()

    async def until_killed() -> None:
        session = await Session.open(settings)
        store = CassandraUrlStore(session, 7, clock=SystemClock(), random=SeededRandom(1), epoch=1)
        dead = asyncio.Event()
        workers = [asyncio.ensure_future(_work(store, known, first, dead)) for first in range(0, 400_000, 100_000)]
        while len(known.fetched) < 150:
            await SystemClock().sleep(0.1)
        dead.set()
        await asyncio.to_thread(mortal.nodes[0].kill)
        await asyncio.gather(*workers)
        await session.close()

    async def after_restart() -> None:
        session = await Session.open(settings)
        store = CassandraUrlStore(session, 7, clock=SystemClock(), random=SeededRandom(2), epoch=2)
        rows = {row.fp: row for row in await store.rows()}
        assert {fp(number) for number in known.admitted} <= rows.keys()
        assert all(rows[fp(number)].state is State.FETCHED for number in known.fetched)
        assert {one.fp for one in await store.all_outcomes()} >= {fp(number) for number in known.fetched}
        for row in rows.values():
            assert (row.state is State.FETCHED) == bool(await store.outcomes(row.fp))
        await store.woken()
        await store.expire(SystemClock().wall_us(), dead=True, poison_after=5)
        waiting = {row.fp for row in await store.rows(State.DUE)}
        met = set()
        for authority in {row.authority for row in rows.values()}:
            async for entries in store.core.index.entries(authority):
                met |= {entry.fp for entry in entries}
        assert waiting <= met
        assert not await store.rows(State.LEASED)
        await session.close()

    asyncio.run(until_killed())
    assert known.failures
    mortal.restart(mortal.nodes[0])
    asyncio.run(after_restart())

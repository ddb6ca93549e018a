"""Shards go from node to node under load: no URL is lost, no host is asked by two, and everybody keeps its gap."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from crash.handover import GAP_SECONDS, HOSTS, PAGES, SETTLE_SECONDS, SHARDS, FarStore, Node, Town, rehearse
from limpet.model.errors import Definite, Indefinite
from limpet.model.lifecycle import State
from limpet.politeness.unfinished import UNFINISHED
from limpet.testing.chance import SeededRandom
from limpet.testing.loop import EPOCH_US, SimClock
from limpet.urlstore import AuthorityRow, HostRow, Queue, UrlStore

MOVES = 8
FAILING_SHARE = 0.1


async def until_fetched(town: Town, shards: int = SHARDS, seconds_max: float = 300.0) -> None:
    """Wait until every row of the first `shards` shards is fetched."""
    begun = town.clock.monotonic()
    while town.clock.monotonic() < begun + seconds_max:
        rows = [row for number in range(shards) for row in await town.shards[number].store.rows()]
        if {row.state for row in rows} == {State.FETCHED}:
            return
        await town.clock.sleep(1.0)
    raise AssertionError(Counter((row.host, row.state) for row in rows if row.state is not State.FETCHED))


async def holders(town: Town) -> Counter[str]:
    """How many pages each node fetched, by the segments they lie in."""
    found: Counter[str] = Counter()
    for shard in town.shards.values():
        for outcome in await shard.store.all_outcomes():
            assert outcome.location is not None
            found[outcome.location.segment.partition(".")[0].rpartition("-")[2]] += 1
    return found


@pytest.mark.parametrize("far_seconds", [0.0, 0.02, 0.4])
def test_shards_move_between_two_nodes_under_load(tmp_path: Path, far_seconds: float) -> None:
    """Whatever is under way ends before the shard goes; the next owner waits one gap, and fetches nothing twice."""
    taken: list[tuple[int, float]] = []

    async def story(town: Town) -> None:
        nodes = [Node(town, name, lambda _shard: True) for name in ("one", "two")]
        for node in nodes:
            await node.start()
        at = dict.fromkeys(range(SHARDS), nodes[0])

        async def take(node: Node, shard: int) -> None:
            taken.append((shard, town.clock.monotonic()))
            await node.at_work.take(shard, town.far(shard, far_seconds), town.shards[shard].producer)

        for shard, node in at.items():
            await take(node, shard)
        for move in range(MOVES):
            await town.clock.sleep(3.7 + 0.31 * move)
            shard = move % SHARDS
            await at[shard].at_work.release(shard)
            assert await town.shards[shard].store.leased_hosts() == []
            at[shard] = nodes[1] if at[shard] is nodes[0] else nodes[0]
            await take(at[shard], shard)
        await until_fetched(town)
        for node in nodes:
            await node.stop()
        found = await holders(town)
        assert found.total() == len(HOSTS) * PAGES
        assert min(found.values()) > PAGES
        assert len(found) == 2

    town = rehearse(tmp_path, story)
    assert set(Counter(visit.url for visit in town.web.log).values()) == {1}, "robots.txt included"
    for shard, at in taken:
        assert town.visits(shard, at, at + GAP_SECONDS) == []
        assert at == taken[-1][1] or town.visits(shard, at + GAP_SECONDS)


def test_what_is_another_nodes_is_not_asked_any_more(tmp_path: Path) -> None:
    """From the instant at which a shard is lost there is no send; what the loser still held waits for its leases' end,
    and its hosts wait two gaps, at least ten seconds, after the take: nobody told what they answered.
    """

    async def story(town: Town) -> None:
        owner = {0: "one"}
        one = Node(town, "one", lambda shard: owner.get(shard) == "one")
        two = Node(town, "two", lambda shard: owner.get(shard) == "two")
        for node in (one, two):
            await node.start()
        shard, store = town.shards[0], town.shards[0].store
        await one.at_work.take(0, town.far(0), shard.producer)
        await town.clock.sleep(10.0)
        while all(visit.end_us is not None for visit in town.web.log):
            await town.clock.sleep(0.1)
        owner[0], lost = "two", town.clock.monotonic()
        await town.clock.sleep(SETTLE_SECONDS)
        leased = set(await store.leased_hosts())
        assert leased
        await one.at_work.release(0)
        assert set(await store.leased_hosts()) == leased, "no write says what becomes of them"
        taken = town.clock.monotonic()
        await two.at_work.take(0, town.far(0), shard.producer)
        for host in leased:
            row = await store.host(host)
            assert row is not None
            assert row.wait_reason == UNFINISHED, "whoever comes next has to know of it too"
            assert row.wait_us >= (taken + 10.0) * 1e6 + EPOCH_US
        for ended, _ in await store.expire(town.clock.wall_us(), dead=True, poison_after=5):
            two.at_work.offer(ended.host, ended.authority, town.clock.wall_us())
        await until_fetched(town, 1)
        for node in (one, two):
            await node.stop()
        assert town.visits(0, lost, taken + GAP_SECONDS) == []
        early = {visit.host for visit in town.visits(0, taken, taken + 10.0)}
        assert not early & leased
        assert {visit.host for visit in town.visits(0, taken + 10.0)} >= leased

    town = rehearse(tmp_path, story)
    assert set(Counter(visit.url for visit in town.visits(0)).values()) == {1}


class SlowToTell(FarStore):
    """Takes long to say which hosts have a lease, and for nothing else."""

    def __init__(self, inner: UrlStore, clock: SimClock, seconds: float) -> None:
        super().__init__(inner, clock, 0.0)
        self._telling_seconds = seconds

    async def leased_authorities(self) -> list[AuthorityRow]:
        """See `UrlStore.leased_authorities`."""
        await self._clock.sleep(self._telling_seconds)
        return await self._inner.leased_authorities()


@pytest.mark.parametrize(("telling_seconds", "first_seconds"), [(0.0, 1.0), (4.0, 4.0), (40.0, 10.0)])
def test_nobody_waits_for_the_whole_shard_to_be_looked_at(
    tmp_path: Path, telling_seconds: float, first_seconds: float
) -> None:
    """Until leases are known, every host waits as if it had one; then one gap is enough."""

    async def story(town: Town) -> None:
        node = Node(town, "one", lambda _shard: True)
        await node.start()
        at, shard = town.clock.monotonic(), town.shards[0]
        store = cast("UrlStore", SlowToTell(shard.store, town.clock, telling_seconds))
        taking = asyncio.get_running_loop().create_task(node.at_work.take(0, store, shard.producer))
        await town.clock.sleep(60.0)
        await taking
        await node.stop()
        assert town.visits(0, at, at + first_seconds) == []
        assert town.visits(0, at + first_seconds, at + first_seconds + 0.5)

    rehearse(tmp_path, story)


class OutOfReach(FarStore):
    """Does not say which hosts have a lease while it is `down`."""

    down = True

    async def leased_authorities(self) -> list[AuthorityRow]:
        """See `UrlStore.leased_authorities`."""
        if self.down:
            raise Indefinite("no answer")
        return await self._inner.leased_authorities()


def test_a_shard_that_cannot_be_looked_at_is_not_held(tmp_path: Path) -> None:
    """The taker is told, asks nobody, and may try again."""

    async def story(town: Town) -> None:
        node = Node(town, "one", lambda _shard: True)
        await node.start()
        store, producer = OutOfReach(town.shards[0].store, town.clock, 0.02), town.shards[0].producer
        with pytest.raises(Indefinite):
            await node.at_work.take(0, cast("UrlStore", store), producer)
        await town.clock.sleep(60.0)
        assert town.web.log == []
        store.down = False
        await node.at_work.take(0, cast("UrlStore", store), producer)
        await until_fetched(town, 1)
        with pytest.raises(ValueError, match="held already"):
            await node.at_work.take(0, cast("UrlStore", store), producer)
        await node.at_work.release(0)
        await node.at_work.release(0)
        await node.stop()

    rehearse(tmp_path, story)


def test_a_wait_that_is_only_in_the_row_is_obeyed(tmp_path: Path) -> None:
    """A host whose row was not read yet has no wait that anybody knows of, and is not asked on that ground."""

    async def story(town: Town) -> None:
        until_us = town.clock.wall_us() + 60_000_000
        for host in HOSTS:
            row = HostRow(host=host, wait_us=until_us, wait_reason="http_429")
            await town.shards[town.shard_of(host)].store.put_host(row)
        node = Node(town, "one", lambda _shard: True)
        await node.start()
        for shard in range(SHARDS):
            await node.at_work.take(shard, town.far(shard, 0.4), town.shards[shard].producer)
        await until_fetched(town)
        await node.stop()
        assert min(visit.start_us for visit in town.web.log) >= until_us

    rehearse(tmp_path, story)


def test_what_is_offered_while_the_store_is_asked_is_not_forgotten(tmp_path: Path) -> None:
    """The answer to "what is due next" may be older than what was offered meanwhile."""

    async def story(town: Town) -> None:
        node = Node(town, "one", lambda _shard: True)
        await node.start()
        for shard in range(SHARDS):
            await node.at_work.take(shard, town.far(shard, 0.4), town.shards[shard].producer)
        await until_fetched(town)
        for n in range(20):
            await town.clock.sleep(10.0)
            await _found(town, node, HOSTS[3], f"a{n}")
            await town.clock.sleep(n * 0.05)
            await _found(town, node, HOSTS[3], f"b{n}")
            await until_fetched(town, seconds_max=20.0)
        await node.stop()

    rehearse(tmp_path, story)


async def _found(town: Town, node: Node, host: str, name: str) -> None:
    """A link was discovered, as admission in the same process tells it."""
    candidate = town.candidate(f"http://{host}/{name}")
    await town.shards[town.shard_of(host)].store.admit([candidate], town.clock.wall_us())
    node.at_work.offer(host, candidate.authority, candidate.due_us)


class Telling(FarStore):
    """Tells its owner what others put into it."""

    def __init__(self, inner: UrlStore, clock: SimClock, seconds: float) -> None:
        super().__init__(inner, clock, seconds)
        self.news: list[Queue] = []
        self.deaf = 0

    async def woken(self) -> list[Queue]:
        """See `UrlStore.woken`."""
        if self.deaf:
            self.deaf -= 1
            raise Indefinite("no answer")
        told, self.news = self.news, []
        return told


def test_what_others_admit_is_heard_of(tmp_path: Path) -> None:
    """Within a second or two, whatever one question comes to."""

    async def story(town: Town) -> None:
        node = Node(town, "one", lambda _shard: True)
        await node.start()
        shard = town.shards[0]
        store = Telling(shard.store, town.clock, 0.02)
        await node.at_work.take(0, cast("UrlStore", store), shard.producer)
        await until_fetched(town, 1)
        host = next(host for host in HOSTS if town.shard_of(host) == 0)
        candidate = town.candidate(f"http://{host}/late")
        await shard.store.admit([candidate], town.clock.wall_us())
        await town.clock.sleep(30.0)
        assert not [visit for visit in town.web.log if visit.url == candidate.url]
        store.deaf = 2
        store.news.append(Queue(authority=candidate.authority, host=host, due_us=candidate.due_us))
        await until_fetched(town, 1, seconds_max=6.0)
        await node.stop()

    rehearse(tmp_path, story)


class Unsteady(FarStore):
    """Fails now and then, before or after it did what was asked."""

    def __init__(self, inner: UrlStore, clock: SimClock, seconds: float, chance: SeededRandom) -> None:
        super().__init__(inner, clock, seconds)
        self._chance = chance
        self.failed = 0

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = super().__getattr__(name)

        async def unsteady(*args: Any, **options: Any) -> Any:
            luck = self._chance.fraction()
            if luck < FAILING_SHARE:
                self.failed += 1
                raise Definite("not now")
            result = await method(*args, **options)
            if luck > 1 - FAILING_SHARE:
                self.failed += 1
                raise Indefinite("no answer")
            return result

        return unsteady


@pytest.mark.parametrize("seed", range(5))
def test_a_store_that_fails_now_and_then_costs_time_and_no_requests(tmp_path: Path, seed: int) -> None:
    """What the web has answered is kept until it is stored; what was claimed in vain is due again after its lease."""

    async def story(town: Town) -> None:
        node = Node(town, "one", lambda _shard: True)
        await node.start()
        shard = town.shards[0]
        store = Unsteady(shard.store, town.clock, 0.02, SeededRandom(seed))
        for _ in range(100):
            with contextlib.suppress(Definite, Indefinite):
                await node.at_work.take(0, cast("UrlStore", store), shard.producer)
                break
        reconciling = asyncio.get_running_loop().create_task(_reconcile(town, node))
        await until_fetched(town, 1, seconds_max=20_000.0)
        reconciling.cancel()
        assert store.failed > PAGES
        await node.stop()

    town = rehearse(tmp_path, story)
    pages = Counter(visit.url for visit in town.web.log if "robots" not in visit.url)
    assert set(pages.values()) == {1}


async def _reconcile(town: Town, node: Node) -> None:
    """Leases that ran out make their URLs due again."""
    while True:
        await town.clock.sleep(10.0)
        for ended, _ in await town.shards[0].store.expire(town.clock.wall_us(), dead=False, poison_after=50):
            node.at_work.offer(ended.host, ended.authority, town.clock.wall_us())

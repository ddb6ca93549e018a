"""A rehearsal of ceilings that span nodes: nodes with clocks and links of their own, and whatever befalls them.

Each node has what a crawl node has, down to the exchange: presence, ownership, leased shares, governor, scheduler.
Hosts have endless work while they are `wanted`. What was sent is told to `sends`, in true time.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from limpet.assembly.tasks import hand_on
from limpet.clock import DurableClock
from limpet.config.settings import Politeness
from limpet.crawlnode.scheduler import HostQueues, Scheduler
from limpet.membership import Lease, Loss, Ownership, Previous, Timing
from limpet.membership.presence import nap
from limpet.politeness import Governor, Permit
from limpet.politeness.leasedshares import LeasedShares
from limpet.politeness.sharetable import Drawn, ShareTable, Turn
from limpet.testing.loop import VirtualLoop
from limpet.testing.memory_leases import MemoryLeaseTable
from limpet.testing.memory_shares import MemoryShareTable
from limpet.urlstore.types import HostRow
from sim.memberworld import Link, NodeClock, RulesPresence
from sim.sharecheck import DAY_US, SECOND, Law, Send
from sim.wire import Wire

SHARDS: Final = 6
DOMAINS_A_SHARD: Final = 3
FLOOR_SECONDS: Final = 0.3
CROWD: Final = "203.0.113.1"
MIDNIGHT_US: Final = 1_800_000_000 // 86_400 * 86_400 * SECOND
LOOK_SECONDS: Final = 0.5
SHORT_SECONDS: Final = (0.05, 0.3, 1.0)
FAULTS: Final = ("stop", "cut", "outage", "storm", "kill", "leave", "wall", "rebalance", "whims")
SHORT: Final = Timing(lease_seconds=6, margin_seconds=0.2, fetch_seconds_max=8, poll_seconds=0.5, orphan_seconds=6)


@dataclass(frozen=True)
class Site:
    """A host. A request goes to the first of its addresses that answers, which is told by chance."""

    host: str
    domain: str
    platform: str
    addresses: tuple[str, ...]
    shard: int


def make_sites() -> list[Site]:
    """Each shard has hosts at addresses and on a platform where every other shard has some, too."""
    two, three = "203.0.113.2", "203.0.113.3"
    sites = []
    for shard in range(SHARDS):
        for part in range(DOMAINS_A_SHARD):
            plain, tenant, own = f"d{shard}{part}.example", f"u{shard}{part}.github.io", f"203.0.113.{10 + shard}"
            sites += [
                Site(f"a.{plain}", plain, "", (CROWD,), shard),
                Site(f"b.{plain}", plain, "", (CROWD, two), shard),
                Site(f"c.{plain}", plain, "", (two, three), shard),
                Site(tenant, tenant, "github.io", (three,), shard),
                Site(f"www.{tenant}", tenant, "github.io", (own,), shard),
                Site(f"m.{tenant}", tenant, "github.io", (own, CROWD), shard),
            ]
    return sites


class ShareClock(NodeClock):
    """A node's clocks; its wall begins at `wall_us` and keeps the machine's rate."""

    def __init__(self, loop: VirtualLoop, rate: float, offset_us: int, wall_us: int) -> None:
        super().__init__(loop, rate, offset_us)
        self.rate = rate
        self._wall_offset_us = wall_us - self.boot_us()

    def wall_us(self) -> int:
        return self.boot_us() + self._wall_offset_us + self._wall_moved_us


class ShareLink(Wire):
    """`ShareTable` over a network."""

    def __init__(self, table: ShareTable, clock: NodeClock, rng: Random, trouble: float, slow_seconds: float) -> None:
        super().__init__(clock, rng, trouble, slow_seconds)
        self._table = table

    async def turn(self, key: str) -> Turn:
        return await self.call(lambda: self._table.turn(key))

    async def set_turn(self, key: str, new: Turn) -> bool:
        return await self.call(lambda: self._table.set_turn(key, new))

    async def drawn(self, day: int) -> Drawn:
        return await self.call(lambda: self._table.drawn(day))

    async def set_drawn(self, day: int, new: Drawn) -> bool:
        return await self.call(lambda: self._table.set_drawn(day, new))

    async def told(self, key: str) -> dict[str, int]:
        return await self.call(lambda: self._table.told(key))

    async def tell(self, key: str, host: str, until_us: int, seconds: float) -> None:
        await self.call(lambda: self._table.tell(key, host, until_us, seconds))

    async def notify(self, incarnation: str, key: str, mark: str) -> None:
        await self.call(lambda: self._table.notify(incarnation, key, mark))

    async def notices(self, incarnation: str) -> dict[str, str]:
        return await self.call(lambda: self._table.notices(incarnation))


@dataclass(frozen=True)
class Rules:
    """How nodes are built, a mutant with one wrong part, and what may befall them.

    `rate_error`: how far clocks run from true time. `spent`: of a day's budget, before the rehearsal. `troubles`: of
    the calls to tables, one for each seed in turn.
    """

    timing: Timing = SHORT
    lease: type[Lease] = Lease
    shares: type[LeasedShares] = LeasedShares
    table: Callable[[], MemoryShareTable] = MemoryShareTable
    turn_seconds: float = 2.0
    rate_error: float = 0.01
    budget: int = 0
    spent: int = 0
    faults: tuple[str, ...] = FAULTS
    troubles: tuple[float, ...] = (0.0, 0.05, 0.2)


class Node:
    """One process, which lives until it is killed or told to stop: one life after the other, as leases are lost."""

    def __init__(self, world: "World", name: str) -> None:
        self.name = name
        self.world = world
        rng, rules = world.rng, world.rules
        rate = 1 + rng.choice((-1, 0, 1)) * rules.rate_error
        skew_us = rng.randrange(-SECOND // 2, SECOND // 2)
        self.machine = ShareClock(world.loop, rate, rng.randrange(10**9, 10**12), world.true_us() + skew_us)
        slow = rng.choice((0.002, 0.02, 0.5))
        self.leases = Link(world.leases, self.machine, rng, world.trouble, slow)
        self.shares = ShareLink(world.table, self.machine, rng, world.trouble, slow)
        self.hinted: frozenset[int] = frozenset()
        self.lives = 0
        self.life: Life | None = None
        self.stop = asyncio.Event()
        self.task = asyncio.ensure_future(self._run())

    def share(self) -> frozenset[int]:
        return self.hinted

    async def _run(self) -> None:
        while not self.stop.is_set():
            self.lives += 1
            self.life = Life(self)
            await self.life.run(self.stop)

    @property
    def incarnation(self) -> str:
        return "" if self.life is None else self.life.incarnation

    def set_cut(self, *, cut: bool) -> None:
        self.leases.cut = self.shares.cut = cut

    def set_trouble(self, trouble: float) -> None:
        self.leases.trouble = self.shares.trouble = trouble

    def kill(self) -> None:
        """As by kill -9: nothing is passed on, what was sent is answered to nobody."""
        self.task.cancel()
        if self.life is not None:
            self.life.kill()


class Life:
    """One incarnation: what `limpet.cluster.roles.crawlnode` puts together, over a site that answers by chance."""

    def __init__(self, node: Node) -> None:
        world, rules = node.world, node.world.rules
        self._node = node
        self._world = world
        self._clock = clock = DurableClock(node.machine)
        presence_type = type("PresenceOfRules", (RulesPresence,), {"lease_type": rules.lease})
        self._presence = presence_type(
            node.leases, clock, rules.timing, role="crawlnode", new_incarnation=world.new_incarnation
        )
        self._lease: Lease = self._presence.lease
        self.incarnation = self._lease.incarnation
        self.ownership = Ownership(
            node.leases,
            clock,
            rules.timing,
            shards=SHARDS,
            hint=node,
            presence=self._presence,
            on_take=self._take,
            on_lose=self._lose,
        )
        self.shares = rules.shares(
            node.shares,
            clock,
            lease=lambda: self._presence.lease,
            observer=self.ownership.observer,
            owned=lambda: len(self.ownership.shards()),
            shards=SHARDS,
            turn_seconds=rules.turn_seconds,
            unasked_budget_us=10 * SECOND,
        )
        policy = Politeness(floor_seconds=FLOOR_SECONDS, latency_multiple=0.0, budget_per_day=rules.budget)
        self.governor = Governor(clock, policy, lambda _: False, shares=self.shares)
        self._scheduler = Scheduler()
        self._serving: set[int] = set()
        self._under_way: dict[asyncio.Task[None], int] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._wake = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`, or until the lease is lost."""
        over, leave = asyncio.Event(), asyncio.Event()
        works = (self.shares.run(leave), self._serve(), hand_on(stop, over), self._watch_lease(over))
        self._tasks = [asyncio.ensure_future(work) for work in works]
        try:
            await self.ownership.run(over)
        finally:
            leave.set()
            for task in self._tasks:
                task.cancel()

    def kill(self) -> None:
        for task in (*self._tasks, *self._under_way):
            task.cancel()

    async def _watch_lease(self, over: asyncio.Event) -> None:
        while not self._lease.gone():
            await self._clock.sleep(LOOK_SECONDS)
        over.set()

    # -- shards ------------------------------------------------------------------------------------------------------
    async def _take(self, shard: int, epoch: int, previous: Previous) -> None:
        self._world.takes[previous] += 1
        assert epoch > 0
        for site in self._world.sites_of(shard):
            row = self._world.rows.get(site.host) or HostRow(host=site.host)
            self.governor.meet(row, self._clock.monotonic(), unsure=previous is Previous.DEAD)
        self._serving.add(shard)

    async def _lose(self, shard: int, why: Loss) -> None:
        self._world.losses[why] += 1
        self._serving.discard(shard)
        while under_way := [task for task, of in self._under_way.items() if of == shard]:
            await asyncio.wait(under_way)
        for site in self._world.sites_of(shard):
            entry = self._scheduler.get(site.host)
            if entry is not None:
                self._scheduler.drop(entry)
            self.governor.forget(site.host)

    # -- sending -----------------------------------------------------------------------------------------------------
    async def _serve(self) -> None:
        while True:
            self._offer()
            now = self._clock.monotonic()
            for host in self.governor.call():
                entry = self._scheduler.get(host)
                if entry is not None and not entry.visiting:
                    self._scheduler.schedule(entry, now)
                elif (state := self.governor.known(host)) is not None:
                    self.governor.leave_line(state)
            while (entry := self._scheduler.pop(self._clock.monotonic())) is not None:
                self._visit(entry)
            next_at, call_in = self._scheduler.next_at(), self.governor.next_call_in()
            seconds = [0.25] if next_at is None else [0.25, next_at - self._clock.monotonic()]
            seconds += [] if call_in is None else [call_in]
            self._wake.clear()
            await nap(self._clock, max(0.001, min(seconds)), self._wake)

    def _offer(self) -> None:
        for shard in self._serving:
            for site in self._world.sites_of(shard):
                if site.host in self._world.wanted and self._scheduler.get(site.host) is None:
                    entry = self._scheduler.offer(site.host, shard, site.host, 0)
                    self._scheduler.schedule(entry, self._clock.monotonic())

    def _visit(self, entry: HostQueues) -> None:
        state = self.governor.known(entry.host)
        assert state is not None, "known while its shard is served"
        if entry.host not in self._world.wanted:
            self.governor.leave_line(state)
            self._scheduler.drop(entry)
            return
        if not (entry.shard in self._serving and self.ownership.alive(entry.shard) and self._clock.agrees()):
            self.governor.leave_line(state)
            self._scheduler.schedule(entry, self._clock.monotonic() + LOOK_SECONDS)
            return
        site = self._world.sites[entry.host]
        if self.governor.needs_locating(state):
            self.governor.located(state, site.addresses)
        permit = self.governor.permit(state)
        if permit is None:
            self._reschedule(entry)
            return
        entry.visiting = True
        seconds = self._world.seconds_of_exchange()
        self._world.sent(self._node, site, seconds / self._node.machine.rate)
        task = asyncio.ensure_future(self._exchange(entry, permit, seconds))
        self._under_way[task] = entry.shard
        task.add_done_callback(lambda done: self._under_way.pop(done, None))

    async def _exchange(self, entry: HostQueues, permit: Permit, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self.governor.end(permit, int(seconds * 1e6))
        row = self.governor.unsaved(permit.state)
        if row is not None and self.ownership.holds(entry.shard):
            self._world.rows[entry.host] = row
        entry.visiting = False
        self._reschedule(entry)
        self._wake.set()

    def _reschedule(self, entry: HostQueues) -> None:
        state = self.governor.known(entry.host)
        if state is not None and entry.shard in self._serving:
            later = max(0.0, self.governor.line_up(state))
            self._scheduler.schedule(entry, self._clock.monotonic() + later)


@dataclass
class World:
    """Nodes, tables, sites. It begins `midnight_in` seconds before a UTC midnight."""

    loop: VirtualLoop
    seed: int
    rules: Rules
    midnight_in: float = 3_600.0
    nodes: list[Node] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.trouble = self.rules.troubles[self.seed % len(self.rules.troubles)]
        self.leases, self.table = MemoryLeaseTable(), self.rules.table()
        self.sites = {site.host: site for site in make_sites()}
        self._by_shard = {n: [s for s in self.sites.values() if s.shard == n] for n in range(SHARDS)}
        self.wanted = set(self.sites)
        self.rows: dict[str, HostRow] = {}
        self.takes = dict.fromkeys(Previous, 0)
        self.losses = dict.fromkeys(Loss, 0)
        self.faults = dict.fromkeys(FAULTS, 0)
        self.long_fetches = 0.08
        self._names = 0

    def true_us(self) -> int:
        return MIDNIGHT_US + int((self.loop.time() - self.midnight_in) * 1e6)

    def law(self) -> Law:
        rules = self.rules
        floor_us = int(FLOOR_SECONDS * 1e6)
        return Law(floor_us, 1 + rules.rate_error, rules.budget, MIDNIGHT_US, rules.spent)

    async def spend(self) -> None:
        """Both days find a part of their budget drawn already."""
        for day in (MIDNIGHT_US // DAY_US - 1, MIDNIGHT_US // DAY_US):
            await self.table.set_drawn(day, Drawn(1, "before", self.rules.spent))

    def sites_of(self, shard: int) -> list[Site]:
        return self._by_shard[shard]

    def new_incarnation(self) -> str:
        self._names += 1
        return f"incarnation{self._names}"

    def seconds_of_exchange(self) -> float:
        longest = self.rules.timing.fetch_seconds_max
        return longest if self.rng.random() < self.long_fetches else self.rng.choice(SHORT_SECONDS)

    def sent(self, node: Node, site: Site, seconds: float) -> None:
        address, start_us = self.rng.choice(site.addresses), self.true_us()
        end_us = start_us + int(seconds * 1e6)
        self.sends.append(Send(node.name, site.host, site.domain, site.platform, address, start_us, end_us))

    # -- what befalls them -------------------------------------------------------------------------------------------
    def join(self) -> Node:
        node = Node(self, f"node{len(self.nodes)}")
        self.nodes.append(node)
        return node

    def living(self) -> list[Node]:
        return [node for node in self.nodes if not node.task.done()]

    async def wait(self, seconds: float) -> None:
        """Time passes; a fault of the program ends the rehearsal."""
        end = self.loop.time() + seconds
        while (left := end - self.loop.time()) > 0:
            for node in self.nodes:
                if node.task.done() and not node.task.cancelled():
                    node.task.result()
            await asyncio.sleep(min(1.0, left))  # noqa: TID251 - virtual time

    async def flicker(self) -> None:
        """Demand comes and goes, host by host, for ever."""
        while True:
            await asyncio.sleep(self.rng.random())  # noqa: TID251 - virtual time
            self.wanted ^= {self.rng.choice(list(self.sites)) for _ in range(8)}

    def spread(self, turn: int = 0, without: Node | None = None) -> None:
        """Hints as a group gives them out that has noticed that a node is away."""
        there = [node for node in self.living() if node is not without and not node.stop.is_set()]
        for place, node in enumerate(there):
            node.hinted = frozenset(range((place + turn) % len(there), SHARDS, len(there)))

    async def befall(self) -> None:
        """Something to some node, for some time."""
        lease = self.rules.timing.lease_seconds
        fault = self.rng.choice(self.rules.faults)
        self.faults[fault] += 1
        await getattr(self, f"_befall_{fault}")(self.rng.choice(self.living()), lease)
        if self.rng.random() < 0.5:
            self.spread()
        await self.wait(self.rng.random() * 2 * lease)

    async def _away(self, node: Node, seconds: float) -> None:
        if self.rng.random() < 0.7:
            self.spread(without=node)
        await self.wait(seconds)

    async def _befall_stop(self, node: Node, lease: float) -> None:
        """SIGSTOP, and SIGCONT later."""
        node.machine.running.clear()
        await self._away(node, self.rng.choice((0.5, lease, 3 * lease)))
        node.machine.running.set()

    async def _befall_cut(self, node: Node, lease: float) -> None:
        """The node alone reaches no table; renewals are late, or too late."""
        node.set_cut(cut=True)
        await self._away(node, self.rng.choice((lease / 2, lease * 0.99, lease * 1.5, 3 * lease)))
        node.set_cut(cut=False)

    async def _befall_outage(self, _node: Node, lease: float) -> None:
        """Nobody reaches a table."""
        for node in self.living():
            node.set_cut(cut=True)
        await self.wait(self.rng.choice((lease / 2, lease * 1.5)))
        for node in self.living():
            node.set_cut(cut=False)

    async def _befall_storm(self, _node: Node, lease: float) -> None:
        """Of every second call nobody knows what became of it."""
        for node in self.living():
            node.set_trouble(0.5)
        await self.wait(lease)
        for node in self.living():
            node.set_trouble(self.trouble)

    async def _befall_kill(self, node: Node, lease: float) -> None:
        node.kill()
        await self._away(node, self.rng.random() * 2 * lease)
        self.join()

    async def _befall_leave(self, node: Node, lease: float) -> None:
        """SIGTERM; another takes its place."""
        node.stop.set()
        self.spread(without=node)
        await self.wait(self.rng.random() * lease)
        self.join()

    async def _befall_wall(self, node: Node, lease: float) -> None:
        """A wall clock is set; who sees that sends nothing, until a person starts it anew."""
        node.machine.set_wall(self.rng.choice((-1, 1)) * self.rng.choice((7_200.0, 86_400.0)))
        await self.wait(self.rng.random() * lease)
        node.kill()
        self.join()

    async def _befall_rebalance(self, _node: Node, _lease: float) -> None:
        for turn in range(4):
            self.spread(turn)
            await self.wait(1.0 + self.rng.random())

    async def _befall_whims(self, _node: Node, lease: float) -> None:
        """Hints that are stale, overlap, or leave shards to nobody."""
        for hinted in self.living():
            hinted.hinted = frozenset(self.rng.sample(range(SHARDS), self.rng.randrange(SHARDS)))
        await self.wait(lease)

    def heal(self) -> None:
        """The end of all trouble."""
        self.trouble = 0.0
        for node in self.living():
            node.machine.running.set()
            node.set_cut(cut=False)
            node.set_trouble(0.0)
        self.spread()

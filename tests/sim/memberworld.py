"""A rehearsal of membership: nodes with clocks of their own, a table behind bad links, and a judge in real time.

The judge knows the instants at which things happen, which no node does. It looks for: two nodes that may send for a
shard at once, two requests of different nodes for a shard that overlap, and an epoch that was given out twice.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from limpet.membership import Beat, Lease, LeaseTable, Loss, Observer, Owner, Ownership, Presence, Previous, Timing
from limpet.testing.loop import EPOCH_US, VirtualLoop
from limpet.testing.memory_leases import MemoryLeaseTable
from sim.wire import Stoppable, Wire

SLOW_SECONDS = (0.01, 0.1, 1.9)
SHARDS = 4
ROLE = "crawlnode"


class NodeClock:
    """`Clock` of one machine, too fast or too slow; its wall can be set, and its process stopped."""

    def __init__(self, loop: VirtualLoop, rate: float, offset_us: int) -> None:
        self._loop = loop
        self._rate = rate
        self._offset_us = offset_us
        self._wall_moved_us = 0
        self.running = asyncio.Event()
        self.running.set()

    def wall_us(self) -> int:
        return EPOCH_US + self.boot_us() + self._wall_moved_us

    def monotonic(self) -> float:
        return self.boot_us() / 1e6

    def boot_us(self) -> int:
        return self._offset_us + int(self._loop.time() * self._rate * 1e6)

    def boot_id(self) -> str:
        return "rehearsal"

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._rate)  # noqa: TID251 - virtual time
        await self.running.wait()

    def set_wall(self, seconds: float) -> None:
        self._wall_moved_us += int(seconds * 1e6)


class WallClock(NodeClock):
    """The mistake of counting leases by the wall clock."""

    def boot_us(self) -> int:
        return NodeClock.boot_us(self) + self._wall_moved_us

    def wall_us(self) -> int:
        return EPOCH_US + self.boot_us()


class Link(Wire):
    """`LeaseTable` over a network."""

    def __init__(self, table: LeaseTable, clock: Stoppable, rng: Random, trouble: float, slow_seconds: float) -> None:
        super().__init__(clock, rng, trouble, slow_seconds)
        self._table = table

    async def beat(self, beat: Beat) -> None:
        await self.call(lambda: self._table.beat(beat))

    async def incarnations(self) -> list[Beat]:
        return await self.call(self._table.incarnations)

    async def forget(self, incarnation: str) -> None:
        await self.call(lambda: self._table.forget(incarnation))

    async def owner(self, shard: int) -> Owner:
        return await self.call(lambda: self._table.owner(shard))

    async def owners(self) -> dict[int, Owner]:
        return await self.call(self._table.owners)

    async def compare_and_set(self, shard: int, old: Owner, new: Owner) -> bool:
        return await self.call(lambda: self._table.compare_and_set(shard, old, new))


class Judge:
    """What must never happen, in real time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.anomalies: list[str] = []
        self.epochs: dict[int, int] = {}
        self.takes: list[tuple[float, int, Previous]] = []
        self._under_way: dict[int, list[tuple[str, float]]] = {shard: [] for shard in range(SHARDS)}

    def taken(self, shard: int, epoch: int, previous: Previous) -> None:
        if epoch <= self.epochs.get(shard, 0):
            self.anomalies.append(f"epoch {epoch} of shard {shard} given out again")
        self.epochs[shard] = epoch
        self.takes.append((self._loop.time(), shard, previous))

    def sends(self, node: str, shard: int, seconds: float) -> None:
        now = self._loop.time()
        running = [(who, ends) for who, ends in self._under_way[shard] if ends > now]
        if any(who != node for who, _ in running):
            self.anomalies.append(f"two nodes ask hosts of shard {shard} at once")
        self._under_way[shard] = [*running, (node, now + seconds)]

    def look(self, nodes: list["Node"]) -> None:
        for shard in range(SHARDS):
            alive = [node.name for node in nodes if node.ownership.alive(shard)]
            if len(alive) > 1:
                self.anomalies.append(f"{alive} may send for shard {shard} at {self._loop.time():.2f}")


@dataclass
class Rules:
    """How nodes are built; a mutant has one wrong part."""

    timing: Timing
    clock: type[NodeClock] = NodeClock
    lease: type[Lease] = Lease
    table: Callable[[], MemoryLeaseTable] = MemoryLeaseTable


class RulesPresence(Presence):
    """`Presence` with the leases of some rules."""

    lease_type: type[Lease] = Lease

    def new_lease(self, incarnation: str) -> Lease:
        return self.lease_type(incarnation, self._clock, self._timing.lease_us)


class Node:
    """One process: it owns shards and sends requests for them."""

    def __init__(self, world: "World", name: str) -> None:
        rng, rules = world.rng, world.rules
        self.name = name
        self._world = world
        self.hinted: frozenset[int] = frozenset()
        self.clock = rules.clock(world.loop, 1 + rng.choice((-0.01, 0.0, 0.01)), rng.randrange(10**9, 10**12))
        self.link = Link(world.table, self.clock, rng, world.trouble, rng.choice(SLOW_SECONDS))
        presence_type = type("PresenceOfRules", (RulesPresence,), {"lease_type": rules.lease})
        presence = presence_type(self.link, self.clock, rules.timing, role=ROLE, new_incarnation=world.new_incarnation)
        self.ownership = Ownership(
            self.link,
            self.clock,
            rules.timing,
            shards=SHARDS,
            hint=self,
            presence=presence,
            on_take=self._on_take,
            on_lose=self._on_lose,
            observer=Observer(self.link, self.clock, rules.timing),
        )
        self._senders: dict[int, asyncio.Task[None]] = {}
        self.stop = asyncio.Event()
        self.task = asyncio.ensure_future(self.ownership.run(self.stop))

    def share(self) -> frozenset[int]:
        return self.hinted

    async def _on_take(self, shard: int, epoch: int, previous: Previous) -> None:
        assert shard not in self._senders, "taken twice"
        self._world.judge.taken(shard, epoch, previous)
        self._senders[shard] = asyncio.ensure_future(self._send(shard))

    async def _on_lose(self, shard: int, why: Loss) -> None:
        assert not self.ownership.alive(shard)
        sender = self._senders.pop(shard)
        if why in {Loss.LAPSED, Loss.FENCED}:
            sender.cancel()
        await asyncio.wait({sender})

    async def _send(self, shard: int) -> None:
        """Requests one after the other; each takes as long as it may, on this machine's clock, stopped or not."""
        longest = self._world.rules.timing.fetch_seconds_max
        while self.ownership.alive(shard):
            seconds = longest * self._world.rng.choice((0.1, 1.0))
            self._world.judge.sends(self.name, shard, seconds / 1.01)
            await self.clock.sleep(seconds + 0.2)

    def kill(self) -> None:
        """As by kill -9: nothing is passed on."""
        self.task.cancel()
        for sender in self._senders.values():
            sender.cancel()


@dataclass
class World:
    """Nodes, and what befalls them, from a seed."""

    loop: VirtualLoop
    seed: int
    rules: Rules
    trouble: float = 0.1
    nodes: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.table = self.rules.table()
        self.judge = Judge(self.loop)
        self._names = 0

    def new_incarnation(self) -> str:
        self._names += 1
        return f"incarnation{self._names}"

    def join(self) -> Node:
        node = Node(self, f"node{len(self.nodes)}")
        self.nodes.append(node)
        return node

    def living(self) -> list[Node]:
        return [node for node in self.nodes if not node.task.done()]

    async def wait(self, seconds: float) -> None:
        """Time passes, and the judge looks on."""
        end = self.loop.time() + seconds
        while self.loop.time() < end:
            self.judge.look(self.living())
            for node in self.nodes:
                if node.task.done() and not node.task.cancelled():
                    node.task.result()
            await asyncio.sleep(0.1)  # noqa: TID251 - virtual time

    def spread(self, turn: int = 0, without: Node | None = None) -> None:
        """Hints as a group gives them out that has noticed that a node is away."""
        there = [node for node in self.living() if node is not without]
        for place, node in enumerate(there):
            node.hinted = frozenset(range((place + turn) % len(there), SHARDS, len(there)))

    async def befall(self, seconds: float) -> None:
        """Something to some node, for some time; as often as not the hints follow."""
        node = self.rng.choice(self.living())
        lease = self.rules.timing.lease_seconds
        match self.rng.randrange(8):
            case 0 | 1:
                node.clock.running.clear()
                await self._without(node, self.rng.choice((0.5, lease, 3 * lease)))
                node.clock.running.set()
            case 2 | 3:
                node.link.cut = True
                await self._without(node, self.rng.choice((lease / 2, lease * 1.5, 4 * lease)))
                node.link.cut = False
            case 4:
                node.kill()
                await self._without(node, self.rng.random() * 2 * lease)
                self.join()
            case 5:
                node.clock.set_wall(self.rng.choice((-1, 1)) * 5 * lease)
            case 6:
                for hinted in self.living():  # stale, overlapping, or none at all
                    hinted.hinted = frozenset(self.rng.sample(range(SHARDS), self.rng.randrange(SHARDS)))
            case _:
                for turn in range(8):
                    self.spread(turn)
                    await self.wait(1.0 + self.rng.random())
        if self.rng.random() < 0.5:
            self.spread()
        await self.wait(self.rng.random() * seconds)

    async def _without(self, node: Node, seconds: float) -> None:
        if self.rng.random() < 0.7:
            self.spread(without=node)
        await self.wait(seconds)

    async def heal(self) -> None:
        """The end of all trouble."""
        for node in self.living():
            node.clock.running.set()
            node.link.cut = False
            node.link.trouble, node.link.slow_seconds = 0.0, 0.01
        self.spread()

    def unowned(self) -> list[int]:
        living = self.living()
        return [shard for shard in range(SHARDS) if not any(node.ownership.alive(shard) for node in living)]

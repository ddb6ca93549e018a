"""Ceilings that span nodes under pauses, cuts, deaths, lost and late messages and clocks that differ, from seeds."""

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from limpet.membership import Lease, Timing
from limpet.model.errors import Definite, Indefinite
from limpet.politeness.dayportions import DayPortions
from limpet.politeness.leasedshares import STEP_SECONDS, TURN_SECONDS, LeasedShares
from limpet.politeness.sharetable import Drawn, Turn
from limpet.politeness.turns import AGAIN_US, Turns
from limpet.testing.loop import VirtualLoop, run_virtual
from limpet.testing.memory_shares import MemoryShareTable
from sim.sharecheck import violations
from sim.shareworld import CROWD, FAULTS, SHORT, Rules, World
from sim.wire import LATE_SECONDS_MAX

BUDGET = Rules(rate_error=1e-4, budget=288_000, spent=288_000 - 60)
BEFORE_MIDNIGHT_SECONDS = 45.0
TEND_SECONDS = AGAIN_US / 1e6 + 2 * STEP_SECONDS
"""Until who waits has looked again at a row by himself, and asks."""


async def _troubled(world: World, befalls: int) -> None:
    if world.rules.budget:
        await world.spend()
    flicker = asyncio.ensure_future(world.flicker())
    for _ in range(3):
        world.join()
    world.spread()
    await world.wait(world.rules.timing.lease_seconds)
    for _ in range(befalls):
        await world.befall()
    flicker.cancel()


def rehearsed(seed: int, rules: Rules, befalls: int = 8) -> World:
    """The world of a seed, after what befell it. With a budget it begins in the last minute of a day."""
    loop = VirtualLoop()
    midnight_in = BEFORE_MIDNIGHT_SECONDS if rules.budget else 3_600.0
    world = World(loop, seed, rules, midnight_in)
    run_virtual(_troubled(world, befalls), loop)
    return world


def impolite(seed: int, rules: Rules) -> list[str]:
    """What was broken in the world of a seed."""
    world = rehearsed(seed, rules)
    return violations(world.sends, world.law())


WORLDS = pytest.mark.parametrize("rules", [Rules(), BUDGET], ids=["ceilings", "budget"])


@WORLDS
def test_no_ceiling_is_broken(rules: Rules) -> None:
    """Whatever befalls the nodes; a world in which nothing befell them proves nothing."""
    world = rehearsed(1, rules, befalls=4)
    assert violations(world.sends, world.law()) == []
    assert len(world.sends) > 30
    assert len([fault for fault in FAULTS if world.faults[fault]]) >= 3


@pytest.mark.slow
@WORLDS
def test_many_seeds(rules: Rules) -> None:
    """As above. The figures are printed."""
    sends, seconds, faults, calls = 0, 0.0, Counter[str](), 0
    for seed in range(100, 220):
        world = rehearsed(seed, rules)
        assert violations(world.sends, world.law()) == [], seed
        sends, seconds = sends + len(world.sends), seconds + world.loop.time()
        faults.update(world.faults)
        calls += sum(node.shares.failed + node.leases.failed for node in world.nodes)
    print(f"{seconds / 3600:.1f} hours, {sends} sends, {calls} calls unanswered, {dict(faults)}")  # noqa: T201


# -- nothing is held for ever ------------------------------------------------------------------------------------------
def crowd_only(world: World) -> set[str]:
    """Hosts that share one address with hosts of every shard, and nothing else."""
    return {site.host for site in world.sites.values() if site.addresses == (CROWD,)}


def test_what_the_dead_held_comes_back_in_time() -> None:
    """The turn of a killed node is another's after lease, margin and longest fetch; not before, and hardly later."""
    loop = VirtualLoop()
    world = World(loop, 3, Rules(troubles=(0.0,)))

    async def main() -> float:
        world.wanted = crowd_only(world)
        world.join(), world.join()
        world.spread()
        await world.wait(10.0)
        holder = (await world.table.turn(f"address {CROWD}")).holder
        (dead,) = [node for node in world.nodes if node.incarnation == holder]
        dead.kill()
        killed_us = world.true_us()
        await world.wait(SHORT.takeover_seconds_max + TEND_SECONDS)
        return min((send.start_us - killed_us) / 1e6 for send in world.sends if send.start_us > killed_us)

    waited = run_virtual(main(), loop)
    assert (
        SHORT.takeover_us / 1e6 / 1.01 - SHORT.lease_seconds / 3 <= waited <= SHORT.takeover_seconds_max + TEND_SECONDS
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_every_share_is_used_again(seed: int) -> None:
    """When all is well again, every host that shares one contended thing is asked, whatever befell the nodes."""
    loop = VirtualLoop()
    world = World(loop, seed, Rules())

    async def main() -> set[str]:
        await _troubled(world, 5)
        world.heal()
        world.wanted = crowd_only(world)
        healed_us = world.true_us()
        await world.wait(LATE_SECONDS_MAX + SHORT.takeover_seconds_max + 60.0)
        return world.wanted - {send.host for send in world.sends if send.start_us > healed_us}

    assert run_virtual(main(), loop) == set()
    assert violations(world.sends, world.law()) == []


def sent_as_demand_moves(nodes: int, seed: int) -> int:
    """Requests to one address in a minute, of which every ten seconds belong to hosts of another third of shards."""
    loop = VirtualLoop()
    world = World(loop, seed, Rules(rate_error=0.0, troubles=(0.0,), turn_seconds=TURN_SECONDS))

    async def main() -> None:
        for _ in range(nodes):
            world.join()
        world.spread()
        await world.wait(8.0)
        world.sends.clear()
        for turn in range(6):
            world.wanted = {host for host in crowd_only(world) if world.sites[host].shard % 3 == turn % 3}
            await world.wait(10.0)

    world.long_fetches = 0.0
    run_virtual(main(), loop)
    return len(world.sends)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_turns_follow_the_demand(seed: int) -> None:
    """Three nodes send three quarters at least of what one node with all hosts would."""
    together, alone = sent_as_demand_moves(3, seed), sent_as_demand_moves(1, seed)
    print(f"{together} of {alone} requests")  # noqa: T201
    assert together >= 0.75 * alone


@pytest.mark.slow
def test_a_month_of_budgets() -> None:
    """Nodes come, go and die, at midnight as well: no day has more than its budget, and hardly one much less."""
    rng, table, days, budget = Random(1), MemoryShareTable(), Counter[int](), 20_000

    async def main() -> None:
        nodes = [_portions(table) for _ in range(3)]
        for minute in range(30 * 1_440):
            day = 20_000 + minute // 1_440
            if rng.random() < 0.01 or minute % 1_440 == 0:
                nodes[rng.randrange(len(nodes))] = _portions(table)  # a death: what it had drawn is gone
            for place, node in enumerate(nodes):
                for _ in range(rng.randrange(12)):
                    if not node.asked(day, budget, minute * 60_000_000):
                        await node.step(f"node{place}", minute * 60_000_000)
                    if node.asked(day, budget, minute * 60_000_000):
                        node.spend()
                        days[day] += 1

    run_virtual(main(), VirtualLoop())
    assert len(days) == 30
    assert max(days.values()) <= budget
    assert min(days.values()) >= 0.98 * budget


def _portions(table: MemoryShareTable) -> DayPortions:
    return DayPortions(table, lambda: 1 / 3, 120_000_000)


# -- each rule that is left out is found -------------------------------------------------------------------------------
class KeptAfterLapse(Lease):
    """The lease is not looked at before a send."""

    def alive(self) -> bool:
        return self._ends_us is not None


class NoFetchWait(Timing, frozen=True):
    """What a dead node held is free when its lease is over, though its last requests are not."""

    @property
    def takeover_us(self) -> int:
        return self.death_us


class ForgetsOpen(Turns):
    """A turn is passed on as if its connections were closed."""

    def _move(self, seat: Any, row: Turn, me: str, *, holder: str) -> Turn:
        return replace(super()._move(seat, row, me, holder=holder), open={})


class ForgetsRest(Turns):
    """Whoever is next may start at once."""

    def _next(self, seat: Any, row: Turn, me: str) -> Turn | None:
        new = super()._next(seat, row, me)
        return None if new is None else replace(new, rest_us=0)


class TakesUnknownForDone(Turns):
    """A write of which nobody knows is taken for one that was done."""

    async def _write(self, seat: Any, new: Turn) -> bool:
        try:
            return await self._table.set_turn(seat.key.name, new)
        except Definite:
            return False
        except Indefinite:
            return True


class UsedWhilePassedOn(Turns):
    """A turn is given away first, and given up when that has arrived."""

    async def _write(self, seat: Any, new: Turn) -> bool:
        if seat.passing:
            seat.held_by = self._lease()
        done = await super()._write(seat, new)
        if seat.passing:
            seat.held_by = None
        return done


class NoCondition(MemoryShareTable):
    """A turn is a plain write."""

    async def set_turn(self, key: str, new: Turn) -> bool:
        return await super().set_turn(key, replace(new, version=(await self.turn(key)).version + 1))


class NoConditionOfDays(MemoryShareTable):
    """A portion is drawn by a plain write."""

    async def set_drawn(self, day: int, new: Drawn) -> bool:
        return await super().set_drawn(day, replace(new, version=(await self.drawn(day)).version + 1))


class CarriedOver(DayPortions):
    """What is left of a day may be spent on the next."""

    def _turn_to(self, day: int) -> None:
        left = self._left
        super()._turn_to(day)
        self._left = left


class DrawnTwice(DayPortions):
    """A portion that nobody answered for is taken, and drawn again."""

    async def _set(self, day: int, new: Drawn) -> bool | None:
        try:
            return await self._table.set_drawn(day, new)
        except Indefinite:
            return True


def _shares(turns: type[Turns] = Turns, portions: type[DayPortions] = DayPortions) -> type[LeasedShares]:
    return type("MutantShares", (LeasedShares,), {"turns_type": turns, "portions_type": portions})


def _same(timing: Timing, mutant: type[Timing]) -> Timing:
    return mutant(**{name: getattr(timing, name) for name in Timing.__struct_fields__})


def _days(**wrong: Any) -> Rules:
    return Rules(**{"rate_error": 1e-4, "budget": BUDGET.budget, "spent": BUDGET.spent, **wrong})


MUTANTS = {
    "kept after the lapse": Rules(lease=KeptAfterLapse),
    "no wait for the last requests": Rules(timing=_same(SHORT, NoFetchWait), faults=("stop", "cut")),
    "passed on before the end": Rules(shares=_shares(ForgetsOpen)),
    "no rest": Rules(shares=_shares(ForgetsRest), faults=("rebalance",)),
    "unknown is done": Rules(shares=_shares(TakesUnknownForDone), faults=("storm",)),
    "used while passed on": Rules(shares=_shares(UsedWhilePassedOn), faults=("rebalance", "storm")),
    "no condition": Rules(table=NoCondition),
    "a day is drawn from without a condition": _days(table=NoConditionOfDays, faults=("rebalance",)),
    "portions are carried over midnight": _days(shares=_shares(portions=CarriedOver), faults=("rebalance",)),
    "portions of unknown fate are spent": _days(
        shares=_shares(portions=DrawnTwice), spent=BUDGET.budget - 20, faults=("rebalance",), troubles=(0.2,)
    ),
}
SEEDS_MAX = 40


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_each_mistake_is_found(name: str) -> None:
    """The rehearsal can tell: each rule that is left out shows within a few seeds."""
    assert any(impolite(seed, MUTANTS[name]) for seed in range(SEEDS_MAX))

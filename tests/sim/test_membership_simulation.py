"""Membership under pauses, partitions, lost and late messages, and clocks of different rates, from seeds."""

import pytest

from limpet.membership import Lease, Owner, Timing
from limpet.testing.loop import VirtualLoop, run_virtual
from limpet.testing.memory_leases import MemoryLeaseTable
from sim.memberworld import Rules, WallClock, World
from sim.wire import LATE_SECONDS_MAX

SHORT = Timing(lease_seconds=6, margin_seconds=0.2, fetch_seconds_max=4, poll_seconds=0.2, orphan_seconds=6)
BARE = Timing(lease_seconds=6, margin_seconds=0.2, fetch_seconds_max=0, poll_seconds=0.2, orphan_seconds=6)
BEFALLS = 12


async def _troubled(world: World) -> list[str]:
    for _ in range(3):
        world.join()
    world.spread()
    await world.wait(world.rules.timing.lease_seconds)
    for _ in range(BEFALLS):
        if world.judge.anomalies:
            return world.judge.anomalies
        await world.befall(world.rules.timing.lease_seconds)
    await world.heal()
    timing = world.rules.timing
    await world.wait(LATE_SECONDS_MAX + timing.takeover_seconds_max)
    if world.unowned():
        world.judge.anomalies.append(f"shards {world.unowned()} have no owner")
    for node in world.living():
        if node.ownership.shards() != node.hinted:
            world.judge.anomalies.append(f"{node.name} has {node.ownership.shards()}, not {node.hinted}")
    return world.judge.anomalies


def anomalies(seed: int, rules: Rules) -> list[str]:
    loop, trouble = VirtualLoop(), (0.0, 0.1, 0.3)[seed % 3]

    async def main() -> list[str]:
        return await _troubled(World(loop, seed, rules, trouble))

    return run_virtual(main(), loop)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("timing", [SHORT, BARE], ids=["fetching", "bare"])
def test_one_owner_at_a_time_and_one_in_the_end(seed: int, timing: Timing) -> None:
    """No two nodes may send for a shard at one instant, no requests overlap, epochs grow; hints hold in the end."""
    assert anomalies(seed, Rules(timing)) == []


@pytest.mark.slow
@pytest.mark.parametrize("timing", [SHORT, BARE], ids=["fetching", "bare"])
def test_many_seeds(timing: Timing) -> None:
    """As above."""
    assert [found for seed in range(5, 200) if (found := anomalies(seed, Rules(timing)))] == []


class CountsFromReply(Lease):
    """Counts from when the acknowledgement came."""

    def renewed(self, sent_us: int) -> None:
        super().renewed(max(sent_us, self._clock.boot_us()))


class NoFetchWait(Timing, frozen=True):
    """Who takes over from the dead does not wait for their last requests."""

    @property
    def takeover_us(self) -> int:
        return self.death_us


class NoEpochCondition(MemoryLeaseTable):
    """A take asks who the owner is, but not since when."""

    async def compare_and_set(self, shard: int, old: Owner, new: Owner) -> bool:
        if (await self.owner(shard)).incarnation != old.incarnation:
            return False
        return await super().compare_and_set(shard, await self.owner(shard), new)


class NoCondition(MemoryLeaseTable):
    """A take is a plain write."""

    async def compare_and_set(self, shard: int, old: Owner, new: Owner) -> bool:  # noqa: ARG002 - that is the mistake
        return await super().compare_and_set(shard, await self.owner(shard), new)


def _same(timing: Timing, mutant: type[Timing]) -> Timing:
    return mutant(**{name: getattr(timing, name) for name in Timing.__struct_fields__})


MUTANTS = {
    "counts from the reply": Rules(BARE, lease=CountsFromReply),
    "wall clock": Rules(BARE, clock=WallClock),
    "no wait for the last requests": Rules(_same(SHORT, NoFetchWait)),
    "no epoch in the condition": Rules(BARE, table=NoEpochCondition),
    "no condition": Rules(BARE, table=NoCondition),
}
SEEDS_MAX = 60


@pytest.mark.parametrize("name", MUTANTS)
def test_each_mistake_is_found(name: str) -> None:
    """The rehearsal can tell: each rule that is left out shows within a few seeds."""
    assert any(anomalies(seed, MUTANTS[name]) for seed in range(SEEDS_MAX))

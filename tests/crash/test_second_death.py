"""Once more, inside the recovery that follows: recovery may die at any of its steps, and the next one repeats it."""

import pytest

from crash.checkers import anomalies
from crash.ledger import LEDGER
from crash.rehearsal import Mode, Rehearsal
from crash.stories import every, nested_walk
from crash.walk import Only, Walk, everywhere
from crash.world import World, rough_web, small_web
from limpet.runtime import Killed
from limpet.testing.chance import SeededRandom
from limpet.testing.death import CountingMortality

DEATHS_IN_A_ROW = 6
STEPS = ("waits", "cut", "publish", "adopt", "line", "seal", "expire")
RECOVERY = {f"recover.{step}.{side}" for step in STEPS for side in ("before", "after")}


def sound(world: World, mode: Mode, *, all_steps: bool, only: Only = everywhere) -> Walk:
    """Walk with second deaths; nothing may be found. The walk of the second deaths."""
    first, second = nested_walk(world, mode, all_steps=all_steps, only=only)
    LEDGER.enter(f"{mode}s again inside recovery", second)
    assert first.found[:5] == []
    assert second.deaths >= first.deaths
    return second


def test_killed_again_inside_recovery() -> None:
    """Whatever the first death left, a second one inside its recovery is put right by the third life."""
    second = sound(small_web(), "kill", all_steps=False, only=every(4))
    assert {point.name for point in second.points} == RECOVERY


class RandomDeaths(CountingMortality):
    """Dies at the first crash point that a coin with `probability` picks."""

    def __init__(self, random: SeededRandom, probability: float) -> None:
        super().__init__()
        self._random = random
        self._probability = probability
        self._dead = False

    def crashpoint(self, name: str) -> None:
        """See `Mortality.crashpoint`."""
        super().crashpoint(name)
        self._dead = self._dead or self._random.fraction() < self._probability
        if self._dead:
            raise Killed(name)


@pytest.mark.parametrize("seed", range(6))
def test_six_deaths_in_a_row(seed: int) -> None:
    """Dying again and again at any point, six times in a row, loses nothing, doubles nothing, and presses nobody."""
    random = SeededRandom(seed)
    with Rehearsal.of(small_web()) as rehearsal:
        for place in range(DEATHS_IN_A_ROW):
            life = rehearsal.live(RandomDeaths(random, 0.02))
            if life.ending == "killed":
                rehearsal.lose("power cut" if place % 2 else "kill")
        assert rehearsal.live().ending == "done"
        assert anomalies(rehearsal.evidence()) == []
        LEDGER.add("deaths in a row", len(rehearsal.deaths), set())
        assert len(rehearsal.deaths) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["kill", "power cut"])
@pytest.mark.parametrize("world", [small_web(), rough_web()], ids=lambda world: world.name)
def test_killed_at_every_step_of_every_recovery(world: World, mode: Mode) -> None:
    """The full product of first deaths and steps of the recovery that follows."""
    second = sound(world, mode, all_steps=True)
    assert {point.name for point in second.points} == RECOVERY

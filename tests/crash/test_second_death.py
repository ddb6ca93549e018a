"""Once more, inside the recovery that follows: recovery may die at any of its steps, and the next one repeats it."""

import itertools

import pytest

from crash.checkers import anomalies
from crash.ledger import LEDGER
from crash.rehearsal import Mode, Rehearsal
from crash.walk import Point, Walk, Walker
from crash.world import World, rough_web, small_web
from limpet.runtime import Killed
from limpet.testing.chance import SeededRandom
from limpet.testing.death import CountingMortality

DEATHS_IN_A_ROW = 6
RECOVERY_STEPS_MIN = 4  # ending the leases of two shards, with a point on both sides


class Nested:
    """The judge of first deaths: dies again in the recovery that follows, at every step or at some, then looks.

    With `all_steps` False each recovery dies at one step in turn, and at every step that none has died at before: all
    first deaths are covered, and all steps of recovery.
    """

    def __init__(self, mode: Mode, *, all_steps: bool) -> None:
        self.second = Walk()
        self._mode: Mode = mode
        self._all_steps = all_steps
        self._turns = itertools.count()

    def __call__(self, _point: Point, twin: Rehearsal) -> list[str]:
        """See `Judge`."""
        turn = next(self._turns) % RECOVERY_STEPS_MIN
        places = itertools.count()

        def only(point: Point) -> bool:
            if twin.phase != "recover":
                return False
            return next(places) == turn or self._all_steps or point not in self.second.points

        walker = Walker(self._mode, only=only)
        walker.points(twin)
        self.second.add(walker.walk)
        return walker.walk.found


def nested(world: World, mode: Mode, *, all_steps: bool, every: int = 1) -> Nested:
    """Walk `world` with a second death after each `every`-th first one."""
    judge = Nested(mode, all_steps=all_steps)
    count = itertools.count()
    walker = Walker(mode, judge, only=lambda _point: next(count) % every == 0)
    with Rehearsal.of(world) as rehearsal:
        walker.points(rehearsal)
    LEDGER.enter(f"{mode}s again inside recovery", judge.second)
    assert walker.walk.found[:5] == []
    assert judge.second.deaths >= walker.walk.deaths
    return judge


STEPS = ("waits", "cut", "publish", "adopt", "seal", "expire")
RECOVERY = {f"recover.{step}.{side}" for step in STEPS for side in ("before", "after")}


def test_killed_again_inside_recovery() -> None:
    """Whatever the first death left, a second one inside its recovery is put right by the third life."""
    judge = nested(small_web(), "kill", all_steps=False, every=2)
    assert {point.name for point in judge.second.points} == RECOVERY


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
    nested(world, mode, all_steps=True)

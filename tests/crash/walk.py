"""Walking a life: at every step of it the machine is forked, and what the twin makes of the death is judged.

Four kinds of steps: the named crash points on both sides of every durable step, the stages of every exchange, every
commit of a SQLite file, and every operation of the archive's disk. The first names what is meant to be durable; the
last two leave nothing out.
"""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from crash.checkers import anomalies
from crash.parts import REHEARSED
from crash.rehearsal import Life, MakeDisk, Mode, Rehearsal, plain_disk
from crash.world import World
from limpet.clock import Clock
from limpet.embedded.parts import Parts
from limpet.runtime import Disk, InlineRunner, Runner
from limpet.testing.death import CountingMortality
from limpet.testing.disks import DiskWrapper
from limpet.testing.fault_disks import Operation

T = TypeVar("T")


class Point(msgspec.Struct, frozen=True):
    """The `occurrence`-th passing of a step."""

    name: str
    occurrence: int

    def __str__(self) -> str:
        return f"{self.name} #{self.occurrence}"


At = Callable[[Point], None]
Judge = Callable[[Point, Rehearsal], list[str]]
"""(where the first life ended, the twin) -> what is wrong with it."""


class WalkedPoints(CountingMortality):
    """Lives, and reports each crash point."""

    def __init__(self, at: At) -> None:
        super().__init__()
        self._at = at

    def crashpoint(self, name: str) -> None:
        """See `Mortality.crashpoint`."""
        super().crashpoint(name)
        self._at(Point(name, self.passed[name]))


class WalkedRunner(InlineRunner):
    """Reports both sides of every call."""

    def __init__(self, name: str, at: At) -> None:
        self._name = name
        self._at = at
        self._runs = 0

    async def run(self, work: Callable[[], T]) -> T:
        """See `Runner.run`."""
        self._runs += 1
        self._at(Point(f"{self._name}.before", self._runs))
        result = await super().run(work)
        self._at(Point(f"{self._name}.after", self._runs))
        return result


class WalkedDisk(DiskWrapper):
    """Reports both sides of every operation."""

    def __init__(self, inner: Disk, at: At) -> None:
        super().__init__(inner)
        self._at = at

    def perform(self, operation: Operation, path: Path, effect: Callable[[], T]) -> T:
        """See `DiskWrapper.perform`."""
        self._at(Point(f"{operation}.before", self.counts[operation] + 1))
        result = super().perform(operation, path, effect)
        self._at(Point(f"{operation}.after", self.counts[operation]))
        return result


class Walk(msgspec.Struct):
    """What a walk came across."""

    deaths: int = 0
    points: set[Point] = msgspec.field(default_factory=set)
    found: list[str] = msgspec.field(default_factory=list)
    found_at: Point | None = None  # where the first anomaly showed

    def add(self, other: "Walk") -> None:
        """Another walk on top of this one."""
        self.deaths += other.deaths
        self.points |= other.points
        self.found += other.found


Only = Callable[[Point], bool]


def everywhere(_point: Point) -> bool:
    """Every point."""
    return True


@dataclass(frozen=True, kw_only=True)
class Made:
    """What every life of a walk is made of."""

    parts: Parts = REHEARSED
    make_disk: MakeDisk = plain_disk


def resumed(made: Made = Made()) -> Judge:
    """The judge that starts the twin again, lets it finish, and calls the checkers."""

    def judge(_point: Point, twin: Rehearsal) -> list[str]:
        life = twin.live(parts=made.parts, make_disk=made.make_disk)
        stuck = [] if life.ending == "done" else [f"no end: the next life was {life.ending} ({life.detail})"]
        return stuck + anomalies(twin.evidence())

    return judge


class Walker:
    """Walks lives of rehearsals; `walk` collects what was met. With `stop_at_first` an anomaly ends it."""

    def __init__(
        self,
        mode: Mode,
        judge: Judge | None = None,
        *,
        made: Made = Made(),
        only: Only = everywhere,
        stop_at_first: bool = False,
    ) -> None:
        self.walk = Walk()
        self._mode: Mode = mode
        self._made = made
        self._judge = judge or resumed(made)
        self._only = only
        self._stop_at_first = stop_at_first

    def points(self, rehearsal: Rehearsal) -> Life:
        """Die at named crash points of the rehearsal's next life."""
        mortality = WalkedPoints(lambda point: self._at(rehearsal, point))
        return rehearsal.live(mortality, parts=self._made.parts, make_disk=self._made.make_disk)

    def exchanges(self, rehearsal: Rehearsal) -> Life:
        """Die in the middle of exchanges of the rehearsal's next life: asked, answered, all received."""
        counts: Counter[str] = Counter()

        def at_stage(stage: str, _url: str) -> None:
            counts[stage] += 1
            self._at(rehearsal, Point(f"exchange.{stage}", counts[stage]))

        return rehearsal.live(parts=self._made.parts, make_disk=self._made.make_disk, at_stage=at_stage)

    def commits(self, rehearsal: Rehearsal) -> Life:
        """Die around commits of SQLite files in the rehearsal's next life."""

        def make_runner(name: str, _clock: Clock) -> Runner:
            return WalkedRunner(f"{rehearsal.phase} {name}", lambda point: self._at(rehearsal, point))

        return rehearsal.live(make_runner=make_runner)

    def disk_operations(self, rehearsal: Rehearsal) -> Life:
        """Die around operations on the archive of the rehearsal's next life."""

        def make_disk(disk: Disk, _clock: Clock) -> Disk:
            return WalkedDisk(disk, lambda point: self._at(rehearsal, point))

        return rehearsal.live(make_disk=make_disk)

    def _at(self, rehearsal: Rehearsal, point: Point) -> None:
        self.at(rehearsal, point, self._judge)

    def at(self, rehearsal: Rehearsal, point: Point, judge: Judge) -> None:
        """Die at `point`, and let `judge` look at the twin."""
        if not self._only(point) or (self._stop_at_first and self.walk.found):
            return
        self.walk.deaths += 1
        self.walk.points.add(point)
        with rehearsal.forked(self._mode) as twin:
            found = elsewhere(lambda: judge(point, twin))
        if found and self.walk.found_at is None:
            self.walk.found_at = point
        self.walk.found += [f"{anomaly} [{rehearsal.world.name}, {self._mode} at {point}]" for anomaly in found]


Kind = Literal["points", "exchanges", "commits", "disk_operations"]


def walked(kind: Kind, world: World, walker: Walker) -> Walk:
    """Let `walker` walk one way through a first life in `world`; that life itself is looked at too."""
    with Rehearsal.of(world) as rehearsal:
        life = getattr(walker, kind)(rehearsal)
        if life.ending != "done":
            walker.walk.found.append(f"no end: {life}")
        walker.walk.found += anomalies(rehearsal.evidence())
    return walker.walk


def elsewhere(work: Callable[[], T]) -> T:
    """Run `work` on a thread of its own and wait: it needs an event loop, and this thread's one is running."""
    result: list[T] = []
    fault: list[BaseException] = []

    def run() -> None:
        try:
            result.append(work())
        except BaseException as error:  # noqa: BLE001 - handed to the caller
            fault.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if fault:
        raise fault[0]
    return result[0]

"""Lives with one fault in them, and what the next lives make of it. A fault is not a death: the process goes on."""

from collections.abc import Callable
from typing import Final

import msgspec

from crash.checkers import anomalies
from crash.parts import REHEARSED
from crash.rehearsal import Life, MakeDisk, MakeRunner, Rehearsal, plain_disk, plain_runner
from crash.world import World
from limpet.clock import Clock
from limpet.embedded.parts import Parts
from limpet.runtime import Disk, Runner
from limpet.runtime.executor import InlineRunner
from limpet.testing.disks import DiskWrapper, LostReply, Operation
from limpet.testing.fault_runners import CountingRunner

LIVES_MAX: Final = 4
OPERATIONS: Final[tuple[Operation, ...]] = ("create", "write", "sync", "sync_dir", "rename", "truncate", "reopen")


class Story(msgspec.Struct, frozen=True):
    """The lives of one rehearsal, the faulty one first, and what was wrong in the end."""

    lives: list[Life]
    found: list[str]


def commits_through(runner: Runner) -> MakeRunner:
    """All SQLite commits of a life go through `runner`, appends do not."""
    return lambda name, _clock: runner if name == "commits" else InlineRunner()


def disk_of(make: Callable[[Disk], Disk]) -> MakeDisk:
    """`make` wraps the archive's disk."""
    return lambda disk, _clock: make(disk)


def count_commits(world: World) -> int:
    """Commits, closings and writes of marks in an undisturbed life."""
    runner = CountingRunner()
    with Rehearsal.of(world) as rehearsal:
        rehearsal.live(make_runner=commits_through(runner))
    return runner.runs


def count_operations(world: World) -> dict[Operation, int]:
    """Operations on the archive's disk in an undisturbed life."""
    disks: list[DiskWrapper] = []

    def make_disk(disk: Disk, _clock: Clock) -> Disk:
        disks.append(DiskWrapper(disk))
        return disks[0]

    with Rehearsal.of(world) as rehearsal:
        rehearsal.live(make_disk=make_disk)
    return dict(disks[0].counts)


def story(
    world: World,
    *,
    make_runner: MakeRunner = plain_runner,
    make_disk: MakeDisk = plain_disk,
    parts: Parts = REHEARSED,
    between: Callable[[Rehearsal], None] | None = None,
) -> Story:
    """One faulty life, then sound ones until the crawl is done and nothing is left open; the checkers' verdict.

    `between` is what happens to the machine after the faulty life.
    """
    with Rehearsal.of(world) as rehearsal:
        lives = [rehearsal.live(make_runner=make_runner, make_disk=make_disk, parts=parts)]
        if between is not None:
            between(rehearsal)
        while len(lives) < LIVES_MAX and (lives[-1].ending != "done" or rehearsal.was_left_unclean()):
            lives.append(rehearsal.live())
        stuck = [] if lives[-1].ending == "done" else [f"no end: {lives[-1]}"]
        return Story(lives, stuck + anomalies(rehearsal.evidence()))


def lost_reply(operation: Operation, nth: int) -> MakeDisk:
    """The `nth` operation takes effect and says that it did not."""
    return disk_of(lambda disk: LostReply(disk, operation, nth))

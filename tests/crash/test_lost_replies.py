"""Effect happened, reply lost; effect did not happen, and said so. A fault is not a death: the process lives on."""

from collections import Counter

import pytest

from crash.faults import (
    Story,
    commits_through,
    count_commits,
    count_operations,
    disk_of,
    lost_reply,
    story,
)
from crash.ledger import LEDGER
from crash.world import World, rough_web, small_web
from limpet.runtime import Disk
from limpet.testing.disks import FailingSync, FullDisk, TornAppend
from limpet.testing.fault_runners import FailedCommit, LostCommit

SAMPLE = 9
GOES_ON = ("write", "sync")
ROOM_BYTES = 6_000


def sampled(count: int, every: int) -> range:
    """Every `every`-th of the calls 1 to `count`."""
    return range(1, count + 1, every)


def sound(stories: list[Story], what: str, steps: set[str]) -> Counter[str]:
    """Enter them in the ledger; nothing may have been found. How the faulty lives ended."""
    LEDGER.add(what, len(stories), steps)
    assert [found for one in stories for found in one.found[:1]] == []
    return Counter(one.lives[0].ending for one in stories)


def commits(world: World, kind: type[LostCommit | FailedCommit], every: int) -> Counter[str]:
    """Stories with one faulty commit each."""
    places = sampled(count_commits(world), every)
    stories = [story(world, make_runner=commits_through(kind(nth))) for nth in places]
    return sound(stories, f"{'lost' if kind is LostCommit else 'failed'} commits", {"commit"})


def operations(world: World, every: int) -> dict[str, Counter[str]]:
    """Stories with one lost reply of the archive's disk each, by operation."""
    return {
        operation: sound(
            [story(world, make_disk=lost_reply(operation, nth)) for nth in sampled(count, every)],
            "lost replies of the archive's disk",
            {operation},
        )
        for operation, count in count_operations(world).items()
    }


def test_a_commit_that_happened_and_did_not_say_so() -> None:
    """Nothing is tried again on a file that failed: the owner ends, and recovery reads what became of the write."""
    endings = commits(small_web(), LostCommit, SAMPLE)
    assert endings["failed"] > endings["done"]


def test_a_commit_that_failed() -> None:
    """The owner ends; the next one goes on from what is in the file."""
    endings = commits(small_web(), FailedCommit, SAMPLE)
    assert endings["failed"] > endings["done"]


def test_an_append_that_happened_and_did_not_say_so() -> None:
    """The segment is abandoned, the capture goes to the next one: the same life goes on, no page is asked twice."""
    endings = operations(small_web(), 3)
    for operation in GOES_ON:
        assert endings[operation]["done"] > endings[operation]["failed"]
    assert endings["create"]["failed"] > 0


def test_a_torn_append() -> None:
    """Half a group was written: what was acknowledged before stays, the rest goes to a new segment."""
    stories = [
        story(small_web(), make_disk=disk_of(lambda disk, nth=nth: TornAppend(disk, nth, kept_bytes=300)))  # type: ignore[misc]
        for nth in sampled(12, 3)
    ]
    assert sound(stories, "torn appends", {"write"})["done"] == len(stories)


def test_a_sync_that_failed_and_then_the_power() -> None:
    """After a failed sync the bytes are gone, whatever later syncs of that file say: none of them is relied on."""
    stories = [
        story(
            small_web(),
            make_disk=disk_of(lambda disk, nth=nth: FailingSync(disk, nth)),  # type: ignore[misc]
            between=lambda rehearsal: rehearsal.lose("power cut"),
        )
        for nth in sampled(12, 3)
    ]
    sound(stories, "failed syncs, then the power", {"sync"})


def test_a_full_disk_and_room_again() -> None:
    """A full disk ends the run and loses nothing; with room again every page is there, and was stored once."""
    disks: list[FullDisk] = []

    def full(disk: Disk) -> Disk:
        disks.append(FullDisk(disk, ROOM_BYTES))
        return disks[-1]

    told = story(small_web(), make_disk=disk_of(full))
    assert told.lives[0].ending == "failed"
    assert "disk full" in told.lives[0].detail
    assert sound([told], "full disks", {"write"}) == {"failed": 1}


@pytest.mark.slow
@pytest.mark.parametrize("world", [small_web(), rough_web()], ids=lambda world: world.name)
def test_every_reply_lost(world: World) -> None:
    """Every commit and every operation of the archive's disk, at every occurrence."""
    commits(world, LostCommit, 1)
    commits(world, FailedCommit, 1)
    operations(world, 1)

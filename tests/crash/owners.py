"""Owners that lose what they held: one that slept through its lease, and one that dies of a body again and again."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from crash.checkers import anomalies
from crash.evidence import Evidence
from crash.parts import REHEARSED
from crash.rehearsal import Life, Rehearsal
from crash.world import deadly_web, sluggish_web, small_web
from limpet.clock import Clock
from limpet.embedded.parts import Parts
from limpet.runtime import Disk, Killed
from limpet.testing.bad_reads import url_of_record
from limpet.testing.disks import DiskWrapper

ASLEEP_SECONDS: Final = 1_000.0  # longer than a lease
LIVES_MAX: Final = 16


def asleep(url: str, stage: str, parts: Parts = REHEARSED) -> tuple[list[str], Evidence]:
    """The whole machine is suspended in the middle of the exchange with `url`, for longer than any lease.

    What came too late has its outcome after the next start.
    """
    with Rehearsal.of(small_web()) as rehearsal:
        slept: list[str] = []

        def at_stage(now: str, asked: str) -> None:
            if (now, asked) == (stage, url) and not slept:
                slept.append(now)
                rehearsal.sleep_through(ASLEEP_SECONDS)

        life = rehearsal.live(parts=parts, at_stage=at_stage)
        found = [] if life.ending == "done" and slept else [f"no end: {life}"]
        again = rehearsal.live(parts=parts)
        found += [] if again.ending == "done" else [f"no end: {again}"]
        evidence = replace(rehearsal.evidence(), slept=True)
        return found + anomalies(evidence), evidence


def sluggish(parts: Parts = REHEARSED) -> list[str]:
    """A host so slow that a batch of claims cannot be sent within one lease."""
    with Rehearsal.of(sluggish_web()) as rehearsal:
        life = rehearsal.live(parts=parts)
        found = [] if life.ending == "done" else [f"no end: {life}"]
        return found + anomalies(rehearsal.evidence())


class DeadlyReads(DiskWrapper):
    """Whoever reads the record of one of `urls` dies, while `armed` says so."""

    def __init__(self, inner: Disk, urls: tuple[str, ...], armed: Callable[[], bool]) -> None:
        super().__init__(inner)
        self._urls = urls
        self._armed = armed

    def read(self, path: Path, offset: int, size_bytes: int) -> bytes:
        """See `Disk.read`."""
        data = super().read(path, offset, size_bytes)
        if self._armed() and url_of_record(data) in self._urls:
            raise Killed("the parser died of this body")
        return data


def deadly(parts: Parts = REHEARSED) -> tuple[list[str], list[Life]]:
    """Start the crawl of a web with poison in it again and again, until it comes to its end."""
    with Rehearsal.of(deadly_web()) as rehearsal:
        world, lives = rehearsal.world, list[Life]()

        def make_disk(disk: Disk, _clock: Clock) -> Disk:
            return DeadlyReads(disk, world.deadly_bodies, lambda: rehearsal.phase == "crawl")

        def at_stage(stage: str, url: str) -> None:
            if stage == "request" and url in world.deadly_urls:
                raise Killed("the crawl node died of this URL")

        while len(lives) < LIVES_MAX and (not lives or lives[-1].ending != "done"):
            lives.append(rehearsal.live(parts=parts, make_disk=make_disk, at_stage=at_stage))
        found = [] if lives[-1].ending == "done" else [f"no end: {len(lives)} lives, the last: {lives[-1]}"]
        return found + anomalies(rehearsal.evidence()), lives

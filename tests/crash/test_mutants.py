"""Broken on purpose: a proof is worth what it finds. Each broken step fails the proof that the real code passes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from crash import mutants
from crash.checkers import names
from crash.ledger import LEDGER
from crash.outages import bus_down, count_publishes, hanging
from crash.owners import asleep, deadly, sluggish
from crash.parts import REHEARSED
from crash.rehearsal import MakeDisk, Mode, plain_disk
from crash.stories import blocked_walk, changing_walk, hop_walk, interrupted_walk, nested_walk
from crash.walk import Kind, Made, Point, Walk, Walker, walked
from crash.world import World, nearing_web, refusing_web, rough_web, small_web, whole_web, wide_web
from limpet.clock import Clock
from limpet.embedded.parts import Parts
from limpet.runtime import Disk


class Broken(NamedTuple):
    """A mutant, how to walk it, and the name of the anomaly that it must be found out by."""

    title: str
    parts: Parts
    anomaly: str
    steps: str  # where it may be found: the beginning of crash points' names
    world: World = small_web()
    kind: Kind = "points"
    mode: Mode = "kill"
    make_disk: MakeDisk = plain_disk

    @property
    def made(self) -> Made:
        """What its lives are made of."""
        return Made(parts=self.parts, make_disk=self.make_disk)


def broken(**parts: Any) -> Parts:
    """The parts of a rehearsal with some of them replaced."""
    return replace(REHEARSED, **parts)


def no_sync(disk: Disk, _clock: Clock) -> Disk:
    """A disk that never syncs."""
    return mutants.NoSync(disk)


BROKEN = [
    Broken("seen before the row", broken(admission=mutants.SeenBeforeRow), "ghost seen", "admit."),
    Broken(
        "publish before the append",
        broken(steps=mutants.PublishBeforeAppend, exchange=mutants.AnnouncingExchange),
        "phantom fetch",
        "fetch.publish",
    ),
    Broken(
        "complete before publish",
        broken(steps=mutants.CompleteBeforePublish),
        "lost URL",
        "fetch.complete",
    ),
    Broken(
        "sitemaps after the rules that name them",
        broken(steps=mutants.SitemapsAfterwards),
        "lost URL",
        "fetch.robots",
        whole_web(),
    ),
    Broken("offset before the parse", broken(parser=mutants.OffsetBeforeParse), "lost URL", "parse."),
    Broken("marks hide short cuts", broken(admission=mutants.FirstDepthStands), "lost URL", "admit.", nearing_web()),
    Broken("a short cut and no links", broken(admission=mutants.NearerUnsaid), "lost URL", "admit.", nearing_web()),
    Broken(
        "the offset before what a shorter way costs",
        broken(admission=mutants.JobAfterOffset),
        "lost URL",
        "admit.commit.after",
        nearing_web(),
    ),
    Broken("offset before the rows", broken(admission=mutants.OffsetBeforeRows), "lost URL", "admit."),
    Broken(
        "allow on a 5xx robots.txt",
        broken(robots=mutants.AllowOn5xx),
        "unlicensed fetch",
        "fetch.robots",
        refusing_web(),
    ),
    Broken(
        "tokens pile up while down",
        broken(governor=mutants.TokensPileUp),
        "impolite fetch",
        "fetch.complete",
    ),
    Broken(
        "no hold after a death",
        broken(recovery=mutants.NoHold),
        "impolite fetch",
        "exchange.request",
        kind="exchanges",
    ),
    Broken(
        "a hold shorter than the site's own gap",
        broken(recovery=mutants.ShortHold),
        "impolite fetch",
        "exchange.request",
        rough_web(),
        kind="exchanges",
    ),
    Broken(
        "no fsync of the segment", REHEARSED, "phantom fetch", "fetch.complete", mode="power cut", make_disk=no_sync
    ),
    Broken(
        "Retry-After kept in memory only",
        broken(steps=mutants.WaitsInMemory),
        "impolite fetch",
        "fetch.complete",
    ),
    Broken(
        "records without an outcome left alone",
        broken(recovery=mutants.AdoptsRobotsOnly),
        "orphan record",
        "fetch.append",
    ),
    Broken(
        "a robots.txt in the archive alone",
        broken(recovery=mutants.AdoptsNoRobots),
        "unlogged robots.txt",
        "fetch.append",
    ),
    Broken(
        "adoption without a look",
        broken(recovery=mutants.AdoptsEverything, store=mutants.UnguardedStore),
        "double acceptance",
        "fetch.complete",
    ),
    Broken(
        "torn tails sealed",
        broken(recovery=mutants.CutsNothing),
        "orphan record",
        "write.",
        kind="disk_operations",
        mode="power cut",
    ),
]


@pytest.mark.parametrize("mutant", BROKEN, ids=lambda mutant: mutant.title)
def test_what_is_broken_is_found_out(mutant: Broken) -> None:
    """The walk that finds nothing in the real code finds the mutant, by the name of what it does."""

    def only(point: Point) -> bool:
        return point.name.startswith(mutant.steps)

    walker = Walker(mutant.mode, made=mutant.made, only=only, stop_at_first=True)
    found = walked(mutant.kind, mutant.world, walker)
    LEDGER.enter("deaths of mutants", found)
    assert mutant.anomaly in names(found.found), found.found[:5]
    assert real_walk(mutant, found.found_at).found == []


def real_walk(mutant: Broken, found_at: Point | None) -> Walk:
    """The same walk of the real code, at the point where the mutant was found."""
    return walked(mutant.kind, mutant.world, Walker(mutant.mode, only=lambda point: point == found_at))


# -- what shows in other stories than a single death -------------------------------------------------------------------
Proof = Callable[[Parts], list[str]]
"""What is found in a story whose lives are made of these parts."""


def bus_story(parts: Parts) -> list[str]:
    """The bus goes down at one publish after another, until something is found."""
    stories = (bus_down(nth, small_web(), parts) for nth in range(1, count_publishes(small_web()) + 1))
    return next((found for found in stories if found), [])


def second_deaths(parts: Parts) -> list[str]:
    """Deaths inside the recoveries that follow deaths between append and completion."""

    def only(point: Point) -> bool:
        return point.name == "fetch.append.after" and point.occurrence > ADOPTED_FROM

    return nested_walk(small_web(), "kill", all_steps=True, only=only, parts=parts, stop_at_first=True)[0].found


def blocked_found(parts: Parts) -> list[str]:
    """A host is paused, blocked, and goes on."""
    return blocked_walk(parts).found


def interrupted_found(parts: Parts) -> list[str]:
    """A host is blocked while an answer of it is under way."""
    return interrupted_walk(parts).found


ADOPTED_FROM = 12  # appends after which a death leaves little else to do than to adopt
STORIES: list[tuple[str, Parts, str, Proof]] = [
    (
        "completion without the token",
        broken(store=mutants.UnguardedStore),
        "double acceptance",
        lambda parts: asleep("http://alpha.test/two", "head", parts)[0],
    ),
    ("a lease unchecked before the send", broken(node=mutants.LeaseUnchecked), "too many requests", sluggish),
    (
        "fetching on while the archive hangs",
        broken(health=mutants.BlindHealth),
        "unhealthy fetch",
        lambda parts: hanging("appends", 3.1, parts),
    ),
    (
        "fetching on while the bus is down",
        broken(health=mutants.BlindHealth),
        "unhealthy fetch",
        lambda parts: bus_down(5, wide_web(), parts),
    ),
    ("the web as retry buffer", broken(exchange=mutants.AsksTheWebAgain), "too many requests", bus_story),
    ("attempts not counted", broken(parser=mutants.NoAttemptMarks), "no end", lambda parts: deadly(parts)[0]),
    (
        "new rules before the re-arming",
        broken(steps=mutants.RearmsAfterwards),
        "lost URL",
        lambda parts: changing_walk(parts).found,
    ),
    ("hops without a trace", broken(steps=mutants.HopsUnheld), "impolite fetch", lambda parts: hop_walk(parts).found),
    ("deaf to orders", broken(governor=mutants.DeafGovernor), "impolite fetch", blocked_found),
    ("a block that cancels nothing", broken(node=mutants.BlocksNobody), "not cancelled", blocked_found),
    ("a block for ever", broken(node=mutants.NeverPutsBack), "lost URL", blocked_found),
    ("an answer without an outcome", broken(steps=mutants.ForgetsTheAnswer), "orphan record", interrupted_found),
    ("adoption before the fact is out", broken(recovery=mutants.AdoptsBeforePublishing), "lost URL", second_deaths),
]


@pytest.mark.parametrize(
    ("parts", "anomaly", "proof"), [story[1:] for story in STORIES], ids=[one[0] for one in STORIES]
)
def test_what_is_broken_is_found_out_in_a_story(parts: Parts, anomaly: str, proof: Proof) -> None:
    """The story that ends well with the real code ends badly with the mutant, by the name of what it does."""
    found = proof(parts)
    assert anomaly in names(found), found[:5]
    assert proof(REHEARSED) == []

"""Every crash point: a crawl is stopped on both sides of every durable step, at every occurrence, and started again."""

import itertools
import sqlite3
from contextlib import closing

import pytest

from crash.checkers import anomalies, names
from crash.evidence import members
from crash.ledger import LEDGER
from crash.rehearsal import Mode, Rehearsal
from crash.stories import (
    DAY_SECONDS,
    blocked_walk,
    changing_walk,
    gapped,
    gapped_walk,
    hop_walk,
    interrupted_walk,
    operated,
)
from crash.walk import Kind, Point, Walk, Walker, walked
from crash.world import (
    World,
    changing_web,
    nearing_web,
    refusing_web,
    rough_web,
    shut_web,
    sluggish_web,
    small_web,
    whole_web,
    wide_web,
    worlds,
)
from limpet.runtime import CRASH_POINTS
from limpet.testing.death import CountingMortality, ScriptedDeath

KINDS: tuple[Kind, ...] = ("points", "exchanges", "commits", "disk_operations")
FORGET = "DELETE FROM output WHERE fp IN (SELECT fp FROM url WHERE url = 'http://alpha.test/one')"
DAYS_SHUT = 7
ROUGH_STEPS = ("fetch.notify.", "parse.job.", "parse.notify.", "admit.rows.")
ROBOTS_STEPS = ("fetch.wait.", "fetch.robots.", "fetch.hand_back.")
WHOLE_STEPS = ("fetch.sitemaps.", "fetch.robots.", "parse.publish.", "parse.accept.", "parse.commit.", "admit.")
SLOW_HOST_FROM = 18  # exchanges of the rough web from which on the host with the long crawl-delay is asked


def sound(walk: Walk, what: str, deaths_min: int) -> None:
    """Enter the walk in the ledger; nothing may have been found, and it must have been a walk."""
    LEDGER.enter(what, walk)
    assert walk.found[:5] == []
    assert walk.deaths >= deaths_min


class First:
    """Lets some steps through a walk, at their first `times` occurrences."""

    def __init__(self, steps: tuple[str, ...], times: int = 1) -> None:
        self._steps = steps
        self._times = times

    def __call__(self, point: Point) -> bool:
        """Whether the walk stops here."""
        return point.occurrence <= self._times and point.name.startswith(self._steps)


class Late:
    """Lets a step through a walk from its `since`-th occurrence on."""

    def __init__(self, step: str, since: int) -> None:
        self._step = step
        self._since = since

    def __call__(self, point: Point) -> bool:
        """Whether the walk stops here."""
        return point.occurrence >= self._since and point.name.startswith(self._step)


def test_an_undisturbed_crawl_shows_the_checkers_nothing() -> None:
    """The checkers find nothing where nothing died, in every world, and the crawl ends by the rule that ends runs."""
    for world in worlds():
        with Rehearsal.of(world) as rehearsal:
            assert rehearsal.live().ending == "done"
            assert not rehearsal.was_left_unclean()
            assert anomalies(rehearsal.evidence()) == []


def test_killed_at_every_crash_point() -> None:
    """Killed at any durable step, at any occurrence, the next start puts everything right."""
    sound(walked("points", small_web(), Walker("kill")), "kills at a crash point", 200)


def test_killed_at_the_crash_points_of_a_rough_web() -> None:
    """The same where bodies break off, connections are refused, records read badly and hosts have too many URLs."""
    sound(walked("points", rough_web(), Walker("kill", only=First(ROUGH_STEPS))), "kills at a crash point", 8)
    sound(walked("points", refusing_web(), Walker("kill", only=First(ROBOTS_STEPS))), "kills at a crash point", 6)


def test_killed_at_the_crash_points_of_a_whole_web() -> None:
    """The same with all that pages need, on two hosts, sitemaps out of robots.txt, and patterns that keep links out."""
    walker = Walker("kill", only=First(WHOLE_STEPS, 4))
    sound(walked("points", whole_web(), walker), "kills at a crash point", 40)
    assert Point("fetch.sitemaps.after", 1) in walker.walk.points


def test_killed_where_a_short_cut_is_late() -> None:
    """What turns out to be nearer to a seed is parsed again with its new depth, wherever we die."""
    walker = Walker("kill", only=First(("admit.nearer.", "admit.rows.", "admit.commit.", "parse."), 6))
    sound(walked("points", nearing_web(), walker), "kills at a crash point", 30)
    assert Point("admit.nearer.after", 1) in walker.walk.points


def test_power_cut_at_crash_points() -> None:
    """When the power goes, what was not synced is lost, but for a torn piece: nothing acknowledged was among it."""
    sound(
        walked("points", small_web(), Walker("power cut", only=First(("fetch.",), 2))),
        "power cuts at a crash point",
        20,
    )


def test_killed_in_the_middle_of_every_exchange() -> None:
    """A host that may still be answering is left alone for two of its gaps, and at least ten seconds."""
    sound(walked("exchanges", small_web(), Walker("kill")), "kills in the middle of an exchange", 40)
    late = Walker("kill", only=Late("exchange.", SLOW_HOST_FROM))
    sound(walked("exchanges", rough_web(), late), "kills in the middle of an exchange", 10)


def test_killed_when_rules_have_changed() -> None:
    """What was denied under other rules is due again, though the process die between the two writes."""
    walk = changing_walk()
    sound(walk, "kills at a crash point", 4)
    assert Point("fetch.rearm.after", 1) in walk.points


def test_killed_when_waiting_was_in_vain() -> None:
    """A host whose robots.txt could not be had for a week: its URLs fail, are never sent, and somebody is told."""
    walker = Walker("kill")
    with Rehearsal.of(shut_web()) as rehearsal:
        for _day in range(DAYS_SHUT):
            assert rehearsal.live().ending == "done"
            rehearsal.later(DAY_SECONDS)
        walker.points(rehearsal)
        walker.walk.found += anomalies(rehearsal.evidence())
    sound(walker.walk, "kills at a crash point", 6)
    assert Point("fetch.wait_out.after", 1) in walker.walk.points


def test_killed_when_a_host_is_paused_blocked_and_freed() -> None:
    """What an operator stops is not asked, its rows are cancelled, and all of it comes back, wherever we die."""
    walk = blocked_walk()
    sound(walk, "kills at a crash point", 4)
    assert {Point("fetch.cancel.after", 1), Point("fetch.uncancel.after", 1)} <= walk.points


def test_killed_when_a_block_meets_an_answer_under_way() -> None:
    """The lease ends at once; what came all the same is in the archive, has its outcome, and is not asked for again."""
    walk = interrupted_walk()
    sound(walk, "kills at a crash point", 2)


def test_killed_while_lost_links_come_back() -> None:
    """Links that were dropped unread are published again by what they were found in; nothing is passed before."""
    sound(gapped_walk(), "kills at a crash point", 8)


def forget_output(rehearsal: Rehearsal) -> None:
    """The message about one body, and what was made of it, are gone, as if the bus had lost it."""
    for path in rehearsal.evidence().shard_files:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(FORGET)
            connection.commit()


def test_killed_when_a_fact_was_lost() -> None:
    """A fetched body that nobody parsed and nobody will is published again."""
    walker = Walker("kill", only=lambda point: point.occurrence == 1)
    with Rehearsal.of(small_web()) as rehearsal:
        assert rehearsal.live().ending == "done"
        forget_output(rehearsal)
        assert names(anomalies(rehearsal.evidence())) == {"lost URL"}
        walker.points(rehearsal)
        walker.walk.found += anomalies(rehearsal.evidence())
    sound(walker.walk, "kills at a crash point", 6)
    assert Point("recover.republish.after", 1) in walker.walk.points


def test_the_host_that_rules_are_redirected_to_is_left_alone_too() -> None:
    """robots.txt may lead to another host, which holds no lease: a death in that hop is remembered for it as well."""
    sound(hop_walk(), "kills in the middle of an exchange", 12)


def rotten(twin: Rehearsal, place: int) -> list[str]:
    """Flip a bit in one response record of the open segment, then start again; other records that are gone."""
    path = next(path for path in twin.disk.snapshot() if path.name.endswith(".warc.gz.open"))
    data = twin.disk.snapshot()[path]
    spans = [(offset, length) for offset, length, member in members(data) if b"WARC-Type: response" in member[:60]]
    offset, length = spans[place]
    twin.disk.overwrite(path, offset + length // 2, bytes([data[offset + length // 2] ^ 1]))
    twin.live()
    evidence = twin.evidence()
    others = [fact.place for fact in evidence.facts if fact.place is not None and fact.place[1] != offset]
    segments = evidence.segments
    return [f"lost record: {at}" for at in others if not any(members(segments[at[0]][at[1] : at[1] + at[2]]))]


def test_one_rotten_record_costs_that_record_alone() -> None:
    """Recovery cuts a torn tail; what was acknowledged behind a damaged record is no tail, and stays."""
    places = itertools.count(1)
    walker = Walker("kill", lambda _point, twin: rotten(twin, next(places)), only=Late("fetch.complete.", 8))
    with Rehearsal.of(small_web()) as rehearsal:
        walker.points(rehearsal)
    sound(walker.walk, "kills with a rotten record", 8)


def test_every_crash_point_is_passed() -> None:
    """The list of crash points names nothing that does not happen, and the worlds leave nothing out."""
    counted = CountingMortality()
    for world in worlds():
        with Rehearsal.of(world) as rehearsal:
            rehearsal.live(counted)
    with Rehearsal.of(changing_web(1)) as rehearsal:
        rehearsal.live(counted)
        rehearsal.later(DAY_SECONDS + 3_600, changing_web(2))
        rehearsal.live(counted)
    with Rehearsal.of(shut_web()) as rehearsal:
        for _day in range(DAYS_SHUT + 1):
            rehearsal.live(counted)
            rehearsal.later(DAY_SECONDS)
    with Rehearsal.of(small_web()) as rehearsal:
        rehearsal.live(ScriptedDeath("fetch.line.before", 1))  # a robots.txt in the archive, without its line
        rehearsal.live(counted)
    with Rehearsal.of(small_web()) as rehearsal:
        rehearsal.live(ScriptedDeath("fetch.publish.after", 1))  # in the archive, announced, not completed
        rehearsal.live(counted)
        forget_output(rehearsal)
        rehearsal.live(counted)
    operated(counted)
    gapped(counted)
    assert CRASH_POINTS - counted.passed.keys() == set()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["kill", "power cut"])
@pytest.mark.parametrize("world", [*worlds(), wide_web()], ids=lambda world: world.name)
def test_dead_at_every_step_of_every_world(world: World, mode: Mode) -> None:
    """Every crash point, every stage of every exchange, every commit and every operation of the archive's disk."""
    for kind in KINDS:
        sound(walked(kind, world, Walker(mode)), f"{mode}s at {kind.replace('_', ' ')}", 20)


@pytest.mark.slow
def test_dead_at_every_step_with_a_slow_host() -> None:
    """The gap after a slow answer outlives a death."""
    for kind in ("points", "exchanges"):
        sound(walked(kind, sluggish_web(), Walker("kill")), f"kills at {kind}", 20)

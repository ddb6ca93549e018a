"""Every crash point: a crawl is stopped on both sides of every durable step, at every occurrence, and started again."""

from crash.checkers import anomalies
from crash.ledger import LEDGER
from crash.rehearsal import Rehearsal
from crash.walk import Point, Walk, Walker, walked
from crash.world import changing_web, refusing_web, rough_web, shut_web, small_web

DAY_SECONDS = 86_400.0
DAYS_SHUT = 7


def sound(walk: Walk, what: str, deaths_min: int) -> None:
    """Enter the walk in the ledger; nothing may have been found, and it must have been a walk."""
    LEDGER.enter(what, walk)
    assert walk.found[:5] == []
    assert walk.deaths >= deaths_min


class First:
    """Lets each name through `times` times in a walk: at its first occurrences."""

    def __init__(self, times: int) -> None:
        self._times = times

    def __call__(self, point: Point) -> bool:
        """Whether the walk stops here."""
        return point.occurrence <= self._times


def test_an_undisturbed_crawl_shows_the_checkers_nothing() -> None:
    """The checkers find nothing where nothing died, in every world, and the crawl ends by the rule that ends runs."""
    for world in (small_web(), rough_web(), refusing_web()):
        with Rehearsal.of(world) as rehearsal:
            assert rehearsal.live().ending == "done"
            assert not rehearsal.was_left_unclean()
            assert anomalies(rehearsal.evidence()) == []


def test_killed_at_every_crash_point() -> None:
    """Killed at any durable step, at any occurrence, the next start puts everything right."""
    sound(walked("points", small_web(), Walker("kill")), "kills at a crash point", 200)


def test_killed_at_the_crash_points_of_a_rough_web() -> None:
    """The same where bodies break off, connections are refused, records read badly and hosts have too many URLs."""
    only = First(1)
    sound(walked("points", rough_web(), Walker("kill", only=only)), "kills at a crash point", 30)
    sound(walked("points", refusing_web(), Walker("kill", only=only)), "kills at a crash point", 25)


def test_power_cut_at_crash_points() -> None:
    """When the power goes, what was not synced is lost, but for a torn piece: nothing acknowledged was among it."""
    sound(walked("points", small_web(), Walker("power cut", only=First(2))), "power cuts at a crash point", 50)


def test_killed_in_the_middle_of_every_exchange() -> None:
    """A host that may still be answering is left alone for two of its gaps, and at least ten seconds."""
    for world in (small_web(), rough_web()):
        sound(walked("exchanges", world, Walker("kill")), "kills in the middle of an exchange", 40)


def test_killed_when_rules_have_changed() -> None:
    """What was denied under other rules is due again, though the process die between the two writes."""
    walker = Walker("kill")
    with Rehearsal.of(changing_web(1)) as rehearsal:
        assert rehearsal.live().ending == "done"
        rehearsal.later(DAY_SECONDS + 3_600, changing_web(2))
        walker.points(rehearsal)
        walker.walk.found += anomalies(rehearsal.evidence())
    sound(walker.walk, "kills at a crash point", 50)
    assert Point("fetch.rearm.after", 1) in walker.walk.points


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

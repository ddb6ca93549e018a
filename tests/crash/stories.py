"""Walks that need more than one plain life before them."""

import itertools
import sqlite3
from contextlib import closing
from typing import Final

import msgspec

from crash.checkers import anomalies
from crash.parts import REHEARSED
from crash.rehearsal import Mode, Rehearsal
from crash.walk import Judge, Made, Only, Point, Walk, WalkedPoints, Walker, resumed, walked
from crash.world import World, changing_web, refusing_web, sluggish_web, small_web
from limpet.embedded.orderbook import OrderBook
from limpet.embedded.parts import Parts
from limpet.model.events import LINKS_DISCOVERED
from limpet.politeness.orders import NO_ORDER, HostOrder
from limpet.runtime import Mortality
from limpet.testing.death import ScriptedDeath

DAY_SECONDS: Final = 86_400.0
BLOCKED_HOST: Final = "beta.test"
SLUGGISH_HOST: Final = "nu.test"
RENEWED_STEPS: Final = ("fetch.rearm.", "fetch.robots.", "fetch.deny.", "fetch.hand_back.")
GAPPED_AT: Final = 3  # acceptances before the death: links of what was accepted last are not read yet
READ: Final = "SELECT source, next FROM consumed WHERE topic = ? AND part = ?"
LOSE: Final = "DELETE FROM log WHERE topic = ? AND part = ? AND offset >= ?"
BEGIN: Final = "UPDATE log_part SET start = finish WHERE topic = ? AND part = ?"
RECOVERY_STEPS_MIN: Final = 4  # ending the leases of two shards, with a point on both sides


def changing_walk(parts: Parts = REHEARSED) -> Walk:
    """Die where robots.txt is fetched anew on a second day, and forbids no more what it forbade on the first."""
    walker = Walker("kill", made=Made(parts=parts), only=lambda point: point.name.startswith(RENEWED_STEPS))
    with Rehearsal.of(changing_web(1)) as rehearsal:
        rehearsal.live(parts=parts)
        rehearsal.later(DAY_SECONDS + 3_600, changing_web(2))
        walker.points(rehearsal)
        walker.walk.found += anomalies(rehearsal.evidence())
    return walker.walk


def hop_walk(parts: Parts = REHEARSED) -> Walk:
    """Die in the middle of exchanges of a host whose rules lie on another one, to which the user then adds a URL."""
    made = Made(parts=parts)

    def judge(point: Point, twin: Rehearsal) -> list[str]:
        twin.later(0.0, msgspec.structs.replace(twin.world, seeds=("http://eta.test/",)))
        return resumed(made)(point, twin)

    hosts = [host for host in refusing_web().hosts if host.name != "delta.test"]
    world = World(name="hop", seeds=("http://epsilon.test/",), hosts=hosts)
    return walked("exchanges", world, Walker("kill", judge, made=made))


def lose_links(rehearsal: Rehearsal) -> int:
    """Every log of links is gone as far as it was not read, as after a shard was put back from an older copy."""
    lost = 0
    files = rehearsal.evidence().shard_files
    for reader, path in enumerate(files):
        with closing(sqlite3.connect(path)) as connection:
            read = dict(connection.execute(READ, (LINKS_DISCOVERED, reader)))
        for source, log in enumerate(files):
            with closing(sqlite3.connect(log)) as connection:
                place = (LINKS_DISCOVERED, reader, read.get(source, 1))
                lost += connection.execute(LOSE, place).rowcount
                connection.execute(BEGIN, place[:2])
                connection.commit()
    return lost


def gapped_walk(parts: Parts = REHEARSED) -> Walk:
    """Die before admission reads what was published, lose it on the bus, and die wherever that is mended."""
    made = Made(parts=parts)
    walker = Walker("kill", made=made, only=lambda point: point.name.startswith(("recover.gap.", "recover.pass.")))
    with Rehearsal.of(small_web()) as rehearsal:
        rehearsal.live(ScriptedDeath("parse.accept.after", GAPPED_AT), parts=parts)
        assert lose_links(rehearsal)
        walker.points(rehearsal)
        walker.walk.found += anomalies(rehearsal.evidence())
    return walker.walk


def gapped(mortality: Mortality) -> None:
    """The life in which lost links come back."""
    with Rehearsal.of(small_web()) as rehearsal:
        rehearsal.live(ScriptedDeath("parse.accept.after", GAPPED_AT))
        lose_links(rehearsal)
        rehearsal.live(mortality)


def order(rehearsal: Rehearsal, host: str, wanted: HostOrder) -> None:
    """What an operator does with `limpet hosts`."""
    OrderBook(rehearsal.folder).change(host, lambda _: wanted)


def blocked_walk(parts: Parts = REHEARSED) -> Walk:
    """A host is paused from the start, then blocked, then goes on; die wherever rows are taken out and put back."""
    made = Made(parts=parts)

    def freed(point: Point, twin: Rehearsal) -> list[str]:
        order(twin, BLOCKED_HOST, NO_ORDER)
        return resumed(made)(point, twin)

    out = Walker("kill", freed, made=made, only=lambda point: point.name.startswith("fetch.cancel."))
    back = Walker("kill", made=made, only=lambda point: point.name.startswith("fetch.uncancel."))
    with Rehearsal.of(small_web()) as rehearsal:
        order(rehearsal, BLOCKED_HOST, HostOrder(paused_us=1))
        rehearsal.live(parts=parts)
        order(rehearsal, BLOCKED_HOST, HostOrder(blocked_us=1))
        out.points(rehearsal)
        out.walk.found += [f"impolite fetch: {visit.url}" for visit in rehearsal.visits if BLOCKED_HOST in visit.url]
        waiting = [row for row in rehearsal.evidence().rows if BLOCKED_HOST in row.url and row.state != "cancelled"]
        out.walk.found += [f"not cancelled: {row.url} is {row.state}" for row in waiting]
        order(rehearsal, BLOCKED_HOST, NO_ORDER)
        back.points(rehearsal)
        out.walk.found += anomalies(rehearsal.evidence())
    out.walk.add(back.walk)
    return out.walk


def interrupted_walk(parts: Parts = REHEARSED) -> Walk:
    """A host is blocked while an answer of it is under way, and goes on later; die where that answer is taken in."""
    walker = Walker("kill", made=Made(parts=parts), only=lambda point: point.name.startswith("fetch.adopt."))

    def freed(point: Point, twin: Rehearsal) -> list[str]:
        order(twin, SLUGGISH_HOST, NO_ORDER)
        return resumed(Made(parts=parts))(point, twin)

    with Rehearsal.of(sluggish_web()) as rehearsal:
        mortality = WalkedPoints(lambda point: walker.at(rehearsal, point, freed))
        rehearsal.live(mortality, parts=parts, at_stage=lambda stage, url: _block_at(rehearsal, stage, url))
        order(rehearsal, SLUGGISH_HOST, NO_ORDER)
        rehearsal.live(parts=parts)
        walker.walk.found += anomalies(rehearsal.evidence())
    return walker.walk


def operated(mortality: Mortality) -> None:
    """A life in which a host is blocked while an answer of it is under way, and the next, in which it goes on."""
    with Rehearsal.of(sluggish_web()) as rehearsal:
        rehearsal.live(mortality, at_stage=lambda stage, url: _block_at(rehearsal, stage, url))
        order(rehearsal, SLUGGISH_HOST, NO_ORDER)
        rehearsal.live(mortality)


def _block_at(rehearsal: Rehearsal, stage: str, url: str) -> None:
    if url.endswith("/0") and stage == "request":
        order(rehearsal, SLUGGISH_HOST, HostOrder(blocked_us=1))


class Nested:
    """The judge of first deaths: dies again in the recovery that follows, at every step or at some, then looks.

    With `all_steps` False each recovery dies at one step in turn, and at every step that none has died at before: all
    first deaths are covered, and all steps of recovery.
    """

    def __init__(self, mode: Mode, made: Made, *, all_steps: bool) -> None:
        self.second = Walk()
        self._mode: Mode = mode
        self._made = made
        self._all_steps = all_steps
        self._turns = itertools.count()

    def __call__(self, _point: Point, twin: Rehearsal) -> list[str]:
        """See `Judge`."""
        walker = Walker(self._mode, made=self._made, only=self._chosen(twin))
        walker.points(twin)
        self.second.add(walker.walk)
        return walker.walk.found

    def _chosen(self, twin: Rehearsal) -> Only:
        turn = next(self._turns) % RECOVERY_STEPS_MIN
        places = itertools.count()

        def only(point: Point) -> bool:
            if twin.phase != "recover":
                return False
            return next(places) == turn or self._all_steps or point not in self.second.points

        return only


def nested_walk(
    world: World, mode: Mode, *, all_steps: bool, only: Only, parts: Parts = REHEARSED, stop_at_first: bool = False
) -> tuple[Walk, Walk]:
    """Die at crash points, and again in the recovery that follows. The walks of first and of second deaths."""
    made = Made(parts=parts)
    nested = Nested(mode, made, all_steps=all_steps)
    judge: Judge = nested
    walker = Walker(mode, judge, made=made, only=only, stop_at_first=stop_at_first)
    with Rehearsal.of(world) as rehearsal:
        walker.points(rehearsal)
    return walker.walk, nested.second


def every(count: int) -> Only:
    """Each `count`-th point of a walk."""
    places = itertools.count()
    return lambda _point: next(places) % count == 0

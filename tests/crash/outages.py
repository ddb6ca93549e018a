"""Outages of ours: the bus, the archive or the store is down for a while, and the crawl has to hold its breath."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from crash.checkers import anomalies
from crash.parts import REHEARSED
from crash.rehearsal import Life, Rehearsal
from crash.world import World, wide_web
from limpet.bus import Position
from limpet.bus.sqlite import SqliteProducer
from limpet.clock import Clock
from limpet.embedded.parts import Parts
from limpet.model.errors import Definite
from limpet.runtime import InlineRunner, Runner
from limpet.testing.fault_runners import HangingRunner
from limpet.testing.loop import EPOCH_US

LONG_SECONDS: Final = 22.0
HEALTH_SECONDS: Final = 5.0  # a confirmation of health is good for so long


class Bus:
    """A bus that is down from its `nth` publish on, for `LONG_SECONDS`: calls are refused, nothing of them happens."""

    def __init__(self, nth: int) -> None:
        self.publishes = 0
        self.down_at = float("inf")
        self._nth = nth

    def check(self, now: float, *, publish: bool) -> None:
        """Raise while it is down."""
        self.publishes += publish
        if publish and self.publishes == self._nth:
            self.down_at = now
        if self.down_at <= now < self.down_at + LONG_SECONDS:
            raise Definite("the bus is down")

    def producer(self) -> type[SqliteProducer]:
        """The class of its producers."""
        bus = self

        class DownProducer(SqliteProducer):
            async def publish(self, topic: str, messages: Sequence[tuple[int, bytes]]) -> list[Position]:
                bus.check(self._clock.monotonic(), publish=True)
                return await super().publish(topic, messages)

            async def healthy(self) -> None:
                bus.check(self._clock.monotonic(), publish=False)
                await super().healthy()

        return DownProducer


def bus_down(nth: int, world: World, parts: Parts = REHEARSED) -> list[str]:
    """A crawl whose bus goes down at its `nth` publish: what was sent when nothing should be, and the anomalies."""
    bus = Bus(nth)
    with Rehearsal.of(world) as rehearsal:
        life = rehearsal.live(parts=replace(parts, producer=bus.producer()))
        return _judged(rehearsal, life, bus.down_at)


def count_publishes(world: World) -> int:
    """Publishes of an undisturbed life."""
    bus = Bus(0)
    with Rehearsal.of(world) as rehearsal:
        rehearsal.live(parts=replace(REHEARSED, producer=bus.producer()))
    return bus.publishes


def hanging(which: Literal["appends", "commits"], begin: float, parts: Parts = REHEARSED) -> list[str]:
    """A crawl whose archive (`appends`) or store (`commits`) hangs from `begin` on."""

    def make_runner(name: str, clock: Clock) -> Runner:
        return HangingRunner(clock, begin, begin + LONG_SECONDS) if name == which else InlineRunner()

    with Rehearsal.of(wide_web()) as rehearsal:
        life = rehearsal.live(parts=parts, make_runner=make_runner)
        return _judged(rehearsal, life, begin)


def _judged(rehearsal: Rehearsal, life: Life, begin: float) -> list[str]:
    found = [] if life.ending == "done" else [f"no end: {life}"]
    begin_us, end_us = (EPOCH_US + int(at * 1e6) for at in (begin + HEALTH_SECONDS, begin + LONG_SECONDS))
    late = [visit for visit in rehearsal.visits if begin_us <= visit.start_us < end_us]
    found += [
        f"unhealthy fetch: {visit.url} was sent {(visit.start_us - begin_us) / 1e6:.1f} s too late" for visit in late
    ]
    return found + anomalies(rehearsal.evidence())

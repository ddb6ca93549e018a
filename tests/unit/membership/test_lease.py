"""Leases as their owner counts them, and deaths as others see them, on clocks that differ."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.membership import Beat, Lease, Observer, Presence, Timing
from limpet.membership.timing import CLOCK_RATE_ERROR_MAX
from limpet.testing.loop import EPOCH_US, SimClock, VirtualLoop, run_virtual
from limpet.testing.memory_leases import MemoryLeaseTable

TIMING = Timing(lease_seconds=60, margin_seconds=1.25, fetch_seconds_max=30, poll_seconds=1)
BEAT = Beat("other", "crawlnode", 1)


class HandClock:
    """Boot time as a test sets it."""

    def __init__(self, boot_us: int = 0) -> None:
        self.now_us = boot_us

    def wall_us(self) -> int:
        return EPOCH_US + self.now_us

    def monotonic(self) -> float:
        return self.now_us / 1e6

    def boot_us(self) -> int:
        return self.now_us

    def boot_id(self) -> str:
        return "hand"

    async def sleep(self, seconds: float) -> None:
        self.now_us += int(seconds * 1e6)


def test_a_lease_counts_from_the_sending() -> None:
    """Not from the acknowledgement, and not alive before the first one."""
    clock = HandClock(1_000)
    lease = Lease("mine", clock, 100)
    assert not lease.alive()
    assert not lease.gone()
    clock.now_us = 1_040
    lease.renewed(1_000)
    assert lease.alive()
    clock.now_us = 1_099
    assert lease.alive()
    clock.now_us = 1_100
    assert not lease.alive()
    assert lease.gone()


def test_a_lease_has_an_age_while_there_is_one() -> None:
    """Since the last acknowledged renewal was sent, also once it ran out; none before the first, none at the end."""
    clock = HandClock(1_000)
    lease = Lease("mine", clock, 100)
    assert lease.age_us() is None
    lease.renewed(1_000)
    clock.now_us = 1_060
    assert lease.age_us() == 60
    lease.renewed(1_050)
    assert lease.age_us() == 10
    clock.now_us = 1_500
    assert lease.age_us() == 450
    lease.end()
    assert lease.age_us() is None


def test_a_lease_that_ran_out_is_over_for_good() -> None:
    """A renewal that was sent in time and is acknowledged too late changes nothing: others may have judged by now."""
    clock = HandClock()
    lease = Lease("mine", clock, 100)
    lease.renewed(0)
    clock.now_us = 101
    lease.renewed(99)
    assert lease.gone()
    late = Lease("mine too", clock, 100)
    clock.now_us = 301
    late.renewed(200)
    assert late.gone()


def test_an_older_acknowledgement_shortens_nothing() -> None:
    """Replies may overtake each other."""
    clock = HandClock()
    lease = Lease("mine", clock, 100)
    lease.renewed(50)
    lease.renewed(0)
    clock.now_us = 149
    assert lease.alive()


def found_dead_while_alive(rate: float, other_rate: float, question: float, timing: Timing) -> bool:
    """Whether an observer judges at a real instant, `question` times lease and margin after a beat, while it holds."""
    mine, theirs = HandClock(), HandClock()
    lease, observer = Lease("other", theirs, timing.lease_us), Observer(MemoryLeaseTable(), mine, timing)
    lease.renewed(0)
    observer.saw({"other": BEAT}, (), 0)
    real_us = question * (timing.lease_seconds + timing.margin_seconds) * 1e6
    mine.now_us, theirs.now_us = int(real_us * rate), int(real_us * other_rate)
    observer.saw({"other": BEAT}, (), mine.now_us)
    return observer.dead("other") and lease.alive()


@given(
    rate=st.floats(1 - CLOCK_RATE_ERROR_MAX, 1 + CLOCK_RATE_ERROR_MAX),
    other_rate=st.floats(1 - CLOCK_RATE_ERROR_MAX, 1 + CLOCK_RATE_ERROR_MAX),
    question=st.floats(0.9, 1.1),
)
def test_nobody_is_judged_dead_while_his_lease_runs(rate: float, other_rate: float, question: float) -> None:
    """With the margin, whatever the two clocks do within a hundredth."""
    assert not found_dead_while_alive(rate, other_rate, question, TIMING)


class NoMargin(Timing, frozen=True):
    """The mistake of waiting for the lease only."""

    @property
    def death_us(self) -> int:
        return self.lease_us


def test_without_a_margin_he_would_be() -> None:
    """A fast observer and a slow owner: what the margin is for, and why less is refused."""
    bare = NoMargin(**{name: getattr(TIMING, name) for name in Timing.__struct_fields__})
    assert found_dead_while_alive(1.01, 0.99, 0.9802, bare)
    assert not found_dead_while_alive(1.01, 0.99, 0.9802, TIMING)
    with pytest.raises(ValueError, match="margin_seconds = 1 must be"):
        Timing(lease_seconds=60, margin_seconds=1)
    with pytest.raises(ValueError, match="poll_seconds"):
        Timing(lease_seconds=6, poll_seconds=3)


def test_a_death_needs_a_question_that_was_sent_late_enough() -> None:
    """An answer that took a minute says nothing about that minute; a beat that changed begins anew."""
    clock = HandClock()
    observer = Observer(MemoryLeaseTable(), clock, TIMING)
    observer.saw({"other": BEAT}, (), 0)
    clock.now_us = 2 * TIMING.death_us
    observer.saw({"other": BEAT}, (), 10)
    assert not observer.dead("other")
    observer.saw({"other": BEAT}, (), TIMING.death_us)
    assert observer.dead("other")
    assert not observer.fetched_out("other")
    assert observer.living("crawlnode") == []
    observer.saw({"other": BEAT}, (), TIMING.takeover_us)
    assert observer.fetched_out("other")
    observer.saw({"other": Beat("other", "crawlnode", 2)}, (), clock.now_us)
    assert not observer.dead("other")


def test_who_is_named_but_never_beat_is_watched_too() -> None:
    """An owner whose row is lost or was forgotten is dead after the same time; nobody else is known to be."""
    clock = HandClock()
    observer = Observer(MemoryLeaseTable(), clock, TIMING)
    observer.saw({}, ["owner", ""], 0)
    clock.now_us = TIMING.death_us
    observer.saw({}, ["owner", ""], clock.now_us)
    assert observer.dead("owner")
    assert not observer.dead("stranger")


def test_a_presence_beats_tells_at_once_and_is_forgotten() -> None:
    """Every third of a lease, and when the shards that it is told to have change."""
    loop = VirtualLoop()
    clock, table, stop = SimClock(loop), MemoryLeaseTable(), asyncio.Event()
    presence = Presence(table, clock, TIMING, role="parser", new_incarnation=lambda: "mine")

    async def beat() -> Beat:
        return (await table.incarnations())[0]

    async def main() -> None:
        running = asyncio.ensure_future(presence.run(stop))
        await clock.sleep(59)
        assert presence.lease.alive()
        assert await beat() == Beat("mine", "parser", 3)
        presence.wants = lambda: frozenset({5})
        await clock.sleep(0.5)
        assert await beat() == Beat("mine", "parser", 4, frozenset({5}))
        stop.set()
        await running
        assert presence.lease.gone()
        assert await table.incarnations() == []

    run_virtual(main(), loop)

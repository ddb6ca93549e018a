"""No two sends to a host closer than its gap, never inside Retry-After: under any interleaving, clock jump, restart.

First whole crawls in virtual time. What hypothesis chooses: how slow the hosts are, what they ask for, when the process
dies and how long it stays dead, and when somebody sets the wall clock, under a running process or between two lives.
Then the governor alone, step by step against a model that is nothing but the rules.
"""

import asyncio
import logging
from collections.abc import Iterator
from email.utils import formatdate

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from crash.checkers import anomalies, names
from crash.mutants import TokensPileUp
from crash.rehearsal import Rehearsal
from crash.world import Host, World
from limpet.config.settings import Politeness
from limpet.politeness import Governor, HostState, Permit, retry_after_us
from limpet.politeness.orders import HostOrder, Orders
from limpet.runtime import Killed
from limpet.testing.death import CountingMortality
from limpet.testing.loop import EPOCH_US, SimClock
from limpet.urlstore import HostRow

LIVES_MAX = 3
HOUR = 3_600.0
EXCUSED = {"too many requests", "orphan record"}  # of a crawl whose clock jumps: it may have to ask again


class Jump(msgspec.Struct, frozen=True):
    """The wall clock is set by `seconds` so long `after` the start of a life."""

    after: float
    seconds: float


class Fate(msgspec.Struct, frozen=True):
    """What becomes of one life, and of the clock until the next."""

    dies_after: float  # seconds
    in_exchange: bool  # else at a crash point
    power: bool
    dead_for: float
    jumps: tuple[Jump, ...]
    clock_moved: float  # while nobody looked


class Plan(msgspec.Struct, frozen=True):
    """One crawl."""

    hosts: tuple[Host, ...]
    fates: tuple[Fate, ...]


class DiesAt(CountingMortality):
    """Dies at the first crash point, or the first stage of an exchange, that comes when its time is over."""

    def __init__(self, loop_time: "Clockwork", fate: Fate) -> None:
        super().__init__()
        self._clockwork = loop_time
        self._fate = fate
        self.dead = False

    def crashpoint(self, name: str) -> None:
        """See `Mortality.crashpoint`."""
        super().crashpoint(name)
        self._maybe(at_exchange=False)

    def stage(self, _stage: str, _url: str) -> None:
        """See `AtStage`."""
        self._maybe(at_exchange=True)

    def _maybe(self, *, at_exchange: bool) -> None:
        over = self._clockwork.seconds() > self._fate.dies_after
        self.dead = self.dead or (over and self._fate.in_exchange == at_exchange)
        if self.dead:
            raise Killed("its time was over")


class Clockwork:
    """Sets timers in a life: how old it is, and when the wall clock jumps."""

    def __init__(self, jumps: tuple[Jump, ...]) -> None:
        self._jumps = jumps
        self._begun = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, clock: SimClock) -> None:
        """Called when the process starts."""
        self._loop = asyncio.get_running_loop()
        self._begun = self._loop.time()
        for jump in self._jumps:
            self._loop.call_later(jump.after, clock.jump, jump.seconds)

    def seconds(self) -> float:
        """Age of the life."""
        return 0.0 if self._loop is None else self._loop.time() - self._begun


# -- what hypothesis chooses -------------------------------------------------------------------------------------------
def host(name: str, other: str) -> st.SearchStrategy[Host]:
    """A host with four pages in a row, one of which leads to the other host."""
    pages = {"/": ("/a", f"http://{other}/"), "/a": ("/b", "/secret"), "/b": ("/c",), "/c": ("/",)}
    return st.builds(
        Host,
        name=st.just(name),
        pages=st.just(pages),
        disallowed=st.just(("/secret",)),
        busy=st.sets(st.sampled_from(["/", "/a", "/b", "/c"]), max_size=2).map(tuple),
        latency_seconds=st.sampled_from([0.001, 0.05, 0.7, 3.0, 8.0]),
        crawl_delay_seconds=st.sampled_from([0.0, 0.0, 0.5, 2.5, 12.0]),
        retry_after_seconds=st.sampled_from([0, 1, 11, 45]),
        retry_after_as_date=st.booleans(),
    )


seconds_moved = st.sampled_from([0.0, 1.0, -1.0, 3.0, -3.0, 50.0, -50.0, HOUR, -HOUR, 30 * HOUR, -30 * HOUR])
jumps = st.lists(st.builds(Jump, after=st.floats(0.0, 60.0), seconds=seconds_moved), max_size=2).map(tuple)
fates = st.builds(
    Fate,
    dies_after=st.floats(0.0, 40.0),
    in_exchange=st.booleans(),
    power=st.booleans(),
    dead_for=st.sampled_from([0.0, 0.3, 5.0, 30.0]),
    jumps=jumps,
    clock_moved=seconds_moved,
)
calm = st.builds(
    Fate,
    dies_after=st.floats(0.0, 40.0),
    in_exchange=st.booleans(),
    power=st.booleans(),
    dead_for=st.sampled_from([0.0, 0.3, 5.0, 30.0]),
    jumps=st.just(()),
    clock_moved=st.just(0.0),
)
hosts = st.tuples(host("alpha.test", "beta.test"), host("beta.test", "alpha.test"))
plans = st.builds(Plan, hosts=hosts, fates=st.lists(fates, max_size=LIVES_MAX).map(tuple))
calm_plans = st.builds(Plan, hosts=hosts, fates=st.lists(calm, max_size=LIVES_MAX).map(tuple))
crawls = settings(
    max_examples=15,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # a crawl takes too long to be shrunk as a matter of course
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def crawl(plan: Plan, last_jumps: tuple[Jump, ...] = ()) -> list[str]:
    """Live the lives of the plan, then one that nothing kills; what was wrong."""
    world = World(name="chosen", hosts=list(plan.hosts), seeds=("http://alpha.test/",))
    with Rehearsal.of(world) as rehearsal:
        for fate in plan.fates:
            clockwork = Clockwork(fate.jumps)
            mortality = DiesAt(clockwork, fate)
            life = rehearsal.live(mortality, during=clockwork.start, at_stage=mortality.stage)
            if life.ending == "killed" and fate.power:
                rehearsal.lose("power cut")
            rehearsal.later(fate.dead_for)
            rehearsal.wall_moved_seconds += fate.clock_moved
        last = rehearsal.live(during=Clockwork(last_jumps).start)
        for _again in range(LIVES_MAX):  # a ring ends when the clock was moved under it, and is started again
            last = last if last.ending == "done" else rehearsal.live()
        stuck = [] if last.ending == "done" else [f"no end: {last}"]
        return stuck + anomalies(rehearsal.evidence())


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@crawls
@given(plan=calm_plans)
def test_no_restart_presses_a_host(plan: Plan) -> None:
    """Dying at any instant and coming back after any pause: every gap and every wait is kept, and nothing is lost."""
    assert crawl(plan) == []


@crawls
@given(plan=plans, last=jumps)
def test_no_clock_presses_a_host(plan: Plan, last: tuple[Jump, ...]) -> None:
    """A wall clock that jumps, under a life or between two, shortens no wait; the crawl ends once it stands still."""
    found = crawl(plan, last)
    assert names(found) - EXCUSED == set(), found


@given(seconds=st.integers(0, 10**6), ours=st.integers(-(10**6), 10**6))
def test_a_dated_retry_after_needs_no_common_clock(seconds: int, ours: int) -> None:
    """The wait is the distance between the response's two dates, whatever our own clock says."""
    said = EPOCH_US // 1_000_000
    dates = [formatdate(at, usegmt=True).encode() for at in (said, said + seconds)]
    assert retry_after_us(dates[1], EPOCH_US + ours * 1_000_000, dates[0]) == seconds * 1_000_000


# -- the governor alone ------------------------------------------------------------------------------------------------
class HandClock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.moved = 0.0

    def wall_us(self) -> int:
        """See `Clock.wall_us`."""
        return EPOCH_US + round((self.now + self.moved) * 1e6)

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self.now

    def boot_us(self) -> int:
        """See `Clock.boot_us`."""
        return round(self.now * 1e6)

    def boot_id(self) -> str:
        """See `Clock.boot_id`."""
        return "hand"

    async def sleep(self, seconds: float) -> None:
        """See `Clock.sleep`."""
        self.now += seconds


class Site:
    """What the rules say of one host; times are boot seconds."""

    def __init__(self) -> None:
        self.delay = 0.0
        self.free_at = 0.0  # the gap after the last answer, and after the start
        self.wait_until = 0.0
        self.took = 0.0  # the last answer, as far as it is durable or of this process
        self.open_since: float | None = None
        self.ordered = 0.0  # the operator's gap
        self.paused = False

    @property
    def gap(self) -> float:
        """The largest of floor, crawl-delay, the operator's wish and five times the last answer (30 s at most)."""
        return max(1.0, self.delay, self.ordered, min(30.0, 5 * self.took))


class GovernedHosts(RuleBasedStateMachine):
    """Permits, answers, waits, deaths and clocks in any order."""

    make: type[Governor] = Governor
    names = ("a.test", "b.test")
    SLACK = 1e-5

    def __init__(self) -> None:
        super().__init__()
        self.clock = HandClock()
        self.stored: dict[str, HostRow] = {}
        self.sites = {name: Site() for name in self.names}
        self.permits: dict[str, Permit] = {}
        self.orders: dict[str, HostOrder] = {}
        self.restart(0.0)

    def state(self, name: str) -> HostState:
        """The host as the governor has it, located as far as it wants that."""
        state = self.governor.meet(self.stored.get(name) or HostRow(host=name))
        if self.governor.needs_locating(state):
            self.governor.located(state, [f"192.0.2.{self.names.index(name) + 1}"])
        return state

    @rule(seconds=st.sampled_from([0.05, 0.9, 1.0, 3.0, 9.0, 31.0, 700.0]))
    def time_passes(self, seconds: float) -> None:
        """Nothing happens for a while."""
        self.clock.now += seconds

    @rule(name=st.sampled_from(names))
    def asks(self, name: str) -> None:
        """A permit is given when the rules allow it, and then it is not withheld."""
        site, now = self.sites[name], self.clock.now
        permit = self.governor.permit(self.state(name))
        allowed_at = max(site.free_at, site.wait_until)
        if site.paused:
            assert permit is None
        elif permit is not None:
            assert site.open_since is None
            assert now >= allowed_at - self.SLACK
            site.open_since = now
            self.permits[name] = permit
        else:
            assert site.open_since is not None or now <= allowed_at + self.SLACK

    @rule(name=st.sampled_from(names), busy=st.booleans(), wait=st.sampled_from([1.0, 20.0, 900.0]))
    def answers(self, name: str, *, busy: bool, wait: float) -> None:
        """An exchange ends; the site may have asked to be left alone."""
        permit, site = self.permits.pop(name, None), self.sites[name]
        if permit is None or site.open_since is None:
            return
        state, took = permit.state, self.clock.now - site.open_since
        if busy:
            until_us = self.clock.wall_us() + int(wait * 1e6)
            self.stored[name] = self.governor.wait_until(state, until_us, "http_503")
            site.wait_until = max(site.wait_until, self.clock.now + wait)
        self.governor.end(permit, round(took * 1e6))
        self.governor.failing(state, good=not busy)
        row = self.governor.unsaved(state)
        self.stored[name] = row if row is not None else self.stored.get(name, HostRow(host=name))
        site.open_since, site.took = None, took
        site.free_at = self.clock.now + site.gap

    @rule(name=st.sampled_from(names), seconds=st.sampled_from([0.5, 4.0, 45.0]))
    def reads_robots(self, name: str, seconds: float) -> None:
        """A crawl-delay binds from now on, counted from the last answer; the largest wins."""
        site = self.sites[name]
        before, site.delay = site.gap, max(site.delay, seconds)
        site.free_at += site.gap - before
        self.governor.set_crawl_delay(self.state(name), seconds)

    @rule(name=st.sampled_from(names), paused=st.booleans(), gap=st.sampled_from([0.0, 0.1, 5.0, 50.0]))
    def orders_come(self, name: str, *, paused: bool, gap: float) -> None:
        """An operator pauses, slows, and takes it back: nothing that the site asks for is forgotten over it."""
        site = self.sites[name]
        before, site.ordered, site.paused = site.gap, gap, paused
        site.free_at += site.gap - before
        self.orders = self.orders | {name: HostOrder(paused_us=int(paused), gap_seconds=gap)}
        self.governor.obey(self.orders)

    @rule(moved=st.sampled_from([0.0, 0.0, -100_000.0, -5.0, 5.0, 100_000.0]))
    def restart(self, moved: float) -> None:
        """Dies and starts at once: every host waits a gap, one that may be answering two, and at least ten seconds.

        A wall clock that was set meanwhile moves the stored waits with it.
        """
        self.clock.moved += moved
        self.stored = {
            name: msgspec.structs.replace(row, wait_us=row.wait_us + round(moved * 1e6)) if row.wait_us else row
            for name, row in self.stored.items()
        }
        self.governor = self.make(self.clock, Politeness(), lambda _: False)
        self.governor.obey(self.orders)
        self.permits.clear()
        for name, site in self.sites.items():
            state = self.state(name)
            site.took = self.stored[name].response_us / 1e6 if name in self.stored else 0.0
            site.free_at = self.clock.now + site.gap
            if site.delay:
                self.governor.set_crawl_delay(state, site.delay)
            if site.open_since is not None:
                self.stored[name] = row = self.governor.unfinished(state)
                self.governor.wait_until(state, row.wait_us, row.wait_reason)
                site.wait_until = max(site.wait_until, self.clock.now + max(10.0, 2 * site.gap))
                site.open_since = None

    @invariant()
    def never_says_sooner(self) -> None:
        """What the governor says of the time to wait is never less than the rules say."""
        for name, site in self.sites.items():
            left = max(site.free_at, site.wait_until) - self.clock.now
            assert (
                self.governor.ready_in(self.state(name)) >= min(left, 0.0) - self.SLACK or site.open_since is not None
            )
            if left > 0 or site.paused:
                assert self.governor.ready_in(self.state(name)) >= left - self.SLACK


TestGovernedHosts = GovernedHosts.TestCase
TestGovernedHosts.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class ForgetfulGovernor(Governor):
    """Broken: a wait that a site asked for is stored, and not obeyed."""

    def wait_until(self, state: HostState, until_us: int, reason: str) -> HostRow:
        """See `Governor.wait_until`."""
        return msgspec.structs.replace(state.row, wait_us=until_us, wait_reason=reason)


class EagerGovernor(Governor):
    """Broken: the gap is counted from the start of an exchange."""

    def end(self, permit: Permit, duration_us: int, *, sent: bool = True, counts: bool = True) -> None:
        """See `Governor.end`."""
        super().end(permit, duration_us, sent=sent, counts=counts)
        permit.state.free_at -= duration_us / 1e6


class ForgivingGovernor(Governor):
    """Broken: whatever an operator orders, a host starts afresh."""

    def obey(self, orders: Orders) -> set[str]:
        """See `Governor.obey`."""
        changed = super().obey(orders)
        for host in changed:
            self.meet(HostRow(host=host)).free_at = self._clock.monotonic()
        return changed


@pytest.mark.parametrize("broken", [TokensPileUp, ForgetfulGovernor, EagerGovernor, ForgivingGovernor])
def test_the_model_finds_a_broken_governor(broken: type[Governor]) -> None:
    """The machine is worth something: it fails with governors that forget a rule."""

    class Hosts(GovernedHosts):
        make = broken

    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            Hosts,
            settings=settings(
                max_examples=2_000,
                stateful_step_count=40,
                deadline=None,
                database=None,
                derandomize=True,  # a mutant is found every time or never
                phases=(Phase.generate,),
            ),
        )

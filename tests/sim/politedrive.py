"""Drives the real governors and schedulers of some workers through a world, in virtual time, with a fake exchange.

What a crawl node does around them is kept as small as it can be: look a host up, ask for a permit, send, tell the
answer, save what has to be saved, schedule again. Kills lose everything but the saved rows and the shared ledger.
"""

import heapq
from collections.abc import Callable
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from limpet.clock import DurableClock
from limpet.config.settings import Politeness, SharedRange
from limpet.crawlnode.scheduler import HostQueues, Scheduler
from limpet.politeness import Answer, Governor, HostState, Permit, Shares
from limpet.urlstore.types import HostRow
from sim.politecheck import Request
from sim.politeworld import CDN_NETWORK, SECOND, SETTLE_US, Site, World

EPOCH_US: Final = 1_800_000_000 // 86_400 * 86_400 * SECOND
BORN_US: Final = 1_000 * SECOND

OpenShares = Callable[[int], Shares]


class WorldClock:
    """The machine's clocks: one that nobody can move, and a wall that jumps."""

    def __init__(self) -> None:
        self.now_us = 0
        self.jumped_us = 0

    def wall_us(self) -> int:
        return EPOCH_US + self.now_us + self.jumped_us

    def boot_us(self) -> int:
        return BORN_US + self.now_us

    def monotonic(self) -> float:
        return self.boot_us() / 1e6

    def boot_id(self) -> str:
        return "world"

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError(seconds)


class Worker:
    """One process: what it knows is lost with it."""

    def __init__(self, drive: "Drive", number: int) -> None:
        self.number = number
        self.clock = DurableClock(drive.clock)
        self.governor = Governor(
            self.clock, drive.policy, lambda _: False, shares=drive.open_shares(number), fraction=drive.rng.random
        )
        self.scheduler = Scheduler()
        self.in_flight: dict[str, tuple[Permit, int]] = {}
        self.tick_us: int | None = None


class Drive:
    """One run of a world; `log` tells what was sent."""

    def __init__(self, world: World, open_shares: OpenShares, *, seed: int = 0, **wishes: Any) -> None:
        """`wishes` overrule settings, for rehearsals of a governor that is wrong."""
        cdn = SharedRange(networks=(CDN_NETWORK,), connections_max=16, starts_per_second_max=40)
        polite = Politeness(floor_seconds=world.floor_seconds, budget_per_day=world.budget, shared_ranges={"cdn": cdn})
        self.policy = replace(polite, **wishes)
        self.world = world
        self.rng = Random(seed)
        self.clock = WorldClock()
        self.open_shares = open_shares
        self.log: list[Request] = []
        self.sites = {site.name: site for site in world.sites}
        self.rows: dict[str, HostRow] = {}
        self.asked: dict[str, int] = dict.fromkeys(self.sites, 0)
        self.done: dict[str, int] = dict.fromkeys(self.sites, 0)
        self.workers: list[Worker | None] = [None] * world.workers
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = 0
        self.accepted_us = 0  # how far the wall was moved, as far as times on the disk know

    def run(self) -> None:
        """To the horizon, or until everything is done."""
        for number in range(self.world.workers):
            self._at(0, lambda number=number: self._start(number))  # type: ignore[misc]
        for at_us, number, back_us in self.world.kills:
            self._at(at_us, lambda number=number: self._kill(number))  # type: ignore[misc]
            self._at(back_us, lambda number=number: self._start(number))  # type: ignore[misc]
        for at_us, by_us in self.world.jumps:
            self._at(at_us, lambda by_us=by_us: self._jump(by_us))  # type: ignore[misc]
            self._at(at_us + SETTLE_US, self._accept)
        while self._events:
            at_us, _, happen = heapq.heappop(self._events)
            if at_us > self.world.horizon_us:
                return
            self.clock.now_us = max(self.clock.now_us, at_us)
            happen()

    def _at(self, us: int, happen: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._events, (us, self._serial, happen))

    # -- processes and clocks ----------------------------------------------------------------------------------------
    def _start(self, number: int) -> None:
        if self.workers[number] is not None:
            return
        worker = self.workers[number] = Worker(self, number)
        for site in self.world.sites:
            if site.worker == number and self.done[site.name] < site.pages:
                entry = worker.scheduler.offer(site.name, 0, site.name, 0)
                self._know(worker, site)
                self._reschedule(worker, entry)
        self._tick(worker)

    def _kill(self, number: int) -> None:
        """What was being asked has its connection cut; recovery makes those hosts wait."""
        worker = self.workers[number]
        if worker is None:
            return
        self.workers[number] = None
        recovery = Governor(DurableClock(self.clock), self.policy, lambda _: False)
        for name, (_, start_us) in worker.in_flight.items():
            site, n = self.sites[name], self.asked[name]
            self.log.append(Request(site, n, start_us, self.clock.now_us, cut=True))
            self.asked[name] = n + 1
            state = recovery.meet(self.rows.get(name) or HostRow(host=name))
            if n > 0 and site.crawl_delay_seconds:
                recovery.set_crawl_delay(state, site.crawl_delay_seconds)
            self.rows[name] = recovery.unfinished(state)

    def _jump(self, by_us: int) -> None:
        self.clock.jumped_us += by_us

    def _accept(self) -> None:
        """The wall clock stays where it was put: workers drain and start again, and times on the disk move along."""
        moved_us = self.clock.jumped_us - self.accepted_us
        self.accepted_us = self.clock.jumped_us
        for name, row in self.rows.items():
            wait_us = row.wait_us + moved_us if row.wait_us else 0
            broken_us = row.broken_us + moved_us if row.broken_us else 0
            self.rows[name] = replace(row, wait_us=wait_us, broken_us=broken_us)
        for number, worker in enumerate(self.workers):
            if worker is not None and not worker.clock.agrees():
                assert not worker.in_flight, "drained"
                self.workers[number] = None
                self._start(number)

    # -- what a crawl node does --------------------------------------------------------------------------------------
    def _know(self, worker: Worker, site: Site) -> None:
        state = worker.governor.meet(self.rows.get(site.name) or HostRow(host=site.name))
        if self.asked[site.name] > 0 and site.crawl_delay_seconds:
            worker.governor.set_crawl_delay(state, site.crawl_delay_seconds)

    def _state(self, worker: Worker, name: str) -> HostState:
        state = worker.governor.known(name)
        assert state is not None, "known since it was offered"
        return state

    def _tick(self, worker: Worker) -> None:
        """Call, visit, and come back when something may be ready."""
        if self.workers[worker.number] is not worker or not worker.clock.agrees():
            return
        now = self.clock.monotonic()
        for name in worker.governor.call():
            entry = worker.scheduler.get(name)
            if entry is None or entry.visiting:
                worker.governor.leave_line(self._state(worker, name))
            else:
                worker.scheduler.schedule(entry, now)
        while (entry := worker.scheduler.pop(now)) is not None:
            self._visit(worker, entry)
        self._come_back(worker)

    def _come_back(self, worker: Worker) -> None:
        next_at, call_in = worker.scheduler.next_at(), worker.governor.next_call_in()
        at = [] if next_at is None else [int(next_at * 1e6) + 1 - BORN_US]
        at += [] if call_in is None else [self.clock.now_us + max(1, int(call_in * 1e6))]
        if at and (worker.tick_us is None or min(at) < worker.tick_us or worker.tick_us <= self.clock.now_us):
            worker.tick_us = max(self.clock.now_us + 1, min(at))
            self._at(worker.tick_us, lambda: self._tick(worker))

    def _visit(self, worker: Worker, entry: HostQueues) -> None:
        site, state = self.sites[entry.host], self._state(worker, entry.host)
        if worker.governor.needs_locating(state):
            worker.governor.located(state, [site.address])
        permit = worker.governor.permit(state)
        if permit is None:
            self._reschedule(worker, entry)
            return
        entry.visiting = True
        worker.governor.awaits(state)
        worker.in_flight[site.name] = (permit, self.clock.now_us)
        duration_us = site.answer(self.asked[site.name]).duration_us
        self._at(self.clock.now_us + duration_us, lambda: self._end(worker, entry))

    def _end(self, worker: Worker, entry: HostQueues) -> None:
        if self.workers[worker.number] is not worker:
            return
        site = self.sites[entry.host]
        permit, start_us = worker.in_flight.pop(site.name)
        n, now_us = self.asked[site.name], self.clock.now_us
        answer, state, governor = site.answer(n), permit.state, worker.governor
        self.log.append(Request(site, n, start_us, now_us))
        self.asked[site.name] = n + 1
        if n == 0 and site.crawl_delay_seconds:
            governor.set_crawl_delay(state, site.crawl_delay_seconds)
        if answer.status == 429:
            until_us = worker.clock.wall_us() + answer.retry_after_seconds * SECOND
            self.rows[site.name] = governor.wait_until(state, until_us, "http_429")
        governor.end(permit, answer.duration_us)
        governor.overlooked(state)
        if n > 0:
            said = {200: Answer.GOOD, 429: Answer.REFUSED}.get(answer.status, Answer.TRANSIENT)
            governor.answered(state, said)
            governor.failing(state, good=answer.status == 200)
            self.done[site.name] += answer.status == 200
        row = governor.unsaved(state)
        if row is not None:
            self.rows[site.name] = row
        entry.visiting = False
        if self.done[site.name] >= site.pages:
            entry.due_us.clear()
        self._reschedule(worker, entry)
        self._tick(worker)

    def _reschedule(self, worker: Worker, entry: HostQueues) -> None:
        state = self._state(worker, entry.host)
        if not entry.due_us:
            worker.governor.leave_line(state)
            worker.scheduler.drop_if_idle(entry)
            return
        later = max(0.0, worker.governor.line_up(state))
        worker.scheduler.schedule(entry, self.clock.monotonic() + later)

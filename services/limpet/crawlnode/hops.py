"""Permits for the hops of a robots.txt: where a redirect leads is asked at that host's pace, soon or not now."""

from collections.abc import Awaitable, Callable
from typing import Final

from limpet.clock import DurableClock
from limpet.config import Settings
from limpet.crawlnode.errands import NotAsked
from limpet.crawlnode.exchange import Exchange, longest_fetch_us
from limpet.crawlnode.health import OUTAGE
from limpet.crawlnode.holdings import Holding, Holdings
from limpet.crawlnode.steps import FetchSteps
from limpet.model.urls import split
from limpet.politeness import Governor, HostState, Permit
from limpet.politeness.delays import CRAWL_DELAY
from limpet.politeness.unfinished import UNFINISHED
from limpet.urlstore import UrlStore

HOP_WAIT_SECONDS_MAX: Final = 30.0
"""How long a hop waits for its host. Five of them lie well below a lease; the URL that wants the rules is leased."""
HOP_WAIT_LEASE_SHARE: Final = 0.1
"""What it waits at most where leases are short."""
AFTER_DEATH_LEASE_SHARE: Final = 1 / 3
"""What it waits for a host that is held only because a process of ours died: that ends, and giving up instead would
make the redirecting host pay for the death with one more request."""
LOOK_SECONDS: Final = 0.25
"""How soon a stop or an operator's order is seen."""
REDIRECT_STOPPED: Final = "redirect_to_host_stopped_by_operator"
REDIRECT_ELSEWHERE: Final = "redirect_to_host_of_another_worker"
REDIRECT_WAITS: Final = "redirect_to_waiting_host"


class HopPermits:
    """Permits for hosts to which a robots.txt redirects."""

    def __init__(
        self,
        *,
        exchange: Exchange,
        steps: FetchSteps,
        governor: Governor,
        holdings: Holdings,
        load: Callable[[str, HostState, UrlStore], Awaitable[None]],
        clock: DurableClock,
        settings: Settings,
    ) -> None:
        self._exchange = exchange
        self._steps = steps
        self._governor = governor
        self._holdings = holdings
        self._load = load
        self._clock = clock
        self._longest_seconds = longest_fetch_us(settings) / 1e6
        self._lease_seconds = settings.work.lease_seconds
        self.stopping = False

    def stop(self) -> None:
        """No more permits: who waits for one gets None within `LOOK_SECONDS`."""
        self.stopping = True

    async def permit(self, url: str, held: Holding, until: float | None = None) -> Permit | NotAsked | None:
        """A hop spends the permit of the host it goes to, after its gap and its waits.

        `NotAsked` when that takes longer than a hop may wait, or than the monotonic second `until`, or when the
        operator lets nothing be sent there, or when its shard is given away; None when this process stops. No lease
        there would tell after a death that the host may have been answering: until it has, its row tells.
        """
        parts = split(url)
        state = await self._holdings.know(parts.host, held)
        await self._load(parts.authority, state, held.store)
        last = self._clock.monotonic() + self._wait_seconds_max(state)
        last = last if until is None else min(last, until)
        hindrance = self._hindrance(state, last)
        if hindrance is not None:
            return hindrance
        await self._exchange.locate(state)
        while not self.stopping:
            hindrance = self._hindrance(state, last)
            if not self._holdings.serves(held):
                hindrance = NotAsked(REDIRECT_ELSEWHERE)
            if hindrance is not None:
                return hindrance
            permit = self._governor.permit(state, ahead=True)
            if permit is not None:
                return await self._held_durably(permit, held)
            await self._clock.sleep(max(0.01, min(LOOK_SECONDS, self._governor.ready_in(state, ahead=True))))
            await self._exchange.locate(state)
        return None

    async def _held_durably(self, permit: Permit, held: Holding) -> Permit:
        unfinished = self._governor.unfinished(permit.state, self._longest_seconds)
        try:
            await self._steps.persist_wait(held.store, unfinished)
        except BaseException:
            self._governor.end(permit, 0, sent=False)
            raise
        return permit

    def _wait_seconds_max(self, state: HostState) -> float:
        if state.row.wait_reason == UNFINISHED and state.row.wait_us > self._clock.wall_us():
            return self._lease_seconds * AFTER_DEATH_LEASE_SHARE
        return min(HOP_WAIT_SECONDS_MAX, self._lease_seconds * HOP_WAIT_LEASE_SHARE)

    def _hindrance(self, state: HostState, last: float) -> NotAsked | None:
        """Why the host will not be asked by the monotonic second `last`, as far as that is known now."""
        if self._governor.stopped(state):
            return NotAsked(REDIRECT_STOPPED)
        wait_seconds = max(0.0, self._governor.ready_in(state, ahead=True))
        left_seconds = last - self._clock.monotonic()
        if wait_seconds <= left_seconds:
            return None
        row_us = state.row.wait_us - self._clock.wall_us()
        theirs = row_us / 1e6 > left_seconds and state.row.wait_reason not in {CRAWL_DELAY, UNFINISHED, OUTAGE}
        return NotAsked(REDIRECT_WAITS, int(wait_seconds * 1e6), theirs=theirs)

"""The robots desk: fetches, archives and keeps robots.txt, and licenses URLs from it.

Key = scheme, host and port. The file is fetched when a URL of that authority is next to go, under the host's permit,
and its verdict is durable before anything is licensed from it.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from limpet.clock import DurableClock
from limpet.config import Facts, Settings
from limpet.crawlnode.archive import Archivist
from limpet.crawlnode.errands import Errand, Errands, NotAsked
from limpet.crawlnode.exchange import Exchange, limits_of
from limpet.crawlnode.health import OUTAGE, Outage
from limpet.crawlnode.holdings import Holding, Holdings
from limpet.crawlnode.hops import REDIRECT_ELSEWHERE, HopPermits
from limpet.crawlnode.robotsarchive import RobotsArchive
from limpet.crawlnode.sitemaps import URL_BYTES_MAX, SitemapPublisher
from limpet.crawlnode.steps import FetchSteps
from limpet.fetch import Capture, FetchRequest, Head, redirect_target
from limpet.model.urls import InvalidUrl, canonicalize, split
from limpet.model.verdict import TLS_CERTIFICATE
from limpet.obs import log_event
from limpet.politeness import Governor, HostState, Permit, longest_wait_us
from limpet.politeness.delays import is_long
from limpet.robots import (
    ODDITIES,
    Fetch,
    Follow,
    HttpAnswer,
    License,
    NetworkFailure,
    RobotsAnswer,
    RobotsJudge,
    RobotsState,
    Settled,
    Wait,
    advance,
    crawl_delay_of,
    gives_up,
    next_step,
    oddity_of,
)
from limpet.robots.retrieval.answers import DAY_US, Failing
from limpet.robots.retrieval.state import RetryPolicy
from limpet.runtime import Random
from limpet.runtime.insist import insist
from limpet.urlstore import AuthorityRow, Claim, UrlStore

ROBOTS_BODY_BYTES_MAX = 1_000_000
KEPT_AUTHORITIES_MAX = 20_000
KEPT_BODY_BYTES_MAX = 33_554_432
PROXY: Final = "proxy"

_LOG = logging.getLogger("limpet.robots")

DecodeRobots = Callable[[Capture], "bytes | None"]
"""The content-decoded body of a robots.txt answer, bounded; None when a piece of it is missing."""


class _Known(msgspec.Struct):
    """One authority's row and what it says."""

    row: AuthorityRow
    state: RobotsState

    @property
    def body_bytes(self) -> int:
        return len(self.state.copy.body) if self.state.copy is not None else 0


class RobotsDesk:
    """Robots verdicts for the authorities of this process."""

    def __init__(
        self,
        *,
        exchange: Exchange,
        steps: FetchSteps,
        archivist: Archivist,
        governor: Governor,
        decode: DecodeRobots,
        sitemaps: SitemapPublisher,
        holdings: Holdings,
        clock: DurableClock,
        random: Random,
        facts: Facts,
        settings: Settings,
        errands: Errands | None = None,
    ) -> None:
        self._errands = errands
        self._exchange = exchange
        self._steps = steps
        self._archive = RobotsArchive(archivist, steps, clock)
        self._governor = governor
        self._decode = decode
        self._sitemaps = sitemaps
        self._holdings = holdings
        self._clock = clock
        self._random = random
        self._agent = facts.agent
        self._limits = msgspec.structs.replace(
            limits_of(settings),
            body_bytes_max=ROBOTS_BODY_BYTES_MAX,
            body_in_memory_bytes_max=ROBOTS_BODY_BYTES_MAX,
            spool_above_bytes=2 * ROBOTS_BODY_BYTES_MAX,  # never: the whole is read at once
        )
        self._hops = HopPermits(
            exchange=exchange,
            steps=steps,
            governor=governor,
            holdings=holdings,
            load=self.load,
            clock=clock,
            settings=settings,
        )
        self._policy = RetryPolicy(nxdomain_us=int(settings.retries.nxdomain_seconds * 1e6))
        self._judge = RobotsJudge()
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._body_bytes = 0

    # -- answers -----------------------------------------------------------------------------------------------------
    async def load(self, authority: str, host: HostState, store: UrlStore) -> None:
        """Have the authority's row at hand, and its crawl-delay in force, before the host is asked for anything."""
        if authority in self._known:
            self._known.move_to_end(authority)
            return
        row = await store.authority(authority) or AuthorityRow(authority=authority, host=host.row.host)
        if authority not in self._known:  # else somebody was faster, and may have learned more since
            state = msgspec.msgpack.decode(row.robots, type=RobotsState) if row.robots else RobotsState()
            self._keep(_Known(row, state))
            await self._obey_delay(authority, state, host, store)

    def forget(self, hosts: AbstractSet[str]) -> None:
        """These hosts are somebody else's, who may learn more of their rules than what is remembered here."""
        for authority in [name for name, known in self._known.items() if known.row.host in hosts]:
            self._body_bytes -= self._known.pop(authority).body_bytes

    def license(self, authority: str, url: str) -> License | Wait | Fetch:
        """May this URL be sent now? Only an unexpired copy says yes."""
        known = self._known.get(authority)
        if known is None:
            return Fetch()
        return self._judge.license(known.state, self._agent, url, self._clock.wall_us())

    def needs_fetch(self, authority: str) -> bool:
        """Whether robots.txt has to be fetched before anything is claimed."""
        known = self._known.get(authority)
        if known is None or known.row.wait_us > self._clock.wall_us():
            return False
        return isinstance(self.license(authority, authority + "/"), Fetch)

    def waits_until(self, authority: str) -> int:
        """Durable time before which the authority may not be asked, 0 = none; a usable copy serves meanwhile."""
        verdict = self.license(authority, authority + "/")
        if isinstance(verdict, License):
            return 0
        known = self._known.get(authority)
        row_wait_us = known.row.wait_us if known is not None else 0
        return max(row_wait_us, verdict.until_us) if isinstance(verdict, Wait) else row_wait_us

    def gives_up(self, authority: str) -> bool:
        """Whether robots.txt stayed unreachable for so long that its URLs are given up."""
        return self._given_up(authority) is not None

    def _given_up(self, authority: str) -> str | None:
        known = self._known.get(authority)
        return None if known is None else gives_up(known.state, self._clock.wall_us())

    async def wait_out(self, authority: str, store: UrlStore) -> None:
        """End the URLs of an authority whose robots.txt stayed unreachable. Never allows them."""
        reason = self._given_up(authority)
        if reason is not None:
            await self._steps.wait_out(store, authority, reason, self._clock.wall_us())

    # -- fetching ----------------------------------------------------------------------------------------------------
    async def refresh(self, claim: Claim, permit: Permit, held: Holding) -> None:
        """Fetch the robots.txt that `claim` waits for, archive every answer (redirects too), make the verdict durable.

        Nothing changes when the process stops before there is one, or when a fault of ours kept us from it: then it is
        asked for again half a minute later.
        """
        authority, host, store = claim.authority, permit.state, held.store
        asked_us = self._clock.wall_us()
        first = Errand(url=authority + "/robots.txt", hops=f"{claim.hops}P", via=claim.url, cause=claim.fp)
        settled = await self._settle(first, permit, store)
        if settled is None:
            return
        await self.load(authority, host, store)  # so many others may have been met meanwhile that it was dropped
        before = self._known[authority]
        if settled.reason == PROXY:
            await self._put_off(before, PROXY, self._clock.wall_us() + int(Outage.PAUSE_SECONDS * 1e6), store)
            return
        if settled.failing == "connection" and await self._exchange.was_ours():
            await self._put_off(before, OUTAGE, self._exchange.excuse(host.row.host), store)
            return
        now_us = self._clock.wall_us()
        dated_us = now_us if settled.status == "unreachable" else asked_us  # a copy is as old as its request
        state = advance(before.state, settled, dated_us, self._random.fraction(), self._policy)
        row = AuthorityRow(
            authority=authority,
            host=host.row.host,
            robots=msgspec.msgpack.encode(state),
            robots_digest=state.copy.digest if state.copy is not None else "",
            wait_us=0 if state.copy is not None else state.retry_at_us,
            wait_reason="" if state.copy is not None else f"robots_{state.reason}",
        )
        if state.host_until_us > now_us:
            await self._exchange.persist(self._governor.wait_until(host, state.host_until_us, state.reason), store)
        if before.state.digest and state.digest != before.state.digest:
            await insist(lambda: self._steps.rearm_denied(store, authority, now_us), self._clock)
        if state.copy is not None and state.digest != before.state.digest:
            named = self._judge.rules(state, now_us)
            await self._sitemaps.publish(
                authority + "/robots.txt", named.sitemaps if named else (), asked_us, held.producer
            )
        await insist(lambda: self._steps.put_robots(store, row), self._clock)
        self._keep(_Known(row, state))
        await self._obey_delay(authority, state, host, store)
        self._tell(authority, settled)

    async def _put_off(self, known: _Known, reason: str, until_us: int, store: UrlStore) -> None:
        """Our proxy or our uplink failed, which says nothing of the site: no clock of its robots.txt runs."""
        row = msgspec.structs.replace(known.row, wait_us=until_us, wait_reason=f"robots_{reason}")
        await self._steps.put_robots(store, row)
        self._keep(_Known(row, known.state))

    def _tell(self, authority: str, settled: Settled) -> None:
        """What allows although it does not look like it: an operator should see it."""
        if settled.access_denied:
            log_event(
                _LOG, logging.INFO, "robots.txt is forbidden, which allows", authority=authority, reason=settled.reason
            )
        odd = oddity_of(settled.body, settled.reason)
        if odd is not None:
            log_event(_LOG, logging.WARNING, "robots.txt is unparseable", authority=authority, reason=ODDITIES[odd])

    async def _settle(self, errand: Errand, permit: Permit, store: UrlStore) -> Settled | None:
        """Hop by hop, each under the permit of the host it goes to. None: this process stops, and waits no longer."""
        hops, answer = 0, await self._ask(errand, permit, store)
        while True:
            step = next_step(hops, answer)
            if isinstance(step, Settled):
                return step
            hops += 1
            target = _redirected(step, errand.url)
            if target is None:
                return _settled(next_step(hops, NetworkFailure("gate")))
            errand = errand.led_to(target)
            told = await self._hop(errand)
            if told is None:
                return None
            if isinstance(told, NotAsked):
                return waiting(told)
            answer = told

    async def _hop(self, errand: Errand) -> RobotsAnswer | NotAsked | None:
        """What the host says to which a redirect led; None when this process stops."""
        held = self._holdings.of_host(split(errand.url).host)
        if held is not None:
            return await self._ask_hop(errand, held)
        # Its politeness is kept by another process, which is sent there: not ours to spend.
        told = await self._errands.ask(errand) if self._errands is not None else None
        return NotAsked(REDIRECT_ELSEWHERE) if told is None and not self._hops.stopping else told

    async def _ask_hop(
        self, errand: Errand, held: Holding, until: float | None = None
    ) -> RobotsAnswer | NotAsked | None:
        """A hop to a host of ours, begun by the monotonic second `until`."""
        with held.used():
            permit = await self._hops.permit(errand.url, held, until)
            if not isinstance(permit, Permit):
                return permit
            if not self._holdings.serves(held):  # no await from here to the request
                self._governor.end(permit, 0, sent=False)
                return NotAsked(REDIRECT_ELSEWHERE)
            answer = await self._ask(errand, permit, held.store)
            await self._exchange.persist(permit.state.row, held.store)
            return answer

    async def run_errands(self) -> None:
        """Ask hosts of ours for workers whose hosts redirected there."""
        if self._errands is not None:
            await self._errands.serve(self._run_errand)

    def stop_hops(self) -> None:
        """No host is waited for any more, neither here nor by another worker."""
        self._hops.stop()
        if self._errands is not None:
            self._errands.stop()

    async def _run_errand(self, errand: Errand, until: float) -> RobotsAnswer | NotAsked | None:
        """One errand of another process, like a hop of our own; None when nothing came of it."""
        held = self._holdings.of_host(split(canonicalize(errand.url)).host)
        return None if held is None else await self._ask_hop(errand, held, until)

    async def _ask(self, errand: Errand, permit: Permit, store: UrlStore) -> RobotsAnswer:
        request = FetchRequest(
            url=errand.url, headers=self._exchange.headers, limits=self._limits, owned=permit.state.owned
        )
        capture = await self._exchange.exchange(request, permit, store)
        await self._archive.keep(errand, capture, store)
        if capture.failure is not None:
            kind = TLS_CERTIFICATE if capture.failure.certificate else capture.failure.kind
            return NetworkFailure(kind, capture.failure.nxdomain)
        return self._answer(capture)

    def _answer(self, capture: Capture) -> RobotsAnswer:
        head = capture.head
        assert head is not None
        body = self._decode(capture)
        if body is None and 200 <= head.status < 300:
            return NetworkFailure("reset")  # the missing part may have held the rule that matters
        return HttpAnswer(
            head.status,
            location=head.get(b"location"),
            body=body or b"",
            retry_after_us=longest_wait_us(head.headers, self._clock.wall_us()),
        )

    async def _obey_delay(self, authority: str, state: RobotsState, host: HostState, store: UrlStore) -> None:
        rules = self._judge.rules(state, self._clock.wall_us())
        self._governor.prove(host, authority, named=rules is not None and rules.names(self._agent))
        delay = crawl_delay_of(state, self._agent)
        if delay:
            self._governor.set_crawl_delay(host, delay)
        if is_long(host) and (unsaved := self._governor.unsaved(host)) is not None:
            await self._exchange.persist(unsaved, store)

    def _keep(self, known: _Known) -> None:
        old = self._known.pop(known.row.authority, None)
        self._body_bytes += known.body_bytes - (old.body_bytes if old is not None else 0)
        self._known[known.row.authority] = known
        while len(self._known) > KEPT_AUTHORITIES_MAX or (
            self._body_bytes > KEPT_BODY_BYTES_MAX and len(self._known) > 1
        ):
            _, dropped = self._known.popitem(last=False)
            self._body_bytes -= dropped.body_bytes


def _settled(step: Follow | Settled) -> Settled:
    assert isinstance(step, Settled)
    return step


def waiting(told: NotAsked) -> Settled:
    """Never allowed, and nothing to hold against anybody unless the host itself brought the wait on.

    A day is the longest that robots.txt waits by itself: what holds the host may have changed by then.
    """
    ours = _settled(next_step(0, NetworkFailure(PROXY)))
    failing: Failing | None = "http" if told.theirs else None
    wait_us = min(told.wait_us, DAY_US)
    return msgspec.structs.replace(ours, reason=told.reason, failing=failing, retry_after_us=wait_us)


def _redirected(step: Follow, url: str) -> str | None:
    """Where a hop leads; None for nowhere, and for a URL that no page could have: it would be the name of a record."""
    head = Head(status=302, headers=((b"Location", step.location),))
    try:
        target = canonicalize(redirect_target(url, head) or "")
    except InvalidUrl:
        return None
    return target if len(target) <= URL_BYTES_MAX else None

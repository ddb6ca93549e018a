"""One URL's send: license, fetch, and the durable steps that follow.

License and send are one synchronous stretch: between the last check and the request there is no await, so nothing that
another task does can come between them.
"""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TypeVar

import msgspec

from limpet.bus import Producer
from limpet.clock import DurableClock
from limpet.config import Facts, Settings
from limpet.crawlnode.archive import Archivist, observed
from limpet.crawlnode.health import OUTAGE, Outage
from limpet.crawlnode.steps import RECORDED, FetchSteps
from limpet.fetch import Capture, Fetcher, FetchLimits, FetchRequest, Head, Locating
from limpet.model.errors import CannotGoOn, Definite, Indefinite
from limpet.model.events import DocumentFetched
from limpet.model.identity import registrable_domain
from limpet.model.lifecycle import State
from limpet.model.outcome import UNSENT, Outcome
from limpet.model.verdict import TRANSIENT_STATUS, Verdict, classify, is_redirect, is_wait
from limpet.obs import log_event
from limpet.politeness import HOST_UNREACHABLE, Answer, Governor, HostState, Permit, longest_wait_us
from limpet.robots import License
from limpet.runtime import Random
from limpet.runtime.insist import insist
from limpet.urlstore import Claim, Completion, HostRow, Lane, UrlStore
from limpet.warc import CaptureMeta

T = TypeVar("T")
_LOG = logging.getLogger("limpet.exchange")

CodingIsCut = Callable[[bytes | Iterable[bytes], bytes | None], bool]
"""payload, whole or in pieces, Content-Encoding -> whether the coded stream ends too early.

Asked only where the transport was complete."""

CODING_CUT = "content coding cut short"
WAIT_DEFAULT_SECONDS = 30.0
WAIT_DEFAULT_SECONDS_MAX = 3600.0
REFUSED_STATUS = frozenset({401, 403, 429})


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A licensed send and what came of it, on its way to the archive."""

    claim: Claim
    host: HostState
    licence: License
    capture: Capture
    gap_us: int


class Exchange:
    """Sends, archives, publishes, completes."""

    def __init__(
        self,
        *,
        fetcher: Fetcher,
        governor: Governor,
        steps: FetchSteps,
        archivist: Archivist,
        outage: Outage,
        coding_is_cut: CodingIsCut,
        clock: DurableClock,
        random: Random,
        facts: Facts,
        settings: Settings,
    ) -> None:
        self._fetcher = fetcher
        self._governor = governor
        self._steps = steps
        self._archivist = archivist
        self._outage = outage
        self._coding_is_cut = coding_is_cut
        self._clock = clock
        self._random = random
        self._facts = facts
        self._settings = settings
        self._limits = limits_of(settings)
        self.headers = archivist.headers

    async def send(self, claim: Claim, licence: License, permit: Permit, store: UrlStore) -> Sent:
        """Step 3. The permit is ended when the exchange is over, whatever became of it."""
        state = permit.state
        request = FetchRequest(url=claim.url, headers=self.headers, limits=self._limits, owned=state.owned)
        self._governor.awaits(state)
        capture = await self._exchange(request, permit, store)
        fetched_us = max(capture.started_us, claim.latest_us + 1)  # unique per URL, even within one microsecond
        capture = msgspec.structs.replace(capture, started_us=fetched_us)
        return Sent(claim=claim, host=state, licence=licence, capture=capture, gap_us=int(permit.gap_seconds * 1e6))

    async def locate(self, state: HostState) -> None:
        """Know where the host is before a permit is asked for: its addresses have ceilings of their own."""
        if isinstance(self._fetcher, Locating) and self._governor.needs_locating(state):
            self._governor.located(state, await self._fetcher.locate(state.row.host))

    async def exchange(self, request: FetchRequest, permit: Permit, store: UrlStore) -> Capture:
        """A request for a robots.txt, under `permit`."""
        capture = await self._exchange(request, permit, store)
        await self._mind_robots(capture, permit.state, store)
        return capture

    async def _mind_robots(self, capture: Capture, state: HostState, store: UrlStore) -> None:
        """What a robots.txt answer says of its host and of us. Whether to give up is for the robots rules to say."""
        if is_proxy_fault(capture):
            self._outage.stopped()
        elif capture.failure is None:
            self._outage.answered(registrable_domain(state.row.host))
        elif capture.failure.kind not in {"gate", "protocol"}:
            self._outage.failed(registrable_domain(state.row.host))
        before = (state.row.trips, state.row.broken_us)
        if self._outage.paused_for() <= 0:
            self._governor.answered(state, robots_answer(capture))
        if (state.row.trips, state.row.broken_us) != before:
            await self.persist(state.row, store)

    async def persist(self, row: HostRow, store: UrlStore) -> None:
        """A wait that is in force is durable before anything goes on, however long that takes us."""
        await insist(lambda: self._steps.persist_wait(store, row), self._clock)

    async def _exchange(self, request: FetchRequest, permit: Permit, store: UrlStore) -> Capture:
        """One request, to the addresses that `permit` was given for; waits are persisted at the headers."""
        began_us = self._clock.wall_us()
        if not request.owned and permit.state.addresses:
            request = msgspec.structs.replace(request, addresses=permit.state.addresses)

        async def on_head(head: Head) -> None:
            await self._mind_wait(head, permit.state, store)

        try:
            capture = await self._steps.send(self._fetcher, request, on_head)
        except BaseException:
            self._governor.end(permit, self._clock.wall_us() - began_us)
            raise
        self._governor.met(permit.state, capture.remote_ip)
        counts = capture.failure is None or capture.failure.kind not in UNSENT
        self._governor.end(permit, capture.duration_us, counts=counts)
        return capture

    async def finish(self, sent: Sent, store: UrlStore, producer: Producer) -> Verdict:
        """Steps 4 to 6. A failure of ours is tried again from memory: the web is not our retry buffer."""
        try:
            return await self._finish(sent, store, producer)
        finally:
            self._governor.overlooked(sent.host)
            if sent.capture.spool is not None:
                await sent.capture.spool.release()

    async def _finish(self, sent: Sent, store: UrlStore, producer: Producer) -> Verdict:
        capture, claim, host = sent.capture, sent.claim, sent.host
        verdict = self._judge(sent, coding_cut=await self._lost_its_end(capture))
        if is_proxy_fault(capture):
            await self._hand_back(claim, store, self._clock.wall_us() + int(Outage.PAUSE_SECONDS * 1e6))
            return verdict
        if verdict.site_failure and await self.was_ours():
            until_us = self.excuse(claim.host)
            await self.persist(self._governor.wait_until(host, until_us, OUTAGE), store)
            await self._hand_back(claim, store, until_us)
            return verdict
        verdict = await self._break(sent, verdict, store)
        outcome = _outcome(sent, verdict)
        if capture.head is not None:
            members, outcome = self._archivist.members(capture, _meta(sent), outcome)
            locations = await self._insist(lambda: self._steps.append(members), claim, store)
            outcome = msgspec.structs.replace(outcome, location=locations[0])
        self._governor.failing(host, good=verdict.good)
        if verdict.state is State.FETCHED:
            event = self._event(claim, outcome)
            await self._insist(lambda: self._steps.publish(producer, store.shard, event), claim, store)
        await self._complete(sent, verdict, outcome, store)
        if _LOG.isEnabledFor(logging.DEBUG):
            said = outcome.status or outcome.failure
            log_event(_LOG, logging.DEBUG, "exchange", url=claim.url, answer=said, state=verdict.state.value)
        return verdict

    async def _hand_back(self, claim: Claim, store: UrlStore, until_us: int) -> None:
        now_us = self._clock.wall_us()
        await self._insist(lambda: self._steps.hand_back(store, [claim], until_us, now_us), claim, store)

    async def _give_up(self, claim: Claim, store: UrlStore) -> None:
        """The host was in trouble for a week: everything that waits for it ends."""
        now_us = self._clock.wall_us()
        for queue in await store.queues_of(claim.host):
            await self._steps.wait_out(store, queue.authority, HOST_UNREACHABLE, now_us)

    async def _break(self, sent: Sent, verdict: Verdict, store: UrlStore) -> Verdict:
        """Feed the host's breaker. A probe that failed is no attempt of its URL; after a week all URLs are given up."""
        host, answer = sent.host, _answer(sent.capture, verdict)
        probed = self._governor.probes(host)
        if self._governor.answered(host, answer):
            await self._insist(lambda: self._give_up(sent.claim, store), sent.claim, store)
            return Verdict(state=State.FAILED, reason=HOST_UNREACHABLE, failures=verdict.failures, notice="failed")
        if probed and answer is Answer.TRANSIENT and verdict.state in {State.DUE, State.FAILED}:
            return Verdict(
                state=State.DUE, reason=verdict.reason, due_us=host.row.wait_us, failures=sent.claim.failures
            )
        return verdict

    async def _complete(self, sent: Sent, verdict: Verdict, outcome: Outcome, store: UrlStore) -> None:
        host, claim = self._governor.unsaved(sent.host), sent.claim
        completion = Completion(
            claim=claim,
            state=verdict.state,
            now_us=self._clock.wall_us(),
            reason=verdict.reason,
            due_us=verdict.due_us,
            lane=Lane.SOON,
            failures=verdict.failures,
            outcome=outcome,
        )
        if verdict.notice:
            await self._insist(lambda: self._steps.notify(store, claim, verdict, completion.now_us), claim, store)
        won = await self._insist(lambda: self._steps.complete(store, completion, host), claim, store)
        if not won and sent.host.order.blocks(claim.url):
            # The operator ended the lease under way. What came is archived, so its outcome is known too.
            step = partial(self._steps.adopt, store, outcome, verdict, completion.now_us)
            won = await self._insist(step, claim, store)
        if outcome.location is not None and (won or verdict.state not in RECORDED):
            self._steps.settling.settled(outcome.location)  # too late otherwise: recovery will meet the record

    async def _insist(self, step: Callable[[], Awaitable[T]], claim: Claim, store: UrlStore) -> T:
        """Try a step of ours until it holds, keeping the lease alive."""

        async def renew() -> None:
            now_us = self._clock.wall_us()
            with contextlib.suppress(Definite, Indefinite):  # it may be the store that is out of reach
                await store.renew([claim], now_us, now_us + int(self._settings.work.lease_seconds * 1e6))

        return await insist(step, self._clock, renew)

    def _judge(self, sent: Sent, *, coding_cut: bool = False) -> Verdict:
        domain = registrable_domain(sent.claim.host)
        if sent.capture.failure is None:
            self._outage.answered(domain)
        elif is_proxy_fault(sent.capture):
            self._outage.stopped()
        elif sent.capture.failure.kind not in {"gate", "protocol"}:
            self._outage.failed(domain)
        return classify(
            sent.capture,
            failures=sent.claim.failures,
            now_us=self._clock.wall_us(),
            policy=self._settings.retries,
            jitter=self._random.fraction(),
            wait_us=sent.host.row.wait_us,
            counts=0 < sent.claim.latest_us < sent.host.last_good_us,
            coding_cut=coding_cut,
        )

    async def _lost_its_end(self, capture: Capture) -> bool:
        """Whether only a decoder can tell that a page is cut: its framing is whole."""
        head = capture.head
        if head is None or capture.truncated or not 200 <= head.status < 300:
            return False
        coding, spool = head.get(b"content-encoding"), capture.spool
        if spool is None or not coding:
            return self._coding_is_cut(capture.payload, coding)
        try:
            return await spool.examine(lambda: self._coding_is_cut(spool.payload(), coding))
        except OSError as error:
            raise CannotGoOn(f"a large body cannot be read back: {error}") from error

    async def was_ours(self) -> bool:
        """Whether the failure that was just seen turns out to be one of many at once: of ours, not of the site."""
        await self._clock.sleep(Outage.SETTLE_SECONDS)
        return self._outage.paused_for() > 0

    def excuse(self, host: str) -> int:
        """Until when a host is left alone that is excused by an outage of ours."""
        return self._clock.wall_us() + int(self._outage.excuse(registrable_domain(host)) * 1e6)

    async def _mind_wait(self, head: Head, state: HostState, store: UrlStore) -> None:
        now_us = self._clock.wall_us()
        if asked_us := asked_wait_us(head, state.row.failing, now_us):
            row = self._governor.wait_until(state, now_us + asked_us, f"http_{head.status}")
            await self.persist(row, store)

    def _event(self, claim: Claim, outcome: Outcome) -> DocumentFetched:
        assert outcome.location is not None
        return DocumentFetched(
            crawl=self._facts.crawl,
            fp=claim.fp,
            url=claim.url,
            fetched_us=outcome.fetched_us,
            status=outcome.status,
            location=outcome.location,
            payload_sha256=outcome.payload_sha256,
            depth=claim.depth,
            hops=claim.hops,
            seed=claim.seed,
        )


def asked_wait_us(head: Head, failing: int, now_us: int) -> int:
    """Microseconds that the answer's host is to be left alone: 0 for most answers.

    A Retry-After counts whatever the status (RFC 9110 section 10.2.3 ties it to none): a site that sends one with a
    page asks for patience, too. 429 and 503 without one that can be understood double with `failing`, the waits before.
    """
    asked_us = longest_wait_us(head.headers, now_us)
    if asked_us or not is_wait(head.status):
        return asked_us or 0
    return int(min(WAIT_DEFAULT_SECONDS_MAX, WAIT_DEFAULT_SECONDS * 2 ** min(failing, 10)) * 1e6)


def is_proxy_fault(capture: Capture) -> bool:
    """Whether our own proxy failed: nothing of the site, nothing that counts."""
    return capture.failure is not None and capture.failure.kind == "proxy"


def _answer(capture: Capture, verdict: Verdict) -> Answer:
    """What an exchange says of its host."""
    status = capture.head.status if capture.head is not None else 0
    if status in REFUSED_STATUS:
        return Answer.REFUSED
    if verdict.good:
        return Answer.GOOD
    if capture.failure is not None:
        return Answer.TRANSIENT if capture.failure.kind != "gate" else Answer.NEITHER
    return Answer.TRANSIENT if status >= 400 else Answer.NEITHER


def robots_answer(capture: Capture) -> Answer:
    """The same of a robots.txt. That it is forbidden (401, 403) says nothing of the pages: it allows them."""
    if capture.failure is not None:
        return Answer.NEITHER if capture.failure.kind in {"gate", "proxy"} else Answer.TRANSIENT
    status = capture.head.status if capture.head is not None else 0
    if status == 429:
        return Answer.REFUSED
    if status >= 500 or status in TRANSIENT_STATUS:
        return Answer.TRANSIENT
    return Answer.NEITHER if status in REFUSED_STATUS else Answer.GOOD


def _outcome(sent: Sent, verdict: Verdict) -> Outcome:
    seen = observed(sent.capture, sent.claim.fp, sent.claim.url)
    return msgspec.structs.replace(
        seen,
        detail=seen.detail or (CODING_CUT if verdict.coding_cut else ""),
        robots_digest=sent.licence.digest,
        robots_rule=sent.licence.rule or "",
        gap_us=sent.gap_us,
        page=verdict.page,
    )


def _meta(sent: Sent) -> CaptureMeta:
    status = sent.capture.head.status if sent.capture.head else 0
    return CaptureMeta(
        fp=sent.claim.fp,
        via=sent.claim.via,
        hops=sent.claim.hops,
        kind="redirect" if is_redirect(status) else "page",
        robots_digest=sent.licence.digest,
        robots_rule=sent.licence.rule or "",
        gap_us=sent.gap_us,
        insecure_tls=bool(sent.capture.insecure_tls),
    )


def limits_of(settings: Settings) -> FetchLimits:
    """The engine's limits out of the settings."""
    fetching = settings.fetching
    return FetchLimits(
        header_bytes_max=fetching.header_bytes_max,
        body_bytes_max=fetching.body_bytes_max,
        body_in_memory_bytes_max=fetching.body_bytes_max,
        spool_above_bytes=fetching.spool_above_bytes,
        throughput_bytes_per_second_min=fetching.throughput_bytes_per_second_min,
        throughput_window_seconds=fetching.throughput_window_seconds,
        connect_seconds_max=fetching.connect_seconds_max,
        idle_seconds_max=fetching.idle_seconds_max,
        wall_seconds_max=fetching.wall_seconds_max,
    )


def longest_fetch_us(settings: Settings) -> int:
    """An exchange can take no longer than this; a lease must outlast it at the send."""
    return int((settings.fetching.connect_seconds_max + settings.fetching.wall_seconds_max) * 1e6)

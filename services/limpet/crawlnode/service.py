"""The crawl node's loop: which host goes next, and the batches of claims it holds.

Reads claims from the URL store; writes segments, `document.fetched` and outcome rows. It may be killed at any instant:
an unfinished lease makes the URL due again.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

from limpet.bus import Producer
from limpet.clock import DurableClock
from limpet.config import Settings
from limpet.crawlnode.blocks import Blocks
from limpet.crawlnode.exchange import Exchange, Sent, longest_fetch_us
from limpet.crawlnode.health import Health, Outage
from limpet.crawlnode.holdings import Holding, Holdings
from limpet.crawlnode.leases import Leases
from limpet.crawlnode.quota import Quota
from limpet.crawlnode.robots import RobotsDesk
from limpet.crawlnode.scheduler import HostQueues, Scheduler
from limpet.crawlnode.steps import FetchSteps
from limpet.model.errors import CannotGoOn, LimpetError
from limpet.model.lifecycle import State
from limpet.obs import log_event
from limpet.politeness import Governor, HostState, hold_unfinished
from limpet.politeness.orders import Orders
from limpet.robots import License, Wait, stored_delay
from limpet.urlstore import Claim, Completion, HostRow, UrlStore

IDLE_SECONDS = 0.25
HOLD_SECONDS = 0.5
DRY_SECONDS = 1.0
FINISHING_MAX_FACTOR = 2
WOKEN_SECONDS = 1.0
_LOG = logging.getLogger("limpet.crawlnode")


class CrawlNode:
    """Serves the hosts of its shards."""

    def __init__(
        self,
        *,
        holdings: Holdings,
        steps: FetchSteps,
        exchange: Exchange,
        robots: RobotsDesk,
        governor: Governor,
        health: Health,
        outage: Outage,
        quota: Quota,
        clock: DurableClock,
        settings: Settings,
        agent: str,
    ) -> None:
        self._holdings = holdings
        self._from_start = list(holdings)  # what comes later is taken
        self._steps = steps
        self._exchange = exchange
        self._robots = robots
        self._governor = governor
        self._health = health
        self._outage = outage
        self._quota = quota
        self._clock = clock
        self._settings = settings
        self._agent = agent
        self._scheduler = Scheduler()
        self._wake = asyncio.Event()
        self._visits: set[asyncio.Task[None]] = set()
        self._finishing: set[asyncio.Task[None]] = set()
        self._leases = Leases(clock, settings.work.lease_seconds)
        self._fault: BaseException | None = None
        self._orders: Orders | None = None  # obeyed so far
        self._ordering = asyncio.Lock()
        self._blocks = Blocks(steps, clock, self.offer, holdings.shard_of)
        self._stopping = False
        self._dry_until = 0.0  # nothing is sent before this monotonic second: no page permits, or no store
        self._longest_us = longest_fetch_us(settings)
        self._hold_seconds_max = settings.work.lease_seconds / 3  # claims of a host that waits longer go back
        self._lease_us = int(settings.work.lease_seconds * 1e6)

    def offer(self, host: str, authority: str, due_us: int) -> None:
        """Something is, or will be, due at `authority`."""
        held = self._holdings.of_host(host)
        if held is None:
            return  # its owner finds it in the store
        entry = self._scheduler.offer(host, held.shard, authority, due_us)
        self._reschedule(entry)
        self._wake.set()

    # -- shards ------------------------------------------------------------------------------------------------------
    async def take(self, shard: int, store: UrlStore, producer: Producer, *, unsure: bool = False) -> None:
        """Serve `shard` from now on; nobody else asks its hosts any more, and their state is in its rows.

        Its hosts wait one full gap from this call on. Those with an unfinished lease of somebody else wait two, at
        least 10 s (owned: 1 s), durably; so do all of them until it is known which those are, and in any case with
        `unsure`: somebody may have ended such leases already. Hosts whose waits are over are served meanwhile; the call
        returns when the whole shard was looked at. When the store fails, the shard is released, and the error raised.
        """
        held = self._holdings.add(shard, store, producer, unsure=True)
        try:
            with held.used():
                await self._offer_all(held)
                unfinished = await hold_unfinished(
                    store,
                    self._governor,
                    know=lambda host: self._holdings.know(host, held),
                    delay_of=lambda authority: stored_delay(authority.robots, self._agent),
                    persist=lambda rows: self._persist(store, rows),
                )
                if not unsure:
                    self._settle(held, unfinished)
                async with self._ordering:
                    if self._orders is not None:
                        await self._blocks.apply(store, self._orders, fresh=True)
        except BaseException:
            await self.release(shard)
            raise

    async def release(self, shard: int) -> None:
        """Serve a shard no more: returns when nothing of it is under way here and its claims are handed back.

        To be called again when it was interrupted. What is still ours by lease goes back by a write; where the shard
        is another's already, claims are dropped, and their leases run out. A shard that is not held is released.
        """
        held = self._holdings.get(shard)
        if held is None:
            return
        held.leaving = True
        await held.unused()
        if self._holdings.get(shard) is not held:
            return  # another call was faster
        entries = [entry for entry in self._scheduler.hosts() if entry.shard == shard]
        for entry in entries:
            self._scheduler.drop(entry)
        self._robots.forget(held.hosts)
        await asyncio.gather(*(self._give_back(entry, held) for entry in entries if entry.claims))
        self._holdings.remove(held)

    async def _give_back(self, entry: HostQueues, held: Holding) -> None:
        """Claims of a host that is not served any more. Where the store fails, they are lost to us: leases run out."""
        try:
            await self._return_claims(entry, held, 0)
        except CannotGoOn:
            raise
        except LimpetError as error:
            log_event(_LOG, logging.WARNING, "claims were not handed back", host=entry.host, reason=str(error))

    async def _persist(self, store: UrlStore, rows: Sequence[HostRow]) -> None:
        await asyncio.gather(*(self._steps.persist_wait(store, row) for row in rows))

    def _settle(self, held: Holding, unfinished: frozenset[str]) -> None:
        for host in self._holdings.settle(held, unfinished):
            entry = self._scheduler.get(host)
            if entry is not None:
                self._reschedule(entry)
        self._wake.set()

    async def _offer_all(self, held: Holding) -> None:
        for queue in await held.store.begin():
            self.offer(queue.host, queue.authority, queue.due_us)

    async def _listen(self) -> None:
        """What others put into the shards is heard of here."""
        while True:
            await self._clock.sleep(WOKEN_SECONDS)
            for held in self._holdings:
                try:
                    for queue in await held.store.woken():
                        self.offer(queue.host, queue.authority, queue.due_us)
                except LimpetError as error:
                    log_event(_LOG, logging.WARNING, "not told what is due", shard=held.shard, reason=str(error))

    # -- orders ------------------------------------------------------------------------------------------------------
    async def obey(self, orders: Orders) -> None:
        """The operator's orders from now on, before anything else is claimed or sent; then their effect on rows."""
        fresh = orders is not self._orders
        if fresh:
            for host in self._governor.obey(orders):
                entry = self._scheduler.get(host)
                if entry is not None:
                    self._scheduler.schedule(entry, self._clock.monotonic())
            self._wake.set()
        async with self._ordering:
            for held in self._holdings:
                with held.used():
                    if not held.leaving:
                        await self._blocks.apply(held.store, orders, fresh=fresh)
            self._orders = orders

    def explained(self) -> Iterator[tuple[str, list[tuple[str, float]]]]:
        """Hosts with work, and why each is asked as seldom as it is."""
        for entry in self._scheduler.hosts():
            yield entry.host, self._governor.explain(entry.host)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`; then finish what is in flight and hand the rest back. Raises what went wrong of ours."""
        for held in self._from_start:
            await self._offer_all(held)
        keeping = (self._leases.run(), self._robots.run_errands(), self._listen())
        keepers = [asyncio.get_running_loop().create_task(work) for work in keeping]
        try:
            while not stop.is_set() and self._fault is None:
                self._call_hosts()
                self._start_visits()
                await self._nap(stop)
            self._stopping = True
            self._robots.stop_hops()
            await self._drain()
        finally:
            for keeper in keepers:
                keeper.cancel()
        if self._fault is not None:
            raise self._fault

    def _call_hosts(self) -> None:
        """Hosts that stand in line for something they share with others, and whose turn has come."""
        if self._is_full() or self._held():
            return
        for host in self._governor.call():
            entry, state = self._scheduler.get(host), self._governor.known(host)
            if entry is not None and not entry.visiting:
                self._scheduler.schedule(entry, self._clock.monotonic())
            elif state is not None:
                self._governor.leave_line(state)

    def _is_full(self) -> bool:
        return len(self._visits) >= self._settings.fetching.connections_max

    def _start_visits(self) -> None:
        finishing_max = self._settings.fetching.connections_max * FINISHING_MAX_FACTOR
        while len(self._visits) < self._settings.fetching.connections_max and len(self._finishing) < finishing_max:
            entry = self._scheduler.pop(self._clock.monotonic())
            if entry is None:
                return
            held = self._holdings.get(entry.shard)
            if held is not None and not held.leaving:
                entry.visiting = True
                self._spawn(self._visits, self._visit(entry, held), held)

    async def _nap(self, stop: asyncio.Event) -> None:
        """Until the next host comes up, a slot frees or something is offered; at most `IDLE_SECONDS`."""
        next_at = self._scheduler.next_at()
        now = self._clock.monotonic()
        full = self._is_full()
        seconds = IDLE_SECONDS if next_at is None or full else min(IDLE_SECONDS, max(0.0, next_at - now))
        call_in = self._governor.next_call_in()
        if call_in is not None and not full and not self._held():
            seconds = min(seconds, max(0.0, call_in))
        self._wake.clear()
        if stop.is_set():
            return
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _spawn(self, where: set[asyncio.Task[None]], work: Coroutine[Any, Any, None], held: Holding) -> None:
        """Work on a host of a shard, which is used until it has ended, whether it ever begins or not."""
        held.begin_use()
        task = asyncio.get_running_loop().create_task(work)
        where.add(task)
        task.add_done_callback(lambda done: self._ended(where, done, held))

    def _ended(self, where: set[asyncio.Task[None]], task: asyncio.Task[None], held: Holding) -> None:
        held.end_use()
        where.discard(task)
        self._wake.set()
        if not task.cancelled() and task.exception() is not None:
            self._fault = self._fault or task.exception()

    async def _visit(self, entry: HostQueues, held: Holding) -> None:
        """Send to one host until its gap, its batch or its turn is over."""
        try:
            met = self._governor.known(entry.host) is not None
            state = await self._holdings.know(entry.host, held)
            if self._governor.stopped(state):
                await self._return_claims(entry, held, 0)
                return
            if not met and self._governor.ready_in(state) > 0:
                return  # it was scheduled before its row told what it has to wait for
            await self._know(entry, state, held.store)
            while not self._held(held) and self._governor.ready_in(state) <= 0:
                if not entry.claims and not await self._fill(entry, state, held):
                    break
                if entry.claims and not await self._serve(entry, state, held):
                    break
                if not entry.claims:
                    break  # one batch a turn: other hosts are waiting
            if entry.claims and self._waits_long(state):
                await self._return_claims(entry, held, 0)
        except CannotGoOn:
            raise
        except LimpetError as error:  # an outage of ours: nobody is asked, and what we hold we keep
            self._dry_until = self._clock.monotonic() + DRY_SECONDS
            log_event(_LOG, logging.WARNING, "the store did not answer", shard=held.shard, reason=str(error))
        finally:
            entry.visiting = False
            self._reschedule(entry)

    def _waits_long(self, state: HostState) -> bool:
        """Whether leases could run out before the host may send: its breaker is open, or others are before it."""
        return self._governor.ready_in(state) > self._hold_seconds_max or self._governor.crowded(state)

    def _held(self, held: Holding | None = None) -> bool:
        """Whether something of ours forbids sends: to anybody, or to the hosts of a shard."""
        return (
            self._stopping
            or (held is not None and not self._holdings.serves(held))
            or self._fault is not None
            or self._dry_until > self._clock.monotonic()
            or self._outage.paused_for() > 0
            or self._health.unhealthy() is not None
        )

    async def _know(self, entry: HostQueues, state: HostState, store: UrlStore) -> None:
        """The host's crawl-delays and addresses, before anything is asked of it."""
        for authority in list(entry.due_us):
            await self._robots.load(authority, state, store)
        await self._exchange.locate(state)

    async def _fill(self, entry: HostQueues, state: HostState, held: Holding) -> bool:
        """Take a batch of claims for the authority that is due first.

        When its robots.txt has to be fetched, one claim comes first: after a death, its lease is what tells that this
        host may have been answering.
        """
        first = entry.next_authority()
        now_us = self._clock.wall_us()
        if first is None or first[1] > now_us:
            return False
        authority, store = first[0], held.store
        await self._robots.load(authority, state, store)  # it may have been offered just now
        if self._held(held):
            return False
        if self._robots.gives_up(authority):
            return await self._wait_out(entry, authority, store)
        until_us = self._robots.waits_until(authority)
        if until_us > now_us:
            entry.due_us[authority] = until_us
            return False
        needs_robots = self._robots.needs_fetch(authority)
        limit = 1 if needs_robots else self._batch(state)
        entry.claims.extend(await self._steps.claim(store, authority, limit, now_us, now_us + self._lease_us))
        await self._blocks.drop(entry, state.order, store)
        due_us = await self._look(entry, authority, store)
        if entry.claims and needs_robots:
            return await self._get_robots(entry, state, authority, held)
        return bool(entry.claims) or due_us is not None

    async def _look(self, entry: HostQueues, authority: str, store: UrlStore) -> int | None:
        """What is due next at an authority. Offers that come while the store is asked are not in its answer."""
        offers = entry.offers
        due_us = await store.next_due(authority)
        if entry.offers != offers:
            known = [us for us in (due_us, entry.due_us.get(authority)) if us is not None]
            due_us = min(known, default=None)
        if due_us is None:
            entry.due_us.pop(authority, None)
        else:
            entry.due_us[authority] = due_us
        return due_us

    def _batch(self, state: HostState) -> int:
        """URLs to claim at once: what can be sent within a third of the lease."""
        if self._governor.probes(state) or self._governor.crowded(state):
            return 1
        work = self._settings.work
        gap_seconds = max(self._governor.gap_seconds(state), 0.1)
        return max(1, min(work.claim_urls_max, int(work.lease_seconds / (3 * gap_seconds))))

    async def _get_robots(self, entry: HostQueues, state: HostState, authority: str, held: Holding) -> bool:
        """Fetch robots.txt under the host's permit; whether the claims can go on now."""
        permit = None if self._held(held) else self._governor.permit(state)
        if permit is None:
            return await self._return_claims(entry, held, 0)
        await self._robots.refresh(entry.claims[0], permit, held)
        if self._robots.gives_up(authority):
            await self._return_claims(entry, held, 0)
            return await self._wait_out(entry, authority, held.store)
        until_us = self._robots.waits_until(authority)
        if until_us > self._clock.wall_us():
            await self._return_claims(entry, held, until_us)
            entry.due_us[authority] = until_us
            return False
        await self._look(entry, authority, held.store)  # other rules may have let go what was denied
        return self._governor.ready_in(state) <= 0

    async def _wait_out(self, entry: HostQueues, authority: str, store: UrlStore) -> bool:
        """robots.txt was waited for in vain: nothing of this authority will be sent."""
        await self._robots.wait_out(authority, store)
        await self._look(entry, authority, store)
        return False

    async def _serve(self, entry: HostQueues, state: HostState, held: Holding) -> bool:
        """Deal with the first claim; False when the host has to wait before the next."""
        await self._blocks.drop(entry, state.order, held.store)  # no await from here to the send
        if not entry.claims:
            return True
        claim = entry.claims[0]
        now_us = self._clock.wall_us()
        if claim.lease_us - now_us <= self._longest_us:
            return await self._return_claims(entry, held, 0)
        licence = self._robots.license(claim.authority, claim.url)
        if isinstance(licence, Wait):
            return await self._return_claims(entry, held, licence.until_us)
        if not isinstance(licence, License):
            return await self._return_claims(entry, held, 0)
        if not licence.allowed:
            entry.claims.popleft()
            await self._deny(claim, licence, held.store)
            return True
        return await self._send(entry, state, held, licence)

    async def _send(self, entry: HostQueues, state: HostState, held: Holding, licence: License) -> bool:
        """Steps 2 and 3 in one stretch: every check, then the request, with no await between."""
        if self._held(held):
            return False
        permit = self._governor.permit(state)
        if permit is None:
            return False
        if not self._quota.take():
            self._governor.end(permit, 0, sent=False)
            self._dry_until = self._clock.monotonic() + DRY_SECONDS
            return await self._return_claims(entry, held, 0)
        sent = await self._exchange.send(entry.claims.popleft(), licence, permit, held.store)
        self._spawn(self._finishing, self._finish(entry, sent, held), held)
        return True

    async def _finish(self, entry: HostQueues, sent: Sent, held: Holding) -> None:
        with self._leases.kept(sent.claim, held.store):
            if self._leases.is_short(sent.claim):
                await self._leases.renew()  # the exchange took long
            verdict = await self._exchange.finish(sent, held.store, held.producer)
        if not verdict.page:
            self._quota.give_back()
        if verdict.due_us:
            self.offer(entry.host, sent.claim.authority, verdict.due_us)

    async def _deny(self, claim: Claim, licence: License, store: UrlStore) -> None:
        completion = Completion(
            claim=claim,
            state=State.DENIED,
            now_us=self._clock.wall_us(),
            reason=licence.rule or "robots",
            failures=claim.failures,
        )
        await self._steps.deny(store, completion)

    async def _return_claims(self, entry: HostQueues, held: Holding, due_us: int) -> bool:
        """Hand the rest of the batch back; it costs the URLs nothing. What is another's is left to him."""
        claims = list(entry.claims)
        entry.claims.clear()
        now_us = self._clock.wall_us()
        if claims and self._holdings.owns(held):
            await self._steps.hand_back(held.store, claims, due_us, now_us)
        for claim in claims:
            entry.due_us[claim.authority] = min(entry.due_us.get(claim.authority, now_us), max(due_us, now_us))
        return False

    def _reschedule(self, entry: HostQueues) -> None:
        """When the host comes up next: its gap, its waits, its earliest due time, our own troubles."""
        held = self._holdings.get(entry.shard)
        if entry.visiting or self._stopping or held is None or held.leaving:
            return
        now = self._clock.monotonic()
        first = entry.next_authority()
        state = self._governor.known(entry.host)
        if not entry.claims and first is None:
            if state is not None:
                self._governor.leave_line(state)
            self._scheduler.drop_if_idle(entry)
            return
        due_in = 0.0 if entry.claims or first is None else (first[1] - self._clock.wall_us()) / 1e6
        hold = HOLD_SECONDS if self._held(held) else 0.0
        later = max(due_in, hold)
        if state is None:
            later = max(0.0, later)  # its visit reads the row first, and obeys what that says
        elif later > 0:
            self._governor.leave_line(state)
            later = max(later, self._governor.ready_in(state))
        else:
            later = max(0.0, self._governor.line_up(state))
        self._scheduler.schedule(entry, now + later)

    async def _drain(self) -> None:
        while self._visits or self._finishing:
            await asyncio.wait(self._visits | self._finishing)
        for entry in self._scheduler.hosts():
            held = self._holdings.get(entry.shard)
            if held is not None:
                await self._give_back(entry, held)

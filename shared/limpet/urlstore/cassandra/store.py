"""`UrlStore` on Cassandra: one object a shard, over a session that all of a process share."""

from collections.abc import Sequence
from typing import Final

from limpet.clock import Clock
from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.runtime.randomness import Random
from limpet.segments.port import Location
from limpet.urlstore.cassandra.batches import UNRECORDED, Groups
from limpet.urlstore.cassandra.books import Books
from limpet.urlstore.cassandra.claims import Request
from limpet.urlstore.cassandra.core import Core
from limpet.urlstore.cassandra.dueindex import FOREVER_US
from limpet.urlstore.cassandra.operator import Operator
from limpet.urlstore.cassandra.session import Row, Session
from limpet.urlstore.cassandra.snapshots import counters_of
from limpet.urlstore.cassandra.sweep import Policy, Sweep
from limpet.urlstore.cassandra.unparsed import Unparsed
from limpet.urlstore.cassandra.view import View
from limpet.urlstore.port import EVERYTHING
from limpet.urlstore.types import (
    AdmitResult,
    AuthorityRow,
    Candidate,
    Claim,
    Completion,
    HostRow,
    Job,
    Notice,
    ParseOutput,
    Queue,
    Reject,
    RepairItem,
    RobotsFetch,
    UrlRow,
)

NOT_OWNED: Final = 0


class CassandraUrlStore:
    """See `UrlStore`. `epoch`: of the shard's owner, which alone claims and writes hosts; None for everybody else.

    `rows`, `all_outcomes`, `queues`, `leased_hosts` and `leased_authorities` read much: they are for listings, checkers
    and take-overs; a crawl node lives on `woken` and `next_due`. `counters` are as old as the last sweep where they are
    gauges. Call `flush` often and at the end: counts are kept in memory until then. `groups` leaves receipts.
    """

    def __init__(
        self,
        session: Session,
        shard: int,
        *,
        clock: Clock,
        random: Random,
        epoch: int | None = None,
        groups: Groups = UNRECORDED,
    ) -> None:
        self._session, self._shard, self._clock, self._random = session, shard, clock, random
        self._groups = groups
        self.books = Books(session, shard, epoch=epoch or NOT_OWNED, clock=clock, random=random, groups=groups)
        self.core = Core(session, shard, self.books, clock=clock, random=random, owner=epoch is not None, groups=groups)
        self._view = View(session, shard, self.core.index)
        self._unparsed = Unparsed(session, shard, self.books.parse)
        self.operator = Operator(
            session,
            self.books.hosts,
            self.books.exits,
            self.core.moves,
            count=self.books.add,
            notify=self.books.notify,
            ended=self._ended,
            groups=groups,
        )

    @property
    def shard(self) -> int:
        """See `UrlStore.shard`."""
        return self._shard

    async def flush(self) -> None:
        """What was counted so far is durable afterwards."""
        await self.books.flush()

    async def close(self) -> None:
        """The end of this object; the session stays open."""
        await self.operator.close()
        await self.flush()

    async def recount(self, parser_version: int, *, grace_us: int = 0) -> None:
        """Sweep the whole keyspace at once: for small crawls and for checks. A reconciler sweeps piece by piece."""
        await self.sweep(self._shard, Policy(1, parser_version, grace_us=grace_us)).all_at_once()

    def sweep(self, piece: int, policy: Policy) -> Sweep:
        """The sweep of a piece of the token ring, on behalf of this shard."""
        parse, listing = self.books.parse, self.books.listing
        return Sweep(
            self._session,
            piece,
            policy,
            parse,
            listing,
            clock=self._clock,
            random=self._random,
            groups=self._groups,
        )

    # -- discovery ---------------------------------------------------------------------------------------------------
    async def admit(self, candidates: Sequence[Candidate], now_us: int) -> list[AdmitResult]:
        """See `UrlStore.admit`."""
        return await self.core.discovery.admit(candidates, now_us)

    async def count_rejects(self, rejects: Sequence[Reject]) -> None:
        """See `UrlStore.count_rejects`."""
        if rejects:
            await self.books.count_rejects(rejects)

    async def add_seed(self, url: str) -> None:
        """See `UrlStore.add_seed`."""
        await self.books.seeds.add(url)

    async def seeds(self) -> list[str]:
        """See `UrlStore.seeds`."""
        return await self.books.seeds.all()

    # -- work --------------------------------------------------------------------------------------------------------
    async def queues(self) -> list[Queue]:
        """See `UrlStore.queues`. Reads the whole due index of the shard, first level, and the head of each queue."""
        queued = await self._view.queued(await self.core.wakes.durable_us())
        return [queue for authority, host in queued.items() for queue in await self._queue(authority, host)]

    async def begin(self) -> list[Queue]:
        """See `UrlStore.begin`: the first level from its durable cursor to now, and no authority's entries."""
        return await self.core.wakes.woken()

    async def queues_of(self, host: str) -> list[Queue]:
        """See `UrlStore.queues_of`."""
        authorities = await self.books.hosts.of_host(host)
        return [queue for authority in authorities for queue in await self._queue(authority, host)]

    async def waits(self, host: str) -> bool:
        """See `UrlStore.waits`. Leases are known to the owner, who made them or met them when it took the shard."""
        if await self.queues_of(host):
            return True
        authorities = set(await self.books.hosts.of_host(host))
        return any(held.authority in authorities for held in self.core.reading.leases.values())

    async def _queue(self, authority: str, host: str) -> list[Queue]:
        due_us = await self.core.reading.next_due(authority)
        return [] if due_us is None else [Queue(authority=authority, host=host, due_us=due_us)]

    async def woken(self) -> list[Queue]:
        """See `UrlStore.woken`."""
        return await self.core.wakes.woken()

    async def next_due(self, authority: str) -> int | None:
        """See `UrlStore.next_due`."""
        return await self.core.reading.next_due(authority)

    async def claim(self, authority: str, *, limit: int, now_us: int, lease_us: int, holder: str) -> list[Claim]:
        """See `UrlStore.claim`."""
        return await self.core.claims.claim(Request(authority, limit, now_us, lease_us, holder))

    async def renew(self, claims: Sequence[Claim], now_us: int, lease_us: int) -> list[bool]:
        """See `UrlStore.renew`."""
        return await self.core.claims.renew(claims, now_us, lease_us)

    async def hand_back(self, claims: Sequence[Claim], due_us: int, now_us: int) -> None:  # noqa: ARG002 - the port's
        """See `UrlStore.hand_back`."""
        await self.core.claims.hand_back(claims, due_us)

    async def complete(self, completion: Completion, host: HostRow | None = None) -> bool:
        """See `UrlStore.complete`. The host row is another partition: it is written first, and alone if we are late."""
        self.core.completions.check(completion)
        if host is not None:
            await self.books.hosts.put_host(host)
        return await self.core.completions.complete(completion)

    async def rearm_denied(self, authority: str, now_us: int) -> int:
        """See `UrlStore.rearm_denied`."""
        return await self.operator.rearm_denied(authority, now_us)

    async def wait_out(self, authority: str, reason: str, now_us: int) -> int:
        """See `UrlStore.wait_out`."""
        return await self.operator.wait_out(authority, reason, now_us)

    # -- politeness state --------------------------------------------------------------------------------------------
    async def host(self, host: str) -> HostRow | None:
        """See `UrlStore.host`."""
        return await self.books.hosts.host(host)

    async def put_host(self, row: HostRow) -> None:
        """See `UrlStore.put_host`."""
        await self.books.hosts.put_host(row)

    async def put_robots_fetch(self, fetch: RobotsFetch) -> bool:
        """See `UrlStore.put_robots_fetch`."""
        return await self.books.robots_fetches.put(fetch)

    async def has_robots_fetch(self, url: str, fetched_us: int) -> bool:
        """See `UrlStore.has_robots_fetch`."""
        return await self.books.robots_fetches.has(url, fetched_us)

    async def robots_fetches(self) -> list[RobotsFetch]:
        """See `UrlStore.robots_fetches`."""
        return await self.books.robots_fetches.all()

    async def requests(self, day: int) -> int:
        """See `UrlStore.requests`."""
        return await self.books.requests.of(day)

    async def hosts(self) -> list[HostRow]:
        """See `UrlStore.hosts`."""
        return await self.books.hosts.hosts()

    async def authority(self, authority: str) -> AuthorityRow | None:
        """See `UrlStore.authority`."""
        return await self.books.hosts.authority(authority)

    async def put_authority(self, row: AuthorityRow) -> None:
        """See `UrlStore.put_authority`."""
        await self.books.hosts.put_authority(row)

    # -- recovery ----------------------------------------------------------------------------------------------------
    async def adopt(self, outcome: Outcome, state: State, reason: str, now_us: int) -> bool:
        """See `UrlStore.adopt`."""
        return await self.core.expiry.adopt(outcome, state, reason, now_us)

    async def expire(self, now_us: int, *, dead: bool, poison_after: int) -> list[tuple[UrlRow, State]]:
        """See `UrlStore.expire`."""
        if dead:
            await self.books.jobs.release(now_us)
        return await self.core.expiry.expire(now_us, FOREVER_US if dead else now_us, poison_after)

    async def leased_hosts(self) -> list[str]:
        """See `UrlStore.leased_hosts`."""
        return sorted({row["host"] for row in await self.core.leases.scan(FOREVER_US)})

    async def leased_authorities(self) -> list[AuthorityRow]:
        """See `UrlStore.leased_authorities`."""
        leased = {row["authority"]: row["host"] for row in await self.core.leases.scan(FOREVER_US)}
        found = []
        for authority, host in sorted(leased.items()):
            known = await self.books.hosts.authority(authority)
            found.append(known or AuthorityRow(authority=authority, host=host))
        return found

    # -- reading -----------------------------------------------------------------------------------------------------
    async def row(self, fp: bytes) -> UrlRow | None:
        """See `UrlStore.row`."""
        return await self._view.row(fp)

    async def rows(self, state: State | None = None) -> list[UrlRow]:
        """See `UrlStore.rows`. Walks the token ring: reads every row of the keyspace."""
        return await self._view.rows(state)

    async def outcomes(self, fp: bytes) -> list[Outcome]:
        """See `UrlStore.outcomes`."""
        return await self._view.outcomes(fp)

    async def all_outcomes(self) -> list[Outcome]:
        """See `UrlStore.all_outcomes`. Walks the token ring: reads every outcome of the keyspace."""
        return await self._view.all_outcomes()

    async def has_outcome(self, fp: bytes, fetched_us: int) -> bool:
        """See `UrlStore.has_outcome`."""
        return await self.core.outcomes.exists(fp, fetched_us)

    async def recorded(self, segment: str, offset: int) -> list[Location]:
        """See `UrlStore.recorded`."""
        return await self._view.recorded(segment, offset)

    async def rejects(self) -> list[Reject]:
        """See `UrlStore.rejects`."""
        return await self.books.rejects.all()

    async def counters(self) -> dict[str, int]:
        """See `UrlStore.counters`. Totals of this process are as of now, and durable; gauges are those of the sweep."""
        await self.flush()
        return await counters_of(self._session, self._shard, self.books.totals)

    # -- parse -------------------------------------------------------------------------------------------------------
    async def accept_outputs(self, outputs: Sequence[ParseOutput], job: Job | None = None) -> list[bool]:
        """See `UrlStore.accept_outputs`."""
        return await self.books.parse.accept(outputs, job)

    async def output(self, fp: bytes, fetched_us: int, parser_version: int) -> ParseOutput | None:
        """See `UrlStore.output`."""
        return await self.books.parse.output(fp, fetched_us, parser_version)

    async def outputs(self, fp: bytes) -> list[ParseOutput]:
        """See `UrlStore.outputs`."""
        return await self.books.parse.outputs(fp)

    async def published(self, partition: int, source: int, begin: int, end: int) -> list[tuple[bytes, int]]:
        """See `UrlStore.published`. Those of all shards."""
        return await self.books.parse.published(partition, source, begin, end)

    async def put_job(self, job: Job) -> None:
        """See `UrlStore.put_job`."""
        await self.books.jobs.put(job)

    async def claim_jobs(self, *, limit: int, now_us: int, lease_us: int) -> list[Job]:
        """See `UrlStore.claim_jobs`."""
        return await self.books.jobs.claim(limit, now_us, lease_us)

    async def jobs(self) -> list[Job]:
        """See `UrlStore.jobs`."""
        return await self.books.jobs.all()

    async def rearm_jobs(self, now_us: int) -> int:
        """See `UrlStore.rearm_jobs`."""
        return await self.books.jobs.rearm(now_us)

    async def unparsed(self, parser_version: int, before_us: int, limit: int) -> list[Outcome]:
        """See `UrlStore.unparsed`. What the last sweeps found of it."""
        return await self._unparsed.find(parser_version, before_us, limit)

    # -- repair and notices ------------------------------------------------------------------------------------------
    async def put_repair(self, item: RepairItem) -> None:
        """See `UrlStore.put_repair`."""
        await self.books.repairs.open(item)

    async def close_repair(self, kind: str, subject: str) -> None:
        """See `UrlStore.close_repair`."""
        await self.books.repairs.close(kind, subject)

    async def repairs(self) -> list[RepairItem]:
        """See `UrlStore.repairs`."""
        return await self.books.repairs.all()

    async def notify(self, kind: str, host: str, reason: str, sample: str, now_us: int, count: int = 1) -> None:
        """See `UrlStore.notify`."""
        await self.books.notify(kind, host, reason, sample, now_us, count)

    async def notices(self) -> list[Notice]:
        """See `UrlStore.notices`."""
        return await self.books.notices.undelivered()

    async def delivered(self, notices: Sequence[Notice]) -> None:
        """See `UrlStore.delivered`."""
        await self.books.notices.delivered(notices)

    # -- operator ----------------------------------------------------------------------------------------------------
    async def cancel(
        self,
        host: str,
        reason: str,
        now_us: int,  # noqa: ARG002 - the port's
        limit: int,
        under: Sequence[str] = EVERYTHING,
    ) -> int:
        """See `UrlStore.cancel`."""
        return await self.operator.cancel(host, reason, limit, under)

    async def uncancel(self, host: str, reason: str, now_us: int, limit: int, but: Sequence[str] = ()) -> int:
        """See `UrlStore.uncancel`."""
        return await self.operator.uncancel(host, reason, now_us, limit, but)

    async def cancelled_hosts(self, reason: str) -> list[str]:
        """See `UrlStore.cancelled_hosts`."""
        return await self.operator.cancelled_hosts(reason)

    async def rearm(self, fps: Sequence[bytes], now_us: int) -> int:
        """See `UrlStore.rearm`."""
        return await self.operator.rearm(fps, now_us)

    def _ended(self, row: Row) -> None:
        """The operator took a leased row out."""
        self.core.reading.let_go(row["fp"], row["claim"], at=None)

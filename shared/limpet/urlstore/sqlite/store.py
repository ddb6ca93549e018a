"""`UrlStore` on one SQLite file. Each method that writes is one operation of the file's next transaction."""

from collections.abc import Callable, Sequence
from typing import Final

from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.runtime.randomness import Random
from limpet.runtime.sqlitefile import SqliteFile
from limpet.runtime.sqlitetx import Reader, Tx
from limpet.segments.port import Location
from limpet.urlstore import counters
from limpet.urlstore.port import EVERYTHING
from limpet.urlstore.sqlite import cancelling, codes, discovery, parse, reading, recovery, upkeep, work
from limpet.urlstore.sqlite.cancelling import Extent
from limpet.urlstore.sqlite.dueindex import DueIndex, earliest
from limpet.urlstore.sqlite.names import Names
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

_FOREVER_US: Final = 2**63 - 1


class SqliteUrlStore:
    """See `UrlStore`. The file is the shard's own; its bus log and offsets live beside the rows."""

    def __init__(self, file: SqliteFile, shard: int, random: Random) -> None:
        self._file = file
        self._shard = shard
        self._random = random
        self._names = Names()
        self._index = DueIndex()
        self._unparsed = parse.Unparsed()

    @property
    def shard(self) -> int:
        """See `UrlStore.shard`."""
        return self._shard

    # -- discovery ---------------------------------------------------------------------------------------------------
    async def admit(self, candidates: Sequence[Candidate], now_us: int) -> list[AdmitResult]:
        """See `UrlStore.admit`."""
        return await self._file.write(lambda tx: discovery.admit(tx, self._names, self._index, candidates, now_us))

    async def count_rejects(self, rejects: Sequence[Reject]) -> None:
        """See `UrlStore.count_rejects`."""
        if rejects:
            await self._file.write(lambda tx: discovery.count_rejects(tx, rejects))

    async def add_seed(self, url: str) -> None:
        """See `UrlStore.add_seed`."""
        await self._file.write(lambda tx: tx.run("seed_insert", (url,)))

    async def seeds(self) -> list[str]:
        """See `UrlStore.seeds`."""
        return self._file.read(reading.seeds)

    # -- work --------------------------------------------------------------------------------------------------------
    async def queues(self) -> list[Queue]:
        """See `UrlStore.queues`."""
        return self._file.read(self._index.queues)

    async def begin(self) -> list[Queue]:
        """See `UrlStore.begin`."""
        return await self.queues()

    async def queues_of(self, host: str) -> list[Queue]:
        """See `UrlStore.queues_of`: a look through what is in memory."""
        return [queue for queue in await self.queues() if queue.host == host]

    async def waits(self, host: str) -> bool:
        """See `UrlStore.waits`."""
        return bool(await self.queues_of(host)) or host in await self.leased_hosts()

    async def woken(self) -> list[Queue]:
        """See `UrlStore.woken`: whoever admits into a file tells its owner."""
        return []

    async def next_due(self, authority: str) -> int | None:
        """See `UrlStore.next_due`."""

        def op(reader: Reader) -> int | None:
            ids = self._names.find(reader, authority)
            row = reader.one("queue_next", (ids[0],)) if ids is not None else None
            return earliest(row[2], row[3]) if row else None

        return self._file.read(op)

    async def claim(self, authority: str, *, limit: int, now_us: int, lease_us: int, holder: str) -> list[Claim]:
        """See `UrlStore.claim`."""

        def op(tx: Tx) -> list[Claim]:
            found = tx.one("authority_host", (authority,))
            if found is None:
                return []
            request = work.ClaimRequest(found[0], authority, found[1], limit, now_us, lease_us, holder)
            return work.claim(tx, self._index, self._random, request)

        return await self._file.write(op)

    async def renew(self, claims: Sequence[Claim], now_us: int, lease_us: int) -> list[bool]:
        """See `UrlStore.renew`."""
        return await self._file.write(lambda tx: work.renew(tx, claims, now_us, lease_us))

    async def hand_back(self, claims: Sequence[Claim], due_us: int, now_us: int) -> None:  # noqa: ARG002 - the port's
        """See `UrlStore.hand_back`."""
        await self._file.write(lambda tx: work.hand_back(tx, self._index, claims, due_us))

    async def complete(self, completion: Completion, host: HostRow | None = None) -> bool:
        """See `UrlStore.complete`."""
        return await self._file.write(lambda tx: work.complete(tx, self._index, completion, host))

    async def rearm_denied(self, authority: str, now_us: int) -> int:
        """See `UrlStore.rearm_denied`."""
        return await self._of_queue(authority, lambda tx, queue: work.rearm_denied(tx, self._index, queue, now_us))

    async def wait_out(self, authority: str, reason: str, now_us: int) -> int:
        """See `UrlStore.wait_out`."""

        def op(tx: Tx, queue: int) -> int:
            count = work.wait_out(tx, self._index, queue, reason, now_us)
            if count:
                host = tx.all("authority_host", (authority,))[0][1]
                upkeep.notify(tx, ("failed", host, reason, count, authority, now_us, now_us))
            return count

        return await self._of_queue(authority, op)

    async def _of_queue(self, authority: str, op: Callable[[Tx, int], int]) -> int:
        """Run `op` with the id of a queue; 0 for an authority that was never met."""

        def with_id(tx: Tx) -> int:
            ids = self._names.find(tx, authority)
            return 0 if ids is None else op(tx, ids[0])

        return await self._file.write(with_id)

    # -- politeness state --------------------------------------------------------------------------------------------
    async def host(self, host: str) -> HostRow | None:
        """See `UrlStore.host`."""
        return self._file.read(lambda reader: reading.host(reader, host))

    async def put_host(self, row: HostRow) -> None:
        """See `UrlStore.put_host`."""
        await self._file.write(lambda tx: work.put_host(tx, row))

    async def put_robots_fetch(self, fetch: RobotsFetch) -> bool:
        """See `UrlStore.put_robots_fetch`."""
        return await self._file.write(lambda tx: work.put_robots_fetch(tx, fetch))

    async def has_robots_fetch(self, url: str, fetched_us: int) -> bool:
        """See `UrlStore.has_robots_fetch`."""
        return self._file.read(lambda reader: reader.one("robots_fetch_exists", (url, fetched_us)) is not None)

    async def robots_fetches(self) -> list[RobotsFetch]:
        """See `UrlStore.robots_fetches`."""
        return self._file.read(reading.robots_fetches)

    async def requests(self, day: int) -> int:
        """See `UrlStore.requests`."""
        return self._file.read(lambda reader: reading.requests(reader, day))

    async def hosts(self) -> list[HostRow]:
        """See `UrlStore.hosts`."""
        return self._file.read(reading.hosts)

    async def authority(self, authority: str) -> AuthorityRow | None:
        """See `UrlStore.authority`."""
        return self._file.read(lambda reader: reading.authority(reader, authority))

    async def put_authority(self, row: AuthorityRow) -> None:
        """See `UrlStore.put_authority`."""
        await self._file.write(lambda tx: upkeep.put_authority(tx, self._names, row))

    # -- recovery ----------------------------------------------------------------------------------------------------
    async def adopt(self, outcome: Outcome, state: State, reason: str, now_us: int) -> bool:
        """See `UrlStore.adopt`."""
        return await self._file.write(lambda tx: recovery.adopt(tx, self._index, outcome, state, reason, now_us))

    async def expire(self, now_us: int, *, dead: bool, poison_after: int) -> list[tuple[UrlRow, State]]:
        """See `UrlStore.expire`."""
        over_us = _FOREVER_US if dead else now_us
        return await self._file.write(lambda tx: recovery.expire(tx, self._index, now_us, over_us, poison_after))

    async def leased_hosts(self) -> list[str]:
        """See `UrlStore.leased_hosts`."""
        return self._file.read(reading.leased_hosts)

    async def leased_authorities(self) -> list[AuthorityRow]:
        """See `UrlStore.leased_authorities`."""
        return self._file.read(reading.leased_authorities)

    # -- reading -----------------------------------------------------------------------------------------------------
    async def row(self, fp: bytes) -> UrlRow | None:
        """See `UrlStore.row`."""
        return self._file.read(lambda reader: reading.row(reader, fp))

    async def rows(self, state: State | None = None) -> list[UrlRow]:
        """See `UrlStore.rows`."""
        return self._file.read(lambda reader: reading.rows(reader, state))

    async def outcomes(self, fp: bytes) -> list[Outcome]:
        """See `UrlStore.outcomes`."""
        return self._file.read(lambda reader: reading.outcomes(reader, fp))

    async def all_outcomes(self) -> list[Outcome]:
        """See `UrlStore.all_outcomes`."""
        return self._file.read(lambda reader: reading.outcomes_after(reader, 0, -1))

    async def has_outcome(self, fp: bytes, fetched_us: int) -> bool:
        """See `UrlStore.has_outcome`."""
        return self._file.read(lambda reader: reader.one("outcome_exists", (fp, fetched_us)) is not None)

    async def recorded(self, segment: str, offset: int) -> list[Location]:
        """See `UrlStore.recorded`."""
        return self._file.read(lambda reader: reading.recorded(reader, segment, offset))

    async def rejects(self) -> list[Reject]:
        """See `UrlStore.rejects`."""
        return self._file.read(reading.rejects)

    async def counters(self) -> dict[str, int]:
        """See `UrlStore.counters`."""
        return self._file.totals

    # -- parse -------------------------------------------------------------------------------------------------------
    async def accept_outputs(self, outputs: Sequence[ParseOutput], job: Job | None = None) -> list[bool]:
        """See `UrlStore.accept_outputs`."""
        return await self._file.write(lambda tx: parse.accept_outputs(tx, outputs, job))

    async def output(self, fp: bytes, fetched_us: int, parser_version: int) -> ParseOutput | None:
        """See `UrlStore.output`."""
        return self._file.read(lambda reader: reading.output(reader, fp, fetched_us, parser_version))

    async def outputs(self, fp: bytes) -> list[ParseOutput]:
        """See `UrlStore.outputs`."""
        return self._file.read(lambda reader: reading.outputs(reader, fp))

    async def published(self, partition: int, source: int, begin: int, end: int) -> list[tuple[bytes, int]]:
        """See `UrlStore.published`."""
        return [
            (output.fp, output.fetched_us)
            for page in reading.all_outputs(self._file)
            for output in page
            if output.went_to(partition, source, begin, end)
        ]

    async def put_job(self, job: Job) -> None:
        """See `UrlStore.put_job`."""
        await self._file.write(lambda tx: parse.put_job(tx, job))

    async def claim_jobs(self, *, limit: int, now_us: int, lease_us: int) -> list[Job]:
        """See `UrlStore.claim_jobs`."""
        if not self._file.totals.get(counters.JOBS_OPEN):
            return []
        return await self._file.write(lambda tx: parse.claim_jobs(tx, self._random, limit, now_us, lease_us))

    async def jobs(self) -> list[Job]:
        """See `UrlStore.jobs`."""
        return self._file.read(lambda reader: [codes.job(row) for row in reader.all("jobs")])

    async def rearm_jobs(self, now_us: int) -> int:
        """See `UrlStore.rearm_jobs`."""
        return await self._file.write(lambda tx: parse.rearm_jobs(tx, now_us))

    async def unparsed(self, parser_version: int, before_us: int, limit: int) -> list[Outcome]:
        """See `UrlStore.unparsed`."""
        return self._file.read(lambda reader: self._unparsed.find(reader, parser_version, before_us, limit))

    # -- repair and notices ------------------------------------------------------------------------------------------
    async def put_repair(self, item: RepairItem) -> None:
        """See `UrlStore.put_repair`."""
        await self._file.write(lambda tx: upkeep.put_repair(tx, item))

    async def close_repair(self, kind: str, subject: str) -> None:
        """See `UrlStore.close_repair`."""
        await self._file.write(lambda tx: upkeep.close_repair(tx, kind, subject))

    async def repairs(self) -> list[RepairItem]:
        """See `UrlStore.repairs`."""
        return self._file.read(reading.repairs)

    async def notify(self, kind: str, host: str, reason: str, sample: str, now_us: int, count: int = 1) -> None:
        """See `UrlStore.notify`."""
        await self._file.write(lambda tx: upkeep.notify(tx, (kind, host, reason, count, sample, now_us, now_us)))

    async def notices(self) -> list[Notice]:
        """See `UrlStore.notices`."""
        return self._file.read(lambda reader: [codes.notice(row) for row in reader.all("notices")])

    async def delivered(self, notices: Sequence[Notice]) -> None:
        """See `UrlStore.delivered`."""
        await self._file.write(lambda tx: upkeep.delivered(tx, notices))

    # -- operator ----------------------------------------------------------------------------------------------------
    async def cancel(self, host: str, reason: str, now_us: int, limit: int, under: Sequence[str] = EVERYTHING) -> int:
        """See `UrlStore.cancel`."""
        extent = Extent(now_us, limit, under)
        return await self._file.write(lambda tx: cancelling.cancel(tx, self._index, host, reason, extent))

    async def uncancel(self, host: str, reason: str, now_us: int, limit: int, but: Sequence[str] = ()) -> int:
        """See `UrlStore.uncancel`."""
        extent = Extent(now_us, limit, but)
        return await self._file.write(lambda tx: cancelling.uncancel(tx, self._index, host, reason, extent))

    async def cancelled_hosts(self, reason: str) -> list[str]:
        """See `UrlStore.cancelled_hosts`."""
        if not self._file.totals.get(counters.of_state(State.CANCELLED)):
            return []
        return self._file.read(lambda reader: [host for (host,) in reader.all("cancelled_hosts", (reason,))])

    async def rearm(self, fps: Sequence[bytes], now_us: int) -> int:
        """See `UrlStore.rearm`."""
        return await self._file.write(lambda tx: recovery.rearm(tx, self._index, fps, now_us))

    # -- the owner's clock, which the port leaves to the embedded form -----------------------------------------------
    def anchor(self) -> upkeep.Anchor | None:
        """Where the wall clock stood against boot time when the shard was last written, None for a new shard."""
        return self._file.read(upkeep.anchor)

    async def set_anchor(self, anchor: upkeep.Anchor) -> None:
        """Remember it."""
        await self._file.write(lambda tx: upkeep.set_anchor(tx, anchor))

    async def shift_waits(self, delta_us: int, anchor: upkeep.Anchor) -> None:
        """The same for a clock that moved so little that only what hosts asked for matters: few rows, not every URL."""
        await self._file.write(lambda tx: upkeep.shift_waits(tx, delta_us, anchor))

    async def shift_times(self, delta_us: int, anchor: upkeep.Anchor | None = None) -> None:
        """Move every durable due time, wait and lease by `delta_us`: the wall clock moved, the intervals did not.

        With `anchor`, that is stored in the same transaction, so that a crash cannot shift twice.
        """
        await self._file.write(lambda tx: upkeep.shift_times(tx, delta_us, anchor))
        self._index.forget()

"""The urlstore port: the authority, and the work queue.

One `UrlStore` is one shard: the rows whose bucket falls into it. Contract, for every adapter:

* A method that writes returns only when the write is durable; `Definite` means that nothing happened, `Indefinite` that
  it may have: read the row.
* Every write is idempotent or guarded; a guarded write that finds its guard gone changes nothing and says False.
* A reader never waits for a writer. What a method returned is visible to every later call on the same store.
* A read may take a round trip, during which everything else goes on: what a caller knew before it may be old after it.
* The due entry of a row is durable no later than the row.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.segments.port import Location
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

EVERYTHING: Final = ("",)
"""How the path of any URL begins."""


class UrlStore(Protocol):
    """One shard of the authority."""

    @property
    def shard(self) -> int:
        """Number of the shard, which is also its admission partition."""
        ...

    # -- discovery ---------------------------------------------------------------------------------------------------
    async def admit(self, candidates: Sequence[Candidate], now_us: int) -> list[AdmitResult]:
        """Due entry, then row, then read back, for each candidate.

        A row that exists is left as it is, but for a shorter way from a seed: its depth, hop path and via are the
        least that any candidate had. `NEARER` is said again until its outputs were published with that depth.
        """
        ...

    async def count_rejects(self, rejects: Sequence[Reject]) -> None:
        """Add to the counts per host and rule; the first 10 samples of each are kept."""
        ...

    async def add_seed(self, url: str) -> None:
        """Remember that `url` is a seed of this shard's scope (seeds proper, and where their redirects ended)."""
        ...

    async def seeds(self) -> list[str]:
        """Seeds of this shard."""
        ...

    # -- work --------------------------------------------------------------------------------------------------------
    async def queues(self) -> list[Queue]:
        """Authorities with a due entry, now or later."""
        ...

    async def begin(self) -> list[Queue]:
        """What whoever takes the shard has to know at once; of the rest it hears from `woken`, or from admission.

        A queue may be told that turns out to be empty, or due later.
        """
        ...

    async def queues_of(self, host: str) -> list[Queue]:
        """The same of one host. Costs what the host has, whatever the size of the shard."""
        ...

    async def waits(self, host: str) -> bool:
        """Whether a host has anything due, now or later, or leased: what `cancel` would find. Costs likewise."""
        ...

    async def woken(self) -> list[Queue]:
        """Queues that came to have something due since the owner last asked, and that nobody told the owner about.

        It asked by this or by `queues`. Some may be known already. [] where admission tells the owner itself, as on one
        machine.
        """
        ...

    async def next_due(self, authority: str) -> int | None:
        """Earliest entry of the authority's due index; None when it is empty."""
        ...

    async def claim(self, authority: str, *, limit: int, now_us: int, lease_us: int, holder: str) -> list[Claim]:
        """Lease up to `limit` due URLs of one authority until `lease_us`, each under a fresh token.

        Lane `SOON` first; a URL that was interrupted comes alone (and marked `alone`).
        """
        ...

    async def renew(self, claims: Sequence[Claim], now_us: int, lease_us: int) -> list[bool]:
        """Extend leases that are still ours; False for each that is not."""
        ...

    async def hand_back(self, claims: Sequence[Claim], due_us: int, now_us: int) -> None:
        """Return claims that were not sent; costs the URL nothing. Due again at `due_us` (0 = as it was)."""
        ...

    async def complete(self, completion: Completion, host: HostRow | None = None) -> bool:
        """Insert the outcome, set state and due time, clear the lease, in one guarded write. False: we were late.

        `host`, when given, is stored in the same write whatever the guard says.
        """
        ...

    async def rearm_denied(self, authority: str, now_us: int) -> int:
        """`denied` rows of an authority become due, because its robots.txt changed. The number of rows."""
        ...

    async def wait_out(self, authority: str, reason: str, now_us: int) -> int:
        """Due rows of an authority that waited in vain become `failed(reason)`, with a notice. The number of rows."""
        ...

    # -- politeness state --------------------------------------------------------------------------------------------
    async def host(self, host: str) -> HostRow | None:
        """The host's row."""
        ...

    async def put_host(self, row: HostRow) -> None:
        """Store it (its `urls` is ignored)."""
        ...

    async def put_robots_fetch(self, fetch: RobotsFetch) -> bool:
        """Insert a request for a robots.txt unless it is there, and count it among the requests of its UTC day.

        False when it was there: nothing is counted then. Kept for `ROBOTS_FETCHES_KEPT_US`, and gone some time after.
        """
        ...

    async def has_robots_fetch(self, url: str, fetched_us: int) -> bool:
        """Whether that one is there."""
        ...

    async def robots_fetches(self) -> list[RobotsFetch]:
        """All that are kept, by fetch time. For listings and checkers: reads everything."""
        ...

    async def requests(self, day: int) -> int:
        """Requests that were sent on a UTC day (days since 1970), as far as they are durable.

        Outcomes and requests for robots.txt count themselves, unless none went out.
        """
        ...

    async def hosts(self) -> list[HostRow]:
        """All hosts of the shard."""
        ...

    async def authority(self, authority: str) -> AuthorityRow | None:
        """The authority's row."""
        ...

    async def put_authority(self, row: AuthorityRow) -> None:
        """Store it."""
        ...

    # -- recovery ----------------------------------------------------------------------------------------------------
    async def adopt(self, outcome: Outcome, state: State, reason: str, now_us: int) -> bool:
        """Outcome of an intact record without one: inserted if absent.

        A `due`, `leased` or `cancelled` row moves, unless its latest outcome is of a later request, or a later owner
        holds it: that one's completion is under way.
        False when the outcome was there or the URL has no row.
        """
        ...

    async def expire(self, now_us: int, *, dead: bool, poison_after: int) -> list[tuple[UrlRow, State]]:
        """End leases that ran out (with `dead`, all of them): rows become due and soon, one interruption more.

        The `poison_after`-th interruption while claimed alone becomes `review`, with a notice in the same write. The
        rows as they were, with their new state.
        """
        ...

    async def leased_hosts(self) -> list[str]:
        """Hosts with an unfinished lease."""
        ...

    async def leased_authorities(self) -> list[AuthorityRow]:
        """Authorities with an unfinished lease, and what robots remembers of them."""
        ...

    # -- reading -----------------------------------------------------------------------------------------------------
    async def row(self, fp: bytes) -> UrlRow | None:
        """One row."""
        ...

    async def rows(self, state: State | None = None) -> list[UrlRow]:
        """Rows of the shard, all or of one state. For listings and checkers: reads everything."""
        ...

    async def outcomes(self, fp: bytes) -> list[Outcome]:
        """Outcomes of one URL, oldest first."""
        ...

    async def all_outcomes(self) -> list[Outcome]:
        """Every outcome of the shard, for listings and checkers."""
        ...

    async def has_outcome(self, fp: bytes, fetched_us: int) -> bool:
        """Whether that outcome exists."""
        ...

    async def recorded(self, segment: str, offset: int) -> list[Location]:
        """Records of a segment from `offset` on that outcomes name, in file order: recovery must keep them."""
        ...

    async def rejects(self) -> list[Reject]:
        """Counts per host and rule, one row a sample (count on the first)."""
        ...

    async def counters(self) -> dict[str, int]:
        """Monotonic counters and gauges, kept in the same writes as what they count. See `limpet.urlstore.counters`."""
        ...

    # -- parse -------------------------------------------------------------------------------------------------------
    async def accept_outputs(self, outputs: Sequence[ParseOutput], job: Job | None = None) -> list[bool]:
        """Insert each output if absent; False for one that was there, unless the new one has a lesser depth.

        One whose row has come nearer than its own depth is not accepted at all: its links carry the wrong depth.
        Its job, if it has one, stays open then.
        With `job`, only while its token is ours, and the job ends in the same write; all False when it is not.
        """
        ...

    async def output(self, fp: bytes, fetched_us: int, parser_version: int) -> ParseOutput | None:
        """An accepted output."""
        ...

    async def outputs(self, fp: bytes) -> list[ParseOutput]:
        """Accepted outputs of one URL."""
        ...

    async def published(self, partition: int, source: int, begin: int, end: int) -> list[tuple[bytes, int]]:
        """Documents (fingerprint, fetch time) whose accepted output went to these places of `links.discovered`.

        From offset `begin` to `end` - 1. Those of this shard, where shards share a store those of all. Reads every
        output.
        """
        ...

    async def put_job(self, job: Job) -> None:
        """Store a job free to be claimed: insert, or replace if the stored one has a lower attempt.

        With `token`: only while that is the stored job's token, whatever the attempt.
        """
        ...

    async def claim_jobs(self, *, limit: int, now_us: int, lease_us: int) -> list[Job]:
        """Lease open jobs that are eligible, each under a fresh token.

        A job whose lease ran out is eligible again, with one attempt more: its holder died of it, for all we know.
        """
        ...

    async def jobs(self) -> list[Job]:
        """All jobs that have not ended well."""
        ...

    async def rearm_jobs(self, now_us: int) -> int:
        """Jobs in review become open, as if only the first attempt had failed. The number of jobs. For operators."""
        ...

    async def unparsed(self, parser_version: int, before_us: int, limit: int) -> list[Outcome]:
        """Fetched outcomes completed before `before_us` with neither output nor job."""
        ...

    # -- repair and notices ------------------------------------------------------------------------------------------
    async def put_repair(self, item: RepairItem) -> None:
        """Open an item unless (kind, subject) is open already."""
        ...

    async def close_repair(self, kind: str, subject: str) -> None:
        """Close it."""
        ...

    async def repairs(self) -> list[RepairItem]:
        """Open items, oldest first."""
        ...

    async def notify(self, kind: str, host: str, reason: str, sample: str, now_us: int, count: int = 1) -> None:
        """Add to the undelivered notice of (kind, host, reason), or start one."""
        ...

    async def notices(self) -> list[Notice]:
        """Notices not yet delivered."""
        ...

    async def delivered(self, notices: Sequence[Notice]) -> None:
        """Mark them delivered, up to the counts they show."""
        ...

    # -- operator ----------------------------------------------------------------------------------------------------
    async def cancel(self, host: str, reason: str, now_us: int, limit: int, under: Sequence[str] = EVERYTHING) -> int:
        """`due` and `leased` rows of a host become `cancelled(reason)`, leases end at once: up to `limit` in one write.

        `under`: only those whose path and query begin with one of these.
        The number of rows; call again until it is 0. A completion that comes later is late and changes nothing.
        """
        ...

    async def uncancel(self, host: str, reason: str, now_us: int, limit: int, but: Sequence[str] = ()) -> int:
        """Rows of a host that were cancelled for `reason` become due, counts cleared: up to `limit`. Their number.

        `but`: not those whose path and query begin with one of these.
        """
        ...

    async def cancelled_hosts(self, reason: str) -> list[str]:
        """Hosts with rows that were cancelled for `reason`. Cheap when nothing in the shard is cancelled."""
        ...

    async def rearm(self, fps: Sequence[bytes], now_us: int) -> int:
        """`failed`, `parked`, `review`, `gone` or `cancelled` rows become due, counts cleared. The number of rows."""
        ...

"""Everything of a shard beside its rows and due index, put together."""

from collections import Counter
from collections.abc import Mapping, Sequence

from limpet.clock import Clock
from limpet.model.lifecycle import State
from limpet.runtime.randomness import Random
from limpet.urlstore import counters
from limpet.urlstore.cassandra.batches import UNRECORDED, Groups
from limpet.urlstore.cassandra.exits import Exits
from limpet.urlstore.cassandra.hosts import Hosts
from limpet.urlstore.cassandra.jobs import OPEN, REVIEW, Jobs
from limpet.urlstore.cassandra.led import Led
from limpet.urlstore.cassandra.ledger import Rejects, Repairs, Requests, Seeds, Totals
from limpet.urlstore.cassandra.notices import Notices
from limpet.urlstore.cassandra.parse import Parse
from limpet.urlstore.cassandra.robotsfetches import RobotsFetches
from limpet.urlstore.cassandra.rows import complete, way
from limpet.urlstore.cassandra.session import Session
from limpet.urlstore.types import ParseOutput, Reject

WRITER_BYTES = 9


class Books:
    """See `limpet.urlstore.cassandra.hooks.Ledger`. `epoch`: of the owner of the shard, 0 for everybody else.

    Counts are kept in memory until `flush`, which the holder calls often and at its end.
    """

    def __init__(
        self, session: Session, shard: int, *, epoch: int, clock: Clock, random: Random, groups: Groups = UNRECORDED
    ) -> None:
        writer = random.token(WRITER_BYTES).hex()
        self._session, self._shard = session, shard
        self.totals = Totals(session, shard, writer, clock)
        self.hosts = Hosts(session, shard, Led(epoch, clock), writer, groups)
        self.seeds = Seeds(session, shard)
        self.rejects = Rejects(session, shard, writer, groups)
        self.requests = Requests(session, shard, writer)
        self.robots_fetches = RobotsFetches(session, shard, self.requests)
        self.notices = Notices(session, shard, writer, groups)
        self.repairs = Repairs(session, shard)
        self.exits = Exits(session, shard, clock)
        self.jobs = Jobs(session, shard, random, clock)
        self.parse = Parse(session, self.jobs, random, self._depth_of, self.totals.add, groups)

    # -- hooks.Ledger --------------------------------------------------------------------------------------------------
    async def meet(self, authority: str, host: str) -> None:
        """An authority has, or is about to have, a row."""
        await self.hosts.meet(authority, host)

    async def denied(self, authority: str, fp: bytes) -> None:
        """A row is about to be denied."""
        await self.exits.denied(authority, fp)

    async def cancelled(self, host: str, reason: str, fp: bytes) -> None:
        """A row is about to be born cancelled."""
        await self.exits.cancelled(host, reason, fp)

    async def count(self, hosts: Mapping[str, int]) -> None:
        """So many rows were admitted of each host."""
        await self.hosts.count(hosts)

    async def notify(self, kind: str, host: str, reason: str, sample: str, now_us: int, count: int = 1) -> None:
        """See `UrlStore.notify`."""
        self.totals.add(counters.NOTICES, count)
        await self.notices.add((kind, host, reason), sample, now_us, count)

    async def outputs(self, fp: bytes) -> list[ParseOutput]:
        """See `UrlStore.outputs`."""
        return await self.parse.outputs(fp)

    def add(self, counter: str, count: int = 1) -> None:
        """Add to a total of `limpet.urlstore.counters`; gauges are left to the sweep."""
        self.totals.add(counter, count)

    def note(self, day: int) -> None:
        """One more request of a UTC day."""
        self.requests.note(day)

    async def count_rejects(self, rejects: Sequence[Reject]) -> None:
        """See `UrlStore.count_rejects`."""
        self.totals.add(counters.REJECTED, sum(reject.count for reject in rejects))
        await self.rejects.count(rejects)

    # -- upkeep --------------------------------------------------------------------------------------------------------
    async def flush(self) -> None:
        """What was counted so far is durable afterwards."""
        await self.requests.flush()
        await self.totals.flush()

    async def listing(self) -> dict[str, int]:
        """What is counted by listing it, under the names of `limpet.urlstore.counters`."""
        jobs = Counter(job.state for job in await self.jobs.all())
        clashes = len(await self._session.run("clash_keys", shard=self._shard))
        return {
            counters.JOBS_OPEN: jobs[OPEN],
            counters.JOBS_REVIEW: jobs[REVIEW],
            counters.REPAIRS_OPEN: len(await self.repairs.all()),
            counters.REJECTED: sum(reject.count for reject in await self.rejects.all()),
            counters.CLASHES: clashes,
            counters.of_state(State.REVIEW): clashes,
        }

    async def _depth_of(self, fp: bytes) -> int | None:
        row = await self._session.one("url_get", fp=fp)
        return way(row).depth if row is not None and complete(row) else None

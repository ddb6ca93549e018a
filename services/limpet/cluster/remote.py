"""A cluster's crawl as a verb reads it: facts, stores and archive, without joining a group or taking a lease."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from limpet.assembly.places import shard_of_host
from limpet.clock import DurableClock
from limpet.cluster.archivedisk import ArchiveDisk
from limpet.cluster.facts import read_facts
from limpet.cluster.orders import CassandraOrders
from limpet.cluster.seen import seen_shard
from limpet.cluster.settings import ClusterSettings
from limpet.cluster.stores import open_store
from limpet.cluster.tables import CassandraFacts
from limpet.config import Facts
from limpet.membership import Beat, Owner
from limpet.model.errors import CannotGoOn, UsageError
from limpet.model.lifecycle import State
from limpet.receipts import FileReceiptLog, Recorder
from limpet.runtime import Random, Runner, SystemDisk, new_incarnation
from limpet.seen.rebuild import rebuild
from limpet.segments.hdfs import HdfsFault, pull
from limpet.segments.hdfs.native import NativeHdfs
from limpet.segments.layout import OPEN
from limpet.urlstore import AuthorityRow, HostRow, Job, ParseOutput, RobotsFetch, UrlRow
from limpet.urlstore.cassandra import CassandraUrlStore, Session
from limpet.urlstore.cassandra.batches import UNRECORDED, Batches, Groups
from limpet.urlstore.cassandra.guarded import each
from limpet.urlstore.cassandra.hosts import Hosts
from limpet.urlstore.cassandra.leases import CassandraLeaseTable
from limpet.urlstore.cassandra.snapshots import Snapshot, status
from limpet.urlstore.cassandra.walk import Fetched, walk_fetched, walk_rows
from limpet.warc import parse_segment_name

QUEUE_ROWS_MAX: Final = 10_000


class Pulled(msgspec.Struct, frozen=True):
    """Segments that were copied, and those that are still being written, which were not."""

    segments: tuple[str, ...]
    growing: tuple[str, ...]


class Queue(NamedTuple):
    """Of an authority. `queued` None: not counted, or more than `QUEUE_ROWS_MAX`."""

    queued: int | None
    leased: int | None
    due_us: int


class RemoteCrawl:
    """See `open_remote`."""

    def __init__(
        self, settings: ClusterSettings, facts: Facts, session: Session, clock: DurableClock, random: Random
    ) -> None:
        self.facts = facts
        self._settings = settings
        self._session = session
        self._clock = clock
        self._random = random
        self.orders = CassandraOrders(session)

    def store(self, shard: int, groups: Groups = UNRECORDED) -> CassandraUrlStore:
        """One shard, as somebody who does not own it; `groups` leaves receipts of what is written."""
        return open_store(self._session, shard, self._clock, self._random, groups=groups)

    # -- listings ----------------------------------------------------------------------------------------------------
    def rows(self, states: Collection[State] | None = None) -> AsyncIterator[list[UrlRow]]:
        """Every row, or those of some states, a page at a time: one walk over the whole keyspace in any case."""
        return walk_rows(self._session, range(self.facts.shards), states)

    def fetched(self) -> AsyncIterator[list[Fetched]]:
        """Every row with its outcomes, a page at a time: one walk over the whole keyspace."""
        return walk_fetched(self._session, range(self.facts.shards))

    async def row(self, fp: bytes) -> UrlRow | None:
        """The row of a fingerprint, whichever its shard."""
        return await self.store(0).row(fp)

    async def outputs(self, row: UrlRow) -> list[ParseOutput]:
        """What parsers made of a URL's bodies."""
        return await self.store(0).outputs(row.fp)

    async def robots_fetches(self) -> AsyncIterator[list[RobotsFetch]]:
        """Requests for robots.txt that are kept, some at a time."""
        for shard in range(self.facts.shards):
            async for fetches in self.store(shard).books.robots_fetches.pages():
                yield fetches

    async def rejected(self) -> Counter[str]:
        """How many links each rule turned away."""
        counts: Counter[str] = Counter()
        for shard in range(self.facts.shards):
            counts.update(await self.store(shard).books.rejects.by_rule())
        return counts

    async def robots(self) -> AsyncIterator[list[AuthorityRow]]:
        """What robots remembers, some servers at a time: a walk over all servers, never over URLs."""
        for shard in range(self.facts.shards):
            async for rows in self.store(shard).books.hosts.robots_pages():
                yield rows

    async def jobs_in_review(self) -> AsyncIterator[list[Job]]:
        """Parse jobs that wait for a person, shard by shard."""
        for shard in range(self.facts.shards):
            yield [job async for job in self.store(shard).books.jobs.in_review()]

    async def damages(self) -> list[str]:
        """Damage that recovery found in segments and kept."""
        shards = range(self.facts.shards)
        found = await asyncio.gather(*(self.store(shard).books.notices.damages() for shard in shards))
        return sorted({text for texts in found for text in texts})

    async def rules_of(self, host: str, url: str) -> list[str]:
        """Rules that are known to have turned `url` away."""
        return await self.store(shard_of_host(host, self.facts)).books.rejects.rules_of(host, url)

    # -- hosts -------------------------------------------------------------------------------------------------------
    async def hosts(self) -> AsyncIterator[list[tuple[HostRow, list[AuthorityRow]]]]:
        """Every host that was met with its authorities, some at a time: a walk over all hosts, never over URLs."""
        for shard in range(self.facts.shards):
            hosts = self.store(shard).books.hosts
            async for rows in hosts.pages():
                names = [row.host for row in rows]
                yield list(zip(rows, await each(names, partial(_authorities, hosts)), strict=True))

    async def host(self, host: str) -> tuple[HostRow | None, list[AuthorityRow]]:
        """One host with its authorities; None when it was never met."""
        hosts = self.store(shard_of_host(host, self.facts)).books.hosts
        found = await _authorities(hosts, host)
        row = await hosts.host(host)
        return (row or HostRow(host=host) if found else row), found

    async def queue(self, authority: AuthorityRow) -> Queue:
        """What waits and what is leased of an authority, counted row by row up to `QUEUE_ROWS_MAX`."""
        queued, leased, due_us = 0, 0, 0
        pages = self.store(shard_of_host(authority.host, self.facts)).operator.waiting(authority.authority)
        async with aclosing(pages):
            async for rows in pages:
                for row in rows:
                    if row.token:
                        leased += 1
                    else:
                        queued, due_us = queued + 1, min(due_us or row.due_us, row.due_us)
                if queued > QUEUE_ROWS_MAX:
                    return Queue(None, leased, due_us)
        return Queue(queued, leased, due_us)

    # -- counts ------------------------------------------------------------------------------------------------------

    async def counted(self) -> Snapshot:
        """Counts of the whole crawl, and when the oldest of them is from; two small reads a shard, at any size."""
        return await status(self._session, range(self.facts.shards))

    async def requests(self, day: int) -> int:
        """Requests of a UTC day, as far as they are durable."""
        return sum(await asyncio.gather(*(self.store(shard).requests(day) for shard in range(self.facts.shards))))

    async def beats(self) -> list[Beat]:
        """Processes that beat or have beaten: who is dead is for an observer to judge, over a lease's time."""
        return list(await CassandraLeaseTable(self._session).incarnations())

    async def owners(self) -> dict[int, Owner]:
        """Who owns which shard, as the table has it."""
        return await CassandraLeaseTable(self._session).owners()

    async def unsealed(self) -> list[tuple[str, str]]:
        """Segments that are not sealed, with their writers. Raises `CannotGoOn` when HDFS does not serve."""
        hdfs, root = NativeHdfs(self._settings.hdfs), self._settings.hdfs.root
        try:
            files = await hdfs.files(root)
        except HdfsFault as error:
            raise CannotGoOn(f"HDFS does not list the segments below {root}: {error}") from error
        finally:
            await hdfs.close()
        names = sorted(path.rpartition("/")[2].removesuffix(OPEN) for path in files if path.endswith(OPEN))
        parsed = [(name, parse_segment_name(name)) for name in names]
        return [(name, one.incarnation) for name, one in parsed if one is not None]

    # -- orders and repairs ------------------------------------------------------------------------------------------
    async def retry(self, states: Collection[State], runner: Runner) -> int:
        """Make every row in `states` due again, and every page that could not be parsed be parsed again; their number.

        One walk over the whole keyspace, while the crawl goes on; may be run again.
        """
        recorder, incarnation = self._recorder(runner)
        names = {"crawl": self.facts.crawl, "incarnation": incarnation}
        stores = [
            self.store(shard, Batches(recorder, self._clock, **names, target=f"urlstore/{shard}"))
            for shard in range(self.facts.shards)
        ]
        count = 0
        try:
            async for page in self.rows(states):
                by_shard: dict[int, list[bytes]] = {}
                for row in page:
                    by_shard.setdefault(shard_of_host(row.host, self.facts), []).append(row.fp)
                for shard, fps in by_shard.items():
                    count += await stores[shard].rearm(fps, self._clock.wall_us())
            for store in stores:
                count += await store.rearm_jobs(self._clock.wall_us())
        finally:
            for store in stores:
                await store.close()
        return count

    def _recorder(self, runner: Runner) -> tuple[Recorder, str]:
        """Who keeps receipts on this machine, and under which incarnation. Raises `UsageError`."""
        folder = Path(self._settings.cluster.folder) / "receipts"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cluster.folder {folder}: {error.strerror or error}: choose another one") from error
        incarnation = new_incarnation(self._random)
        return Recorder(FileReceiptLog(folder, SystemDisk(), runner, incarnation)), incarnation

    async def rebuild_seen(self, shard: int, runner: Runner) -> int:
        """Mark every row of `shard` in its seen shard, while the crawl goes on; their number.

        It clears nothing: what is marked has a row. Raises `SeenUnavailable`; may be run again.
        """
        recorder, incarnation = self._recorder(runner)
        marks = seen_shard(
            self._settings, self.facts, shard, clock=self._clock, incarnation=incarnation, recorder=recorder
        )
        try:
            return await rebuild(marks, [row.fp for row in await self.store(shard).rows()])
        finally:
            await marks.close()

    def archive(self, loop: asyncio.Runner) -> ArchiveDisk:
        """The segments, to be read where they are."""
        return ArchiveDisk(NativeHdfs(self._settings.hdfs), self._settings.hdfs.root, loop)

    async def pull_segments(self, folder: Path, runner: Runner) -> Pulled:
        """Copy sealed segments with their indexes into `folder`. Raises `CannotGoOn` when HDFS does not serve."""
        hdfs, root = NativeHdfs(self._settings.hdfs), self._settings.hdfs.root
        try:
            copied = await pull(hdfs, root, folder, disk=SystemDisk(), runner=runner)
            names = [path.rpartition("/")[2] for path in await hdfs.files(root)]
        except HdfsFault as error:
            raise CannotGoOn(f"HDFS does not give the segments below {root}: {error}") from error
        finally:
            await hdfs.close()
        return Pulled(tuple(copied), tuple(sorted(name for name in names if name.endswith(OPEN))))


async def _authorities(hosts: Hosts, host: str) -> list[AuthorityRow]:
    found = [await hosts.authority(name) for name in await hosts.of_host(host)]
    return [row for row in found if row is not None]


@asynccontextmanager
async def open_remote(settings: ClusterSettings, clock: DurableClock, random: Random) -> AsyncIterator[RemoteCrawl]:
    """Connect and compare the facts. Raises `UsageError` for other facts, `LimpetError` for servers that are away."""
    session = await Session.open(settings.cassandra)
    try:
        facts = await read_facts(CassandraFacts(session), settings, clock, random)
        yield RemoteCrawl(settings, facts, session, clock, random)
    finally:
        await session.close()

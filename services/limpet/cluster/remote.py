"""A cluster's crawl as a verb reads it: facts, stores and archive, without joining a group or taking a lease."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from limpet.clock import DurableClock
from limpet.cluster.facts import read_facts
from limpet.cluster.seen import seen_shard
from limpet.cluster.settings import ClusterSettings
from limpet.cluster.stores import open_store
from limpet.cluster.tables import CassandraFacts
from limpet.config import Facts
from limpet.membership import Beat
from limpet.model.errors import CannotGoOn
from limpet.receipts import FileReceiptLog, Recorder
from limpet.runtime import Random, Runner, SystemDisk, new_incarnation
from limpet.seen.rebuild import rebuild
from limpet.segments.hdfs import HdfsFault, pull
from limpet.segments.hdfs.native import NativeHdfs
from limpet.segments.layout import OPEN
from limpet.urlstore import UrlStore
from limpet.urlstore.cassandra import Session
from limpet.urlstore.cassandra.leases import CassandraLeaseTable
from limpet.urlstore.cassandra.snapshots import Snapshot, status


class Pulled(msgspec.Struct, frozen=True):
    """Segments that were copied, and those that are still being written, which were not."""

    segments: tuple[str, ...]
    growing: tuple[str, ...]


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

    def store(self, shard: int) -> UrlStore:
        """One shard, as somebody who does not own it."""
        return open_store(self._session, shard, self._clock, self._random)

    async def counted(self) -> Snapshot:
        """Counts of the whole crawl, and when the oldest of them is from; two small reads a shard, at any size."""
        return await status(self._session, range(self.facts.shards))

    async def requests(self, day: int) -> int:
        """Requests of a UTC day, as far as they are durable."""
        return sum(await asyncio.gather(*(self.store(shard).requests(day) for shard in range(self.facts.shards))))

    async def beats(self) -> list[Beat]:
        """Processes that beat or have beaten: who is dead is for an observer to judge, over a lease's time."""
        return list(await CassandraLeaseTable(self._session).incarnations())

    async def rebuild_seen(self, shard: int, runner: Runner) -> int:
        """Mark every row of `shard` in its seen shard, while the crawl goes on; their number.

        It clears nothing: what is marked has a row. Raises `SeenUnavailable`; may be run again.
        """
        folder = Path(self._settings.cluster.folder) / "receipts"
        folder.mkdir(parents=True, exist_ok=True)
        incarnation = new_incarnation(self._random)
        recorder = Recorder(FileReceiptLog(folder, SystemDisk(), runner, incarnation))
        marks = seen_shard(
            self._settings, self.facts, shard, clock=self._clock, incarnation=incarnation, recorder=recorder
        )
        try:
            return await rebuild(marks, [row.fp for row in await self.store(shard).rows()])
        finally:
            await marks.close()

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


@asynccontextmanager
async def open_remote(settings: ClusterSettings, clock: DurableClock, random: Random) -> AsyncIterator[RemoteCrawl]:
    """Connect and compare the facts. Raises `UsageError` for other facts, `LimpetError` for servers that are away."""
    session = await Session.open(settings.cassandra)
    try:
        facts = await read_facts(CassandraFacts(session), settings, clock, random)
        yield RemoteCrawl(settings, facts, session, clock, random)
    finally:
        await session.close()

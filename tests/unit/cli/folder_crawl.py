"""A cluster's crawl whose stores are the files of a folder: what `ClusterView` asks, without servers."""

from collections.abc import AsyncIterator, Collection

from limpet.assembly.places import shard_of_host
from limpet.clock import SystemClock
from limpet.config import Facts
from limpet.embedded.folder import Folder
from limpet.model.lifecycle import State
from limpet.politeness.orders import NO_ORDERS, Orders
from limpet.runtime import InlineRunner
from limpet.runtime.sqlitefile import SqliteFile
from limpet.schemas.sqlite import shard_schema
from limpet.testing.chance import SeededRandom
from limpet.urlstore import Job, UrlRow
from limpet.urlstore.sqlite import SqliteUrlStore, reading


class NoOrders:
    """See `CassandraOrders`: nothing was ever ordered."""

    async def look(self) -> Orders:
        """See `CassandraOrders.look`."""
        return NO_ORDERS


class FolderCrawl:
    """See `RemoteCrawl`. `close` it."""

    def __init__(self, folder: Folder) -> None:
        self._files = [
            SqliteFile(
                folder.shard_file(shard),
                schema=shard_schema(),
                runner=InlineRunner(),
                clock=SystemClock(),
                synchronous="OFF",
            )
            for shard in range(folder.facts.shards)
        ]
        self.facts: Facts = folder.facts
        self.orders = NoOrders()

    def store(self, shard: int) -> SqliteUrlStore:
        """See `RemoteCrawl.store`."""
        return SqliteUrlStore(self._files[shard], shard, SeededRandom(shard))

    async def rows(self, states: Collection[State] | None = None) -> AsyncIterator[list[UrlRow]]:
        """See `RemoteCrawl.rows`."""
        for shard in range(self.facts.shards):
            yield [row for row in await self.store(shard).rows() if states is None or row.state in states]

    async def jobs_in_review(self) -> AsyncIterator[list[Job]]:
        """See `RemoteCrawl.jobs_in_review`."""
        for shard in range(self.facts.shards):
            yield [job for job in await self.store(shard).jobs() if job.state == "review"]

    async def damages(self) -> list[str]:
        """See `RemoteCrawl.damages`."""
        return [text for file in self._files for text in file.read(reading.damages)]

    async def rules_of(self, host: str, url: str) -> list[str]:
        """See `RemoteCrawl.rules_of`."""
        rejects = await self.store(shard_of_host(host, self.facts)).rejects()
        return [reject.rule for reject in rejects if (reject.host, reject.sample) == (host, url)]

    async def close(self) -> None:
        """Let go of the files."""
        for file in self._files:
            await file.close()

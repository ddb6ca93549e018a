"""A cluster's crawl whose stores are the files of a folder: what `ClusterView` asks, without servers."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection

from limpet.assembly.places import shard_of_host
from limpet.clock import SystemClock
from limpet.cluster.remote import Queue
from limpet.config import Facts
from limpet.embedded.folder import Folder
from limpet.embedded.orderbook import OrderBook
from limpet.model.lifecycle import State
from limpet.politeness.orders import HostOrder, Orders
from limpet.runtime import InlineRunner
from limpet.runtime.sqlitefile import SqliteFile
from limpet.schemas.sqlite import shard_schema
from limpet.testing.chance import SeededRandom
from limpet.urlstore import AuthorityRow, HostRow, Job, ParseOutput, RobotsFetch, UrlRow
from limpet.urlstore.cassandra.walk import Fetched
from limpet.urlstore.sqlite import SqliteUrlStore, reading


class BookOrders:
    """See `CassandraOrders`: those of the folder."""

    def __init__(self, folder: Folder) -> None:
        self._book = OrderBook(folder)

    async def look(self) -> Orders:
        """See `CassandraOrders.look`."""
        return self._book.look()

    async def change(self, host: str, edit: Callable[[HostOrder], HostOrder]) -> tuple[HostOrder, HostOrder]:
        """See `CassandraOrders.change`."""
        return self._book.change(host, edit)


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
        self.orders = BookOrders(folder)

    def store(self, shard: int) -> SqliteUrlStore:
        """See `RemoteCrawl.store`."""
        return SqliteUrlStore(self._files[shard], shard, SeededRandom(shard))

    async def rows(self, states: Collection[State] | None = None) -> AsyncIterator[list[UrlRow]]:
        """See `RemoteCrawl.rows`."""
        for shard in range(self.facts.shards):
            yield [row for row in await self.store(shard).rows() if states is None or row.state in states]

    async def fetched(self) -> AsyncIterator[list[Fetched]]:
        """See `RemoteCrawl.fetched`: every outcome but the latest left its URL due."""
        async for page in self.rows():
            found = [(row, await self.store(shard_of_host(row.host, self.facts)).outcomes(row.fp)) for row in page]
            yield [
                Fetched(row, tuple((one, State.DUE if one is not outcomes[-1] else row.state) for one in outcomes))
                for row, outcomes in found
            ]

    async def row(self, fp: bytes) -> UrlRow | None:
        """See `RemoteCrawl.row`."""
        found = [await self.store(shard).row(fp) for shard in range(self.facts.shards)]
        return next((row for row in found if row is not None), None)

    async def outputs(self, row: UrlRow) -> list[ParseOutput]:
        """See `RemoteCrawl.outputs`."""
        return await self.store(shard_of_host(row.host, self.facts)).outputs(row.fp)

    async def robots_fetches(self) -> AsyncIterator[list[RobotsFetch]]:
        """See `RemoteCrawl.robots_fetches`."""
        for shard in range(self.facts.shards):
            yield await self.store(shard).robots_fetches()

    async def requests(self, day: int) -> int:
        """See `RemoteCrawl.requests`."""
        return sum([await self.store(shard).requests(day) for shard in range(self.facts.shards)])

    async def rejected(self) -> Counter[str]:
        """See `RemoteCrawl.rejected`."""
        counts: Counter[str] = Counter()
        for shard in range(self.facts.shards):
            for reject in await self.store(shard).rejects():
                counts[reject.rule] += reject.count
        return counts

    async def robots(self) -> AsyncIterator[list[AuthorityRow]]:
        """See `RemoteCrawl.robots`."""
        async for page in self.hosts():
            yield [row for _, rows in page for row in rows]

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

    async def hosts(self) -> AsyncIterator[list[tuple[HostRow, list[AuthorityRow]]]]:
        """See `RemoteCrawl.hosts`."""
        for shard in range(self.facts.shards):
            rows = [await self.host(row.host) for row in await self.store(shard).hosts()]
            yield [(row, authorities) for row, authorities in rows if row is not None]

    async def host(self, host: str) -> tuple[HostRow | None, list[AuthorityRow]]:
        """See `RemoteCrawl.host`: one that has a server on port 80 alone."""
        store = self.store(shard_of_host(host, self.facts))
        authority = await store.authority(f"http://{host}")
        return await store.host(host), [authority] if authority is not None else []

    async def queue(self, authority: AuthorityRow) -> Queue:
        """See `RemoteCrawl.queue`."""
        rows = await self.store(shard_of_host(authority.host, self.facts)).rows()
        due = [row.due_us for row in rows if row.authority == authority.authority and row.due_us]
        return Queue(len(due), 0, min(due, default=0))

    async def close(self) -> None:
        """Let go of the files."""
        for file in self._files:
            await file.close()

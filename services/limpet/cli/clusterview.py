"""`CrawlView` of a cluster's crawl. Verbs ask one thing after the other; the loop turns while they wait for it."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from limpet.assembly.hostjudge import HostJudge, HostNow, Served, Waiting
from limpet.assembly.places import shard_of_url
from limpet.cli.clusterlog import entries
from limpet.cli.clustersums import odd_robots_of, sums_of
from limpet.cli.crawlview import Known, Unparsed
from limpet.cli.pulling import copy_rows, facts_of_copy, keep_settings
from limpet.clock import DurableClock, SystemClock
from limpet.cluster.archivedisk import ArchiveDisk
from limpet.cluster.remote import Queue, RemoteCrawl, open_remote
from limpet.cluster.settings import load_cluster_settings, process_settings
from limpet.config import Facts, Settings
from limpet.embedded.capturelog import Entry
from limpet.embedded.folder import Folder
from limpet.embedded.sums import Sum
from limpet.model.events import decode_fetched
from limpet.model.identity import Fingerprinter, identity_key
from limpet.model.lifecycle import State
from limpet.model.urls import split
from limpet.politeness.orders import NO_ORDER, HostOrder, Orders
from limpet.robots import Oddity
from limpet.runtime import SystemRandom, ThreadRunner
from limpet.urlstore import AuthorityRow, UrlRow

T = TypeVar("T")


class ClusterView:
    """See `CrawlView`. Listings walk the whole keyspace."""

    def __init__(self, crawl: RemoteCrawl, loop: asyncio.Runner, config: Path, settings: Settings) -> None:
        self._crawl = crawl
        self._settings = settings
        self._loop = loop
        self._config = config

    @property
    def name(self) -> str:
        """See `CrawlView.name`."""
        return f"--config {self._config}"

    @property
    def facts(self) -> Facts:
        """See `CrawlView.facts`."""
        return self._crawl.facts

    def rows(self, states: Collection[State] | None = None) -> Iterator[UrlRow]:
        """See `CrawlView.rows`. One walk, whichever states are wanted."""
        return self._each(self._crawl.rows(states))

    def unparsed(self) -> Iterator[Unparsed]:
        """See `CrawlView.unparsed`."""
        jobs = self._each(self._crawl.jobs_in_review())
        return (Unparsed(decode_fetched(job.event).url, job.reason) for job in jobs)

    def damages(self) -> list[str]:
        """See `CrawlView.damages`."""
        return self._ask(self._crawl.damages())

    def captures(self) -> Iterator[Entry]:
        """See `CrawlView.captures`. One walk, in its order; what was never asked for is not among them."""
        return self._each(entries(self._crawl))

    def sums(self, by: str) -> dict[str, Sum]:
        """See `CrawlView.sums`. One walk."""
        return sums_of(by, self._pages(self._crawl.fetched()))

    def rejected(self) -> Counter[str]:
        """See `CrawlView.rejected`."""
        return self._ask(self._crawl.rejected())

    def odd_robots(self) -> dict[Oddity, int]:
        """See `CrawlView.odd_robots`."""
        return odd_robots_of(self._pages(self._crawl.robots()))

    def known(self, url: str) -> Known | None:
        """See `CrawlView.known`. A few reads of single partitions, one after the other."""
        return self._ask(self._known(url))

    async def _known(self, url: str) -> Known | None:
        store = self._crawl.store(shard_of_url(url, self.facts))
        fingerprint = Fingerprinter(self.facts.hash_seed).fingerprint
        row = await store.row(fingerprint(identity_key(url, self.facts.identity)))
        if row is None:
            return None
        via = await self._crawl.row(row.via) if row.via else None
        return Known(
            row=row,
            via=via.url if via is not None else "",
            outcomes=await store.outcomes(row.fp),
            outputs=await store.outputs(row.fp),
            authority=await store.authority(row.authority),
            host=await store.host(row.host),
        )

    def rejected_by(self, url: str) -> list[str]:
        """See `CrawlView.rejected_by`."""
        return self._ask(self._crawl.rules_of(split(url).host, url))

    def order(self, host: str) -> HostOrder:
        """See `CrawlView.order`."""
        return self._ask(self._crawl.orders.look()).get(host, NO_ORDER)

    def hosts(self) -> Iterator[HostNow]:
        """See `CrawlView.hosts`. Shard by shard; nobody counts what is queued."""
        orders = dict(self._ask(self._crawl.orders.look()))
        for page in self._pages(self._crawl.hosts()):
            judge = self._judge({row.host: orders.pop(row.host, NO_ORDER) for row, _ in page})
            for row, authorities in page:
                yield judge.host(row, [_served(one, Queue(None, None, 0)) for one in authorities], None)
        yield from (self._judge(orders).stranger(host) for host in orders)

    def host(self, host: str) -> HostNow | None:
        """See `CrawlView.host`. Its queues are counted, up to a bound."""
        order = self.order(host)
        row, authorities = self._ask(self._crawl.host(host))
        judge = self._judge({host: order})
        if row is None:
            return judge.stranger(host) if order != NO_ORDER else None
        served = [_served(one, self._ask(self._crawl.queue(one))) for one in authorities]
        return judge.host(row, served, None)

    def met(self, host: str) -> bool:
        """See `CrawlView.met`."""
        return self._ask(self._crawl.host(host))[0] is not None

    @property
    def running(self) -> bool:
        """See `CrawlView.running`. A crawl node that died lately counts."""
        return any(beat.role == "crawlnode" for beat in self._ask(self._crawl.beats()))

    def _judge(self, orders: Orders) -> HostJudge:
        return HostJudge(self.facts, orders, self._settings, SystemClock())

    def change_order(self, host: str, edit: Callable[[HostOrder], HostOrder]) -> tuple[HostOrder, HostOrder]:
        """See `CrawlView.change_order`."""
        return self._ask(self._crawl.orders.change(host, edit))

    def retry(self, states: Collection[State]) -> int:
        """See `CrawlView.retry`. While the crawl goes on."""
        with contextlib.closing(ThreadRunner("receipts")) as runner:
            return self._ask(self._crawl.retry(states, runner))

    @contextlib.contextmanager
    def copied(self, into: Path) -> Iterator[tuple[Folder, ArchiveDisk, int]]:
        """Rows, copied into a folder that holds nothing yet; the archive where it is; how many URLs there are."""
        folder = Folder.create(into, facts_of_copy(self.facts))
        with contextlib.closing(ThreadRunner("pull")) as runner:
            urls = self._ask(copy_rows(self._crawl, folder, SystemClock(), runner))
        keep_settings(folder, self._settings, self._config)
        with contextlib.closing(self._crawl.archive(self._loop)) as disk:
            yield folder, disk, urls

    @property
    def resumed_by(self) -> str:
        """See `CrawlView.resumed_by`."""
        return ""

    def _ask(self, answer: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(answer)

    def _each(self, pages: AsyncIterator[Iterable[T]]) -> Iterator[T]:
        return (one for page in self._pages(pages) for one in page)

    def _pages(self, pages: AsyncIterator[T]) -> Iterator[T]:
        async def following() -> T | None:
            return await anext(pages, None)

        while (page := self._ask(following())) is not None:
            yield page


def _served(row: AuthorityRow, queue: Queue) -> Served:
    waiting = Waiting(
        authority=row.authority,
        queued=queue.queued,
        leased=queue.leased,
        due_us=queue.due_us,
        wait_us=row.wait_us,
        wait_reason=row.wait_reason,
    )
    return waiting, row.robots


@contextlib.contextmanager
def open_cluster(config: Path) -> Iterator[ClusterView]:
    """The crawl that a configuration names. Raises `UsageError` for other facts, `LimpetError` for servers away."""
    settings = load_cluster_settings(config)
    with asyncio.Runner() as loop:
        opened = open_remote(settings, DurableClock(SystemClock()), SystemRandom())
        crawl = loop.run(opened.__aenter__())
        try:
            yield ClusterView(crawl, loop, config, process_settings(settings))
        finally:
            loop.run(opened.__aexit__(None, None, None))

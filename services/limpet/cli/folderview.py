"""`CrawlView` of a crawl folder, over read-only views of its shards."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Final

from limpet.assembly.hostjudge import HostNow
from limpet.assembly.places import shard_of_host
from limpet.cli import reading as questions
from limpet.cli.crawlview import Known, Unparsed
from limpet.cli.owning import retry
from limpet.cli.plan import check_identity
from limpet.clock import SystemClock
from limpet.config import Facts, Settings
from limpet.embedded.capturelog import CaptureLog, Entry
from limpet.embedded.finder import Finder
from limpet.embedded.folder import Folder
from limpet.embedded.hostsview import HostsView
from limpet.embedded.lock import lock_holder
from limpet.embedded.orderbook import OrderBook
from limpet.embedded.sums import Sum, by_host, by_mime, by_reason, by_status, odd_robots
from limpet.embedded.views import ShardViews
from limpet.model.lifecycle import State
from limpet.model.urls import split
from limpet.politeness.orders import NO_ORDER, HostOrder
from limpet.robots import Oddity
from limpet.urlstore import UrlRow
from limpet.urlstore.sqlite import reading

_SUMS: Final = {"host": by_host, "status": by_status, "mime": by_mime, "reason": by_reason}


class FolderView:
    """See `CrawlView`."""

    def __init__(self, folder: Folder, views: ShardViews) -> None:
        self.folder = folder
        self._views = views

    @property
    def name(self) -> str:
        """See `CrawlView.name`."""
        return str(self.folder.path)

    @property
    def facts(self) -> Facts:
        """See `CrawlView.facts`."""
        return self.folder.facts

    def rows(self, states: Collection[State] | None = None) -> Iterator[UrlRow]:
        """See `CrawlView.rows`. All rows are read in batches; those of one state come as a whole shard's list."""
        return questions.rows(self._views, states)

    def unparsed(self) -> Iterator[Unparsed]:
        """See `CrawlView.unparsed`."""
        return iter(questions.unparsed(self._views))

    def damages(self) -> list[str]:
        """See `CrawlView.damages`."""
        return questions.damages(self._views)

    def captures(self) -> Iterator[Entry]:
        """See `CrawlView.captures`. By time."""
        log = self.log()
        return log.between({}, log.now())

    def log(self) -> CaptureLog:
        """The log, to be followed."""
        return CaptureLog(self._views, self.folder.facts.shards)

    def sums(self, by: str) -> dict[str, Sum]:
        """See `CrawlView.sums`."""
        return _SUMS[by](self.folder)

    def rejected(self) -> Counter[str]:
        """See `CrawlView.rejected`."""
        return questions.rejects_by_rule(self._views)

    def odd_robots(self) -> dict[Oddity, int]:
        """See `CrawlView.odd_robots`."""
        return odd_robots(self.folder)

    def known(self, url: str) -> Known | None:
        """See `CrawlView.known`. Row, politeness and robots are of one moment."""
        finder = self._finder()
        shard, view = finder.shard(url), self._views.view(finder.shard(url))
        row = finder.row(url)
        if row is None:
            return None
        authority, host, outputs = self._views.read_one(
            shard,
            lambda reader: (
                reading.authority(reader, row.authority),
                reading.host(reader, row.host),
                reading.outputs(reader, row.fp),
            ),
        )
        return Known(
            row=row,
            via=self._url_of(row.via),
            outcomes=view.outcomes(row.fp),
            outputs=outputs,
            authority=authority,
            host=host,
        )

    def rejected_by(self, url: str) -> list[str]:
        """See `CrawlView.rejected_by`."""
        host = split(url).host
        rejects = self._views.read_one(self._finder().shard(url), reading.rejects)
        return sorted({reject.rule for reject in rejects if reject.host == host and reject.sample == url})

    def order(self, host: str) -> HostOrder:
        """See `CrawlView.order`."""
        return OrderBook(self.folder).look().get(host, NO_ORDER)

    def hosts(self) -> Iterator[HostNow]:
        """See `CrawlView.hosts`. Memory: one record a host."""
        return iter(self._hosts(None))

    def host(self, host: str) -> HostNow | None:
        """See `CrawlView.host`."""
        return next(iter(self._hosts(host)), None)

    def _hosts(self, only: str | None) -> list[HostNow]:
        orders, settings = OrderBook(self.folder).look(), self.folder.load_settings() or Settings()
        return HostsView(self.folder, self._views, orders, settings, SystemClock()).hosts(only)

    def met(self, host: str) -> bool:
        """See `CrawlView.met`."""
        shard = shard_of_host(host, self.folder.facts)
        return self._views.read_one(shard, lambda reader: reading.host(reader, host)) is not None

    @property
    def running(self) -> bool:
        """See `CrawlView.running`."""
        return lock_holder(self.folder.path) is not None

    def change_order(self, host: str, edit: Callable[[HostOrder], HostOrder]) -> tuple[HostOrder, HostOrder]:
        """See `CrawlView.change_order`."""
        return OrderBook(self.folder).change(host, edit)

    def retry(self, states: Collection[State]) -> int:
        """See `CrawlView.retry`. The crawl must not run."""
        return asyncio.run(retry(self.folder, states))

    @property
    def resumed_by(self) -> str:
        """See `CrawlView.resumed_by`."""
        return f"limpet crawl --into {self.folder.path}"

    def _finder(self) -> Finder:
        check_identity(self.folder)  # a URL is looked up where this Limpet would put it
        return Finder(self.folder, self._views)

    def _url_of(self, fp: bytes) -> str:
        """URL of a fingerprint, "" when there is none: the shard is not known, so all are asked."""
        if not fp:
            return ""
        return next((row.url for _, view in self._views if (row := view.row(fp)) is not None), "")

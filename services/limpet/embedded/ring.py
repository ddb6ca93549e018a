"""The whole ring in one process: crawl node, parser, admission and reconciler over the shards it owns.

This is the only place where the roles meet. `Ring` is a worker's life; `recover` and `admit_seeds` are what a
supervisor does while no worker runs.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator

from limpet.admission.candidates import Desk
from limpet.admission.nearest import Nearest
from limpet.admission.service import Admission
from limpet.assembly.desks import desk_of, wants_of
from limpet.assembly.node import make_node
from limpet.assembly.notifier import Notifier, post_json
from limpet.assembly.places import shard_of_host
from limpet.assembly.politeness import governor_of
from limpet.assembly.tasks import hand_on, together
from limpet.bus import Producer
from limpet.clock import DurableClock
from limpet.config import Settings
from limpet.crawlnode.archive import Archivist
from limpet.crawlnode.health import Health
from limpet.crawlnode.holdings import Holdings
from limpet.crawlnode.service import CrawlNode
from limpet.embedded.errands import errands_of
from limpet.embedded.folder import Folder
from limpet.embedded.orderbook import OrderBook
from limpet.embedded.ports import Ports
from limpet.embedded.quota import Quota
from limpet.embedded.shards import Marks, Shard, Shards
from limpet.embedded.spooling import open_spool
from limpet.fetch import Fetcher, Spooling
from limpet.model.errors import CannotGoOn
from limpet.model.urls import split
from limpet.obs import log_event
from limpet.parser.decode import coding_is_cut
from limpet.parser.kept import KeptBodies
from limpet.parser.page import PARSER_VERSION
from limpet.parser.service import Parser
from limpet.politeness import LocalShares, Shares
from limpet.politeness.daybudget import budget_days, take_up
from limpet.reconciler.passes import Reconciler
from limpet.reconciler.recovery import RecoveryReport
from limpet.runtime import InlineRunner, Runner, new_incarnation
from limpet.seen.sqlite import SqliteSeen
from limpet.segments import SegmentWriter, Settling
from limpet.segments.full import WriterLimits
from limpet.segments.local import LocalSegments
from limpet.urlstore import UrlStore

__all__ = ["ClockMoved", "Ports", "Quota", "Ring", "recover"]

UPKEEP_SECONDS = 5.0
CLOCK_SETTLE_SECONDS = 10.0
_LOG = logging.getLogger("limpet.ring")


class ClockMoved(CannotGoOn):
    """The wall clock was set under a running crawl, which has ended in order and is to be started again."""


class Ring:
    """One owner of some shards, from `open` to `close`."""

    def __init__(
        self,
        *,
        folder: Folder,
        settings: Settings,
        share: frozenset[int],
        quota: Quota,
        ports: Ports,
        shares: Shares | None = None,
        talks: bool = False,
    ) -> None:
        self.incarnation = new_incarnation(ports.random)
        self._folder = folder
        self._settings = settings
        self._share = share
        self._talks = talks  # there are other workers, who run errands and send on some
        self._quota = quota
        self._shares = shares  # the ceilings that span workers; None = there is no other worker
        self._ports = ports
        self._clock = DurableClock(ports.clock)
        self._commits = ports.make_runner("commits")
        self._appends = ports.make_runner("appends")
        self._parses = ports.make_runner("parses")
        self._long_appends = ports.make_runner("long-appends")
        self._spooling = ports.make_runner("spool")
        self._shards = Shards(folder, settings, ports, self._clock, self._commits)
        self._segments = segments_of_folder(folder, settings, ports, self._clock, self._appends, self._long_appends)
        self._seen: dict[int, SqliteSeen] = {}
        self._kept = KeptBodies()
        self._desks: dict[int, Desk] = {}  # one judge a shard for all who ask: its scope grows
        self._alone = asyncio.Lock()
        self._orders = OrderBook(folder)
        self._node_at_work: CrawlNode | None = None
        self._settling = Settling()

    async def open(self) -> None:
        """Lock and open the shard files. Raises `LimpetError` for what cannot be locked or read."""
        await self._shards.open(self._share)
        await self._shards.attach()
        for number in self._share:
            self._seen[number] = self._ports.parts.seen(self._folder.seen_file(number), self._commits)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`, then drain. Raises `LimpetError` when it cannot go on, `ClockMoved` to start again."""
        facts, clock = self._folder.facts, self._clock
        archivist = Archivist(facts, self._ports.random, clock)
        writer = await self._segments.open_writer(self.incarnation, archivist.warcinfo, self._settling)
        fetcher = self._ports.make_fetcher(self._settings, clock)
        if isinstance(fetcher, Spooling):
            fetcher.spool_into(
                await open_spool(self._folder, self._settings, self._ports.disk, self._spooling, self.incarnation)
            )
        health = self._ports.parts.health(
            clock, self._parts(writer), age_seconds_max=self._settings.work.health_seconds_max
        )
        for shard in self._shards.owned.values():
            self._desks[shard.number] = await desk_of(facts, self._settings, shard.store)
        node = self._node(archivist, writer, fetcher, health, await self._shares_of_run())
        reconciler = self._reconciler(node)
        notifier = Notifier(list(self._stores().values()), self._settings.notify.webhook, clock, post_json)
        await health.confirm()
        await node.obey(self._orders.look())
        self._node_at_work = node
        leave = asyncio.Event()
        services = [node.run(leave), reconciler.run(leave), notifier.run(leave)]
        services += [self._parser(shard).run(leave) for shard in self._in_any_order()]
        services += [self._admission(shard, node).run(leave) for shard in self._shards.owned.values()]
        watchers = [health.run(), self._upkeep(), self._settle(writer), self._watch(health)]
        watchers += [hand_on(stop, leave), self._watch_clock(leave), self._orders.watch(node.obey, clock)]
        try:
            await together(services, watchers)
        finally:
            await fetcher.close()
        await writer.close()
        if not stop.is_set():
            raise ClockMoved("the wall clock was set: starting again, so that every wait keeps its length")

    async def close(self) -> None:
        """Release everything; what is whole is marked clean."""
        for seen in self._seen.values():
            await seen.close()
        await self._shards.close()
        self._parses.close()
        self._commits.close()
        self._appends.close()
        self._long_appends.close()
        self._spooling.close()

    def abandon(self) -> None:
        """Die, in a rehearsal: nothing is flushed, nothing is said."""
        self._shards.abandon()
        for seen in self._seen.values():
            seen.abandon()

    def hosts_now(self) -> Iterator[tuple[str, list[tuple[str, float]]]]:
        """Hosts with work, and why each is asked as seldom as it is; see `Governor.explain`."""
        if self._node_at_work is not None:
            yield from self._node_at_work.explained()

    def _in_any_order(self) -> list[Shard]:
        """So that kills from outside do not hit the same shard's suspect at every start (see `limpet.parser`)."""
        return sorted(self._shards.owned.values(), key=lambda _: self._ports.random.fraction())

    # -- parts -------------------------------------------------------------------------------------------------------
    def _parts(self, writer: SegmentWriter) -> dict[str, Callable[[], Awaitable[None]]]:
        parts = {f"shard {number}": shard.producer.healthy for number, shard in self._shards.owned.items()}
        return {"segments": writer.healthy, **parts}

    def _node(
        self, archivist: Archivist, writer: SegmentWriter, fetcher: Fetcher, health: Health, shares: Shares
    ) -> CrawlNode:
        facts, clock, settings, ports = self._folder.facts, self._clock, self._settings, self._ports
        parts, random = ports.parts, ports.random
        governor = governor_of(settings, clock, random.fraction, shares=shares, make=parts.governor)
        holdings = Holdings(governor=governor, clock=clock, shard_of=self._shard_of_host)
        for number, shard in self._shards.owned.items():
            holdings.add(number, shard.store, shard.producer)
        return make_node(
            classes=parts,
            archivist=archivist,
            steps=parts.steps(writer, ports.mortality, self.incarnation, self._settling),
            fetcher=fetcher,
            governor=governor,
            holdings=holdings,
            health=health,
            quota=self._quota,
            coding_is_cut=self._kept.coding_is_cut,
            errands=errands_of(self._folder, self._share, clock, self.incarnation) if self._talks else None,
            clock=clock,
            random=random,
            facts=facts,
            settings=settings,
        )

    async def _shares_of_run(self) -> Shares:
        """The ledger that the workers of this run share, or one of our own, which knows what was sent lately."""
        if self._shares is not None:
            return self._shares
        shares, stores = LocalShares(self._clock.boot_us()), self._stores().values()
        days = budget_days(self._clock)
        sent_on = {day: sum([await store.requests(day) for store in stores]) for day in days}
        take_up(shares, self._settings.politeness, self._clock, sent_on)
        return shares

    def _parser(self, shard: Shard) -> Parser:
        consumer = self._shards.fetched_consumer(shard.number)
        interval_seconds = self._settings.work.commit_interval_seconds
        suspect = shard.suspect()
        if suspect:
            shard.file.pace(0.0)  # suspects go one by one: each waits for its commits, and nothing shares them
        return self._ports.parts.parser(
            store=shard.store,
            consumer=consumer,
            producer=shard.producer,
            segments=self._segments,
            partition_of=lambda url: self._shard_of_host(split(url).host),
            marks=Marks(consumer),
            suspect=suspect,
            alone=self._alone,
            cleared=lambda: shard.file.pace(interval_seconds),
            clock=self._clock,
            mortality=self._ports.mortality,
            settings=self._settings,
            crawl=self._folder.facts.crawl,
            wants=wants_of(self._folder.facts),
            depth_counts=self._folder.facts.scope.depth_max is not None,
            in_scope=self._desks[shard.number].in_scope,
            kept=self._kept,
            runner=self._parses,
        )

    def _admission(self, shard: Shard, node: CrawlNode) -> Admission:
        return self._ports.parts.admission(
            store=shard.store,
            seen=self._seen[shard.number],
            consumer=self._shards.links_consumer(shard.number),
            desk=self._desks[shard.number],
            offer=node.offer,
            clock=self._clock,
            mortality=self._ports.mortality,
            settings=self._settings,
            crawl=self._folder.facts.crawl,
            nearest=Nearest() if self._folder.facts.scope.depth_max is not None else None,
            blocked=self._blocked,
        )

    def _blocked(self, host: str, url: str) -> bool:
        order = self._orders.latest.get(host)
        return order is not None and order.blocks(url)

    def _reconciler(self, node: CrawlNode) -> Reconciler:
        return self._ports.parts.reconciler(
            stores=self._stores(),
            producers=self._producers(),
            caught_up=self._shards.parsed_up,
            parser_version=PARSER_VERSION,
            offer=node.offer,
            clock=self._clock,
            mortality=self._ports.mortality,
            settings=self._settings,
            facts=self._folder.facts,
        )

    def _producers(self) -> dict[int, Producer]:
        return {number: shard.producer for number, shard in self._shards.owned.items()}

    def _stores(self) -> dict[int, UrlStore]:
        return {number: shard.store for number, shard in self._shards.owned.items()}

    def _shard_of_host(self, host: str) -> int:
        return shard_of_host(host, self._folder.facts)

    # -- watchers ----------------------------------------------------------------------------------------------------
    async def _upkeep(self) -> None:
        """Logs are trimmed."""
        while True:
            await self._clock.sleep(UPKEEP_SECONDS)
            await self._shards.trim()

    async def _watch_clock(self, leave: asyncio.Event) -> None:
        """A wall clock that was moved for good ends the ring, in order. Until then nothing is claimed or sent.

        The next start moves every stored time with the clock. Here too many times are under way, in memory and between
        two steps, that were taken by the old one.
        """
        while True:
            await self._clock.sleep(UPKEEP_SECONDS)
            before = self._clock.moved_us()
            if self._clock.agrees():
                continue
            await self._clock.sleep(CLOCK_SETTLE_SECONDS)
            moved_us = self._clock.moved_us()
            if not self._clock.agrees() and abs(moved_us - before) < 1_000_000 and not leave.is_set():
                log_event(_LOG, logging.WARNING, "the wall clock was moved", seconds=round(moved_us / 1e6))
                leave.set()

    async def _settle(self, writer: SegmentWriter) -> None:
        """Leave hints for recovery, so that a start after a death need not read whole segments."""
        while True:
            await self._clock.sleep(UPKEEP_SECONDS)
            for segment, offset in self._settling.marks().items():
                await writer.settle(segment, offset)

    async def _watch(self, health: Health) -> None:
        """End the ring when a part says that it will not come back."""
        while True:
            await self._clock.sleep(self._settings.work.health_seconds_max / 2)
            if isinstance(health.last_error, CannotGoOn):
                raise health.last_error


async def recover(
    folder: Folder, settings: Settings, share: frozenset[int], ports: Ports, *, segments_of: frozenset[str] | None
) -> RecoveryReport:
    """Recover `share` and the segments of the dead incarnations `segments_of` (None = of every dead one).

    Must not run while a worker owns one of the shards.
    """
    clock = DurableClock(ports.clock)
    commits, appends = ports.make_runner("commits"), ports.make_runner("appends")
    shards = Shards(folder, settings, ports, clock, commits)
    try:
        await shards.open(share)
        for shard in shards.owned.values():
            shard.file.pace(0.0)  # recovery waits for each of its writes, and nothing shares them
            if not shard.file.was_clean:
                await shard.mark_suspect(settings.work.parse_batch_max)
        recovery = ports.parts.recovery(
            stores={number: shard.store for number, shard in shards.owned.items()},
            producers={number: shard.producer for number, shard in shards.owned.items()},
            segments=segments_of_folder(folder, settings, ports, clock, appends),
            governor=governor_of(settings, clock, ports.random.fraction, make=ports.parts.governor),
            shard_of=lambda url: shard_of_host(split(url).host, folder.facts),
            coding_is_cut=coding_is_cut,
            clock=clock,
            mortality=ports.mortality,
            settings=settings,
            facts=folder.facts,
        )
        return await recovery.run(segments_of)
    finally:
        await shards.close()
        commits.close()
        appends.close()


def segments_of_folder(
    folder: Folder,
    settings: Settings,
    ports: Ports,
    clock: DurableClock,
    runner: Runner,
    long_runner: Runner | None = None,
) -> LocalSegments:
    """The folder's archive. Reads run on the caller's thread: they hit the page cache, a thread would cost more."""
    return LocalSegments(
        folder.segment_directories,
        disk=ports.disk,
        runner=runner,
        clock=clock,
        min_free_bytes=settings.min_free_bytes,
        limits=WriterLimits(roll_bytes=folder.facts.segment_bytes),
        reader=InlineRunner(),
        long_runner=long_runner,
    )

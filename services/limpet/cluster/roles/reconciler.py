"""The reconciler's process: repairs of the shards that a group gives it, and segments of dead incarnations.

Each pass restarts from the authority, and two that overlap for a moment repeat each other: nothing here needs more than
a share of the work. In a pass over a shard: leases that ran out · fetched and never parsed, published again · the sweep
of its rows · notices. Then the archive: an incarnation that is proven dead leaves segments, which are cut to their last
whole capture; whole captures without an outcome are published and adopted; the segment is sealed.
"""

import asyncio
import logging
import zlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

from limpet.assembly.notifier import Notifier, post_json
from limpet.assembly.places import shard_of_url
from limpet.assembly.politeness import governor_of
from limpet.assembly.tasks import together
from limpet.bus.kafka import KafkaMember
from limpet.cluster.machine import Machine
from limpet.cluster.matrix import timing_of
from limpet.cluster.topics import MEMBERS_RECONCILE
from limpet.membership import Observer
from limpet.model.errors import CannotGoOn, LimpetError, UsageError
from limpet.model.events import DOCUMENT_FETCHED
from limpet.model.lifecycle import State
from limpet.obs import log_event
from limpet.obs.alerts import log_alert
from limpet.obs.metrics import HELD, REPAIR_AGE, REPAIRS, URLS, URLS_AGE, Sample, counted
from limpet.parser.decode import coding_is_cut
from limpet.parser.page import PARSER_VERSION
from limpet.reconciler.passes import Reconciler
from limpet.reconciler.recovery import Recovery, RecoveryReport
from limpet.segments import SegmentInfo, SegmentStore
from limpet.segments.hdfs import HdfsSegments
from limpet.urlstore import RepairItem, UrlStore, counters
from limpet.urlstore.cassandra.leases import CassandraLeaseTable
from limpet.urlstore.cassandra.snapshots import Snapshot, snapshot
from limpet.urlstore.cassandra.sweep import Policy, Sweep
from limpet.warc import parse_segment_name

_LOG = logging.getLogger("limpet.reconciler")
WATCH_SECONDS: Final = 1.0
CHUNKS_A_PASS: Final = 20
"""Of the sweep, for each shard: other repairs are not to wait for millions of rows."""


class ReconcilerRole:
    """See `RoleService`."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._table = CassandraLeaseTable(machine.session)
        self._observer = Observer(self._table, machine.clock, timing_of(machine.asked))
        self._member: KafkaMember | None = None
        self._caught_up: dict[int, bool] = {}
        self._stores = {shard: machine.store(shard) for shard in range(machine.facts.shards)}
        self._met: dict[str, float] = {}  # segment that is not sealed -> monotonic second at which it was first met
        self._passes = 0
        self._writers: frozenset[str] = frozenset()  # of segments that are not sealed
        producers = dict.fromkeys(self._stores, machine.bus.producer)
        self._reconciler = Reconciler(
            stores=self._stores,
            producers=producers,
            caught_up=lambda shard: self._caught_up.get(shard, False),
            parser_version=PARSER_VERSION,
            offer=_woken_by_the_store,
            clock=machine.clock,
            mortality=machine.mortality,
            settings=machine.settings,
            facts=machine.facts,
        )
        self._sweeps: dict[int, Sweep] = {}
        self._known: dict[int, _Known] = {}
        self._notifiers: dict[int, Notifier] = {}

    @property
    def incarnation(self) -> str:
        """See `RoleService.incarnation`."""
        return self._machine.incarnation

    async def run(self, stop: asyncio.Event) -> None:
        """See `RoleService.run`."""
        machine = self._machine
        self._member = await machine.member(MEMBERS_RECONCILE)
        segments = machine.segments(self._may_live, log_alert)
        try:
            await together([self._pass_after_pass(stop, segments)], [self._watch_beats()])
        finally:
            await segments.close()

    async def _may_live(self, incarnation: str) -> bool:
        return not self._observer.dead(incarnation)

    async def _watch_beats(self) -> None:
        """Look at beats often, so that their standing still is proven in time."""
        machine = self._machine
        while True:
            await self._try("beats", self._look)
            await machine.clock.sleep(max(WATCH_SECONDS, machine.asked.cluster.poll_seconds))

    async def _look(self) -> None:
        owners = await self._table.owners()
        await self._observer.look([*(owner.incarnation for owner in owners.values()), *self._writers])

    # -- passes ------------------------------------------------------------------------------------------------------
    async def _pass_after_pass(self, stop: asyncio.Event, segments: HdfsSegments) -> None:
        while not stop.is_set():
            for shard in sorted(self._share()):
                if stop.is_set():
                    return
                await self._try(f"shard {shard}", partial(self._shard, shard))
            await self._try("segments", lambda: self._archive(segments, stop))
            self._passes += 1
            await self._nap(stop)

    def _share(self) -> frozenset[int]:
        return frozenset() if self._member is None else self._member.share()

    async def _shard(self, shard: int) -> None:
        store = self._stores[shard]
        await self._reconciler.end_stale_leases(store)
        await self._sweep(shard)
        self._caught_up[shard] = await self._is_caught_up(shard)
        await self._reconciler.republish(store)
        await self._notifier(shard, store).deliver()
        self._known[shard] = _Known(await store.repairs(), await snapshot(self._machine.session, shard))

    async def _sweep(self, shard: int) -> None:
        """Some of the piece of all rows that has the shard's number."""
        machine = self._machine
        if shard not in self._sweeps:
            policy = Policy(
                pieces=machine.facts.shards,
                parser_version=PARSER_VERSION,
                period_seconds=machine.asked.cluster.sweep_seconds,
                grace_us=int(machine.settings.work.republish_grace_seconds * 1e6),
            )
            self._sweeps[shard] = machine.store(shard).sweep(shard, policy)
        for _ in range(CHUNKS_A_PASS):
            step = await self._sweeps[shard].step()
            if step is None or step.ended:
                return

    def _notifier(self, shard: int, store: UrlStore) -> Notifier:
        if shard not in self._notifiers:
            machine = self._machine
            self._notifiers[shard] = Notifier([store], machine.settings.notify.webhook, machine.clock, post_json)
        return self._notifiers[shard]

    async def _is_caught_up(self, shard: int) -> bool:
        """Whether the parsers have committed everything that was published to the shard's partition."""
        cluster = self._machine.bus.cluster
        place = (self._machine.asked.kafka.topic(DOCUMENT_FETCHED), shard)
        committed = (await cluster.committed(DOCUMENT_FETCHED, [place])).get(place, 0)
        start, end = (await cluster.spans([place]))[place]
        return max(committed, start) >= end

    # -- the archive -------------------------------------------------------------------------------------------------
    async def _archive(self, segments: HdfsSegments, stop: asyncio.Event) -> None:
        """Recover what the dead left, as far as it falls to this process."""
        infos = [info for info in await segments.infos() if not info.sealed]
        self._writers = frozenset(name for info in infos if (name := _writer(info)))
        now = self._machine.clock.monotonic()
        self._met = {info.name: self._met.get(info.name, now) for info in infos}
        for info in infos:
            if stop.is_set():
                return
            if self._is_ours(info) and self._is_given_up(info, now):
                await self._recover(segments, info)
        await self._forget_the_dead()

    def _is_given_up(self, info: SegmentInfo, now: float) -> bool:
        """Whether nobody works on it any more: its writer is dead, or closed it so long ago that it is done with it.

        A living writer closes a segment that failed, and may still be completing what it had appended before.
        """
        if info.live:
            return False
        lease_seconds = self._machine.settings.work.lease_seconds
        return self._observer.dead(_writer(info)) or now - self._met[info.name] > lease_seconds

    async def _forget_the_dead(self) -> None:
        """Beats of incarnations that are over for good, and that no shard and no segment names."""
        if 0 not in self._share():
            return
        named = {owner.incarnation for owner in (await self._table.owners()).values()} | self._writers
        for beat in await self._table.incarnations():
            if beat.incarnation not in named and self._observer.fetched_out(beat.incarnation):
                await self._table.forget(beat.incarnation)

    def _is_ours(self, info: SegmentInfo) -> bool:
        return zlib.crc32(_writer(info).encode()) % self._machine.facts.shards in self._share()

    async def _recover(self, segments: SegmentStore, info: SegmentInfo) -> None:
        machine, facts = self._machine, self._machine.facts
        recovery = Recovery(
            stores=self._stores,
            producers=dict.fromkeys(self._stores, machine.bus.producer),
            segments=segments,
            governor=governor_of(machine.settings, machine.clock, machine.random.fraction),
            shard_of=lambda url: shard_of_url(url, facts),
            coding_is_cut=coding_is_cut,
            clock=machine.clock,
            mortality=machine.mortality,
            settings=machine.settings,
            facts=facts,
        )
        report = RecoveryReport()
        try:
            await recovery.segment(info, report)
        except KeyError:
            return  # it went meanwhile: its writer sealed it, or never had anything in it acknowledged
        log_event(
            _LOG, logging.INFO, "segment recovered", name=info.name, cut_bytes=report.cut_bytes, adopted=report.adopted
        )

    # -- waiting -----------------------------------------------------------------------------------------------------
    async def _try(self, name: str, step: Callable[[], Awaitable[None]]) -> None:
        """One step of a pass; what fails for a server's sake is met again by the next one."""
        waits = self._machine.waits
        try:
            await step()
        except (CannotGoOn, UsageError):
            raise
        except LimpetError as error:
            waits.begin(f"reconcile {name}", error)
        else:
            waits.end(f"reconcile {name}")

    async def _nap(self, stop: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(self._machine.settings.work.reconcile_seconds):
                await stop.wait()
        except TimeoutError:
            pass

    def troubles(self) -> dict[str, str]:
        """See `RoleService.troubles`."""
        return {} if self._member is not None else {"group": "not joined yet"}

    def samples(self) -> list[Sample]:
        """See `RoleService.samples`: of the shards of this process, as of the last pass over each."""
        now_us = self._machine.clock.wall_us()
        known = [self._known[shard] for shard in sorted(self._share()) if shard in self._known]
        items = [item.created_us for one in known for item in one.repairs]
        counted_us = [one.counted.at_us for one in known if one.counted.at_us]
        urls = [
            ((state.value,), sum(one.counted.counts.get(counters.of_state(state), 0) for one in known))
            for state in State
        ]
        found = [Sample(HELD, len(self._share())), Sample(REPAIRS, len(items)), *counted(URLS, urls)]
        found += [Sample(REPAIR_AGE, (now_us - min(items)) / 1e6 if items else 0.0)]
        return found + ([Sample(URLS_AGE, (now_us - min(counted_us)) / 1e6)] if counted_us else [])

    def holdings(self) -> dict[str, object]:
        """See `RoleService.holdings`."""
        return {"shards": sorted(self._share()), "passes": self._passes}


class _Known(NamedTuple):
    """What the last pass over a shard met."""

    repairs: list[RepairItem]
    counted: Snapshot


def _writer(info: SegmentInfo) -> str:
    parsed = parse_segment_name(info.name)
    return parsed.incarnation if parsed is not None else ""


def _woken_by_the_store(_host: str, _authority: str, _due_us: int) -> None:
    """The crawl node asks the store what has become due (`UrlStore.woken`)."""

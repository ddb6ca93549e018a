"""The crawl node's process: shards by lease, one archive writer for each incarnation.

A process may live several lives. A life ends when its lease is lost, as in an outage of the URL store that outlasts it:
others may by then hold its incarnation for dead and take its segment. The next life has a fresh incarnation and a
writer of its own; the process goes on.
"""

import asyncio
import logging
from typing import Final

from limpet.assembly.node import RealNode, make_node
from limpet.assembly.places import shard_of_host
from limpet.assembly.politeness import governor_of, wire_fetcher
from limpet.assembly.quota import Unlimited
from limpet.assembly.tasks import hand_on, together, unless
from limpet.bus.kafka import KafkaMember
from limpet.cluster.errands import CassandraErrands
from limpet.cluster.machine import Machine
from limpet.cluster.matrix import timing_of
from limpet.cluster.orders import CassandraOrders
from limpet.cluster.topics import MEMBERS
from limpet.crawlnode.archive import Archivist
from limpet.crawlnode.health import Health
from limpet.crawlnode.holdings import Holdings
from limpet.crawlnode.service import CrawlNode
from limpet.crawlnode.steps import FetchSteps
from limpet.fetch import Fetcher, Spool, Spooling, SpoolLimits
from limpet.membership import Loss, Ownership, Presence, Previous
from limpet.model.errors import CannotGoOn
from limpet.obs import log_event
from limpet.obs.alerts import log_alert
from limpet.obs.metrics import HELD, LEASE_AGE, LIVES, Sample
from limpet.parser.decode import coding_is_cut
from limpet.politeness.daybudget import budget_days, take_up
from limpet.politeness.leasedshares import LeasedShares
from limpet.runtime import SystemDisk, new_incarnation
from limpet.segments import SegmentWriter, Settling
from limpet.urlstore.cassandra.leases import CassandraLeaseTable
from limpet.urlstore.cassandra.shares import CassandraShareTable

UPKEEP_SECONDS: Final = 5.0
LAPSE_LOOK_SECONDS: Final = 0.5
_LOG = logging.getLogger("limpet.crawlnode")


class CrawlNodeRole:
    """See `RoleService`."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._life: _Life | None = None
        self._lives = 0

    @property
    def incarnation(self) -> str:
        """See `RoleService.incarnation`."""
        return self._machine.incarnation if self._life is None else self._life.incarnation

    async def run(self, stop: asyncio.Event) -> None:
        """See `RoleService.run`."""
        machine = self._machine
        member = await machine.member(MEMBERS)
        while not stop.is_set():
            life = self._life = _Life(machine, member)
            self._lives += 1
            log_event(_LOG, logging.INFO, "life begins", incarnation=life.incarnation)
            try:
                await life.run(stop)
            except CannotGoOn as error:
                if not life.lapsed:
                    raise
                log_event(_LOG, logging.WARNING, "ended by who held us for dead", reason=str(error))
            if not stop.is_set():
                log_event(_LOG, logging.WARNING, "the lease was lost; beginning anew", incarnation=life.incarnation)

    def troubles(self) -> dict[str, str]:
        """See `RoleService.troubles`. Without a shard it stands by, and is ready."""
        return {"life": "not begun yet"} if self._life is None else self._life.troubles()

    def samples(self) -> list[Sample]:
        """See `RoleService.samples`."""
        return [Sample(LIVES, self._lives), *(self._life.samples() if self._life is not None else ())]

    def holdings(self) -> dict[str, object]:
        """See `RoleService.holdings`."""
        return {} if self._life is None else self._life.holdings()


class _Life:
    """One incarnation, from its first beat to the loss of its lease or to `stop`."""

    def __init__(self, machine: Machine, member: KafkaMember) -> None:
        self._machine = machine
        timing = timing_of(machine.asked)
        table = CassandraLeaseTable(machine.session)
        self._presence = Presence(
            table,
            machine.clock,
            timing,
            role="crawlnode",
            new_incarnation=lambda: new_incarnation(machine.random),
        )
        self.incarnation = self._presence.lease.incarnation
        self._lease = self._presence.lease
        self._ownership = Ownership(
            table,
            machine.clock,
            timing,
            shards=machine.facts.shards,
            hint=member,
            presence=self._presence,
            on_take=self._take,
            on_lose=self._lose,
        )
        self._shares = LeasedShares(
            CassandraShareTable(machine.session),
            machine.clock,
            lease=lambda: self._presence.lease,
            observer=self._ownership.observer,
            owned=lambda: len(self._ownership.shards()),
            shards=machine.facts.shards,
        )
        self._health: Health | None = None
        self._node: CrawlNode | None = None
        self._settling = Settling()

    @property
    def lapsed(self) -> bool:
        """Whether its lease was lost: its segment may have been taken, and whatever that brings is no end of ours."""
        return self._lease.gone()

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` or the lease is lost: then drain, pass the shards on, seal."""
        machine = self._machine
        segments = machine.segments(_nobody_is_dead, log_alert)
        archivist = Archivist(machine.facts, machine.random, machine.clock)
        fetcher = wire_fetcher(machine.settings, machine.clock)
        try:
            if isinstance(fetcher, Spooling):
                fetcher.spool_into(await self._spool())
            opening = machine.patience.insist(
                "hdfs", lambda: segments.open_writer(self.incarnation, archivist.warcinfo, self._settling)
            )
            writer = await unless(stop, opening)
            if writer is not None:
                await self._work(stop, archivist, writer, fetcher)
                await writer.close()
        finally:
            await fetcher.close()
            await segments.close()

    async def _spool(self) -> Spool:
        machine, settings = self._machine, self._machine.settings
        limits = SpoolLimits(bytes_max=settings.fetching.spool_bytes_max, min_free_bytes=settings.min_free_bytes)
        folder, runner = machine.folder / "spool", machine.runner("spool")
        spool = Spool(folder, self.incarnation, disk=SystemDisk(), runner=runner, limits=limits)
        await spool.clean()
        return spool

    async def _work(self, stop: asyncio.Event, archivist: Archivist, writer: SegmentWriter, fetcher: Fetcher) -> None:
        machine = self._machine
        health = self._health = Health(
            machine.clock,
            {
                "cassandra": machine.clocks_agree,
                "kafka": machine.bus.producer.healthy,
                "segments": writer.healthy,
            },
            age_seconds_max=machine.settings.work.health_seconds_max,
        )
        await health.confirm()
        node = self._node = self._make_node(archivist, writer, fetcher, health)
        orders = CassandraOrders(machine.session)
        if await unless(stop, machine.patience.insist("orders", orders.look)) is None:
            return
        await node.obey(orders.latest)
        over, leave = asyncio.Event(), asyncio.Event()
        if await unless(stop, machine.patience.insist("budget", self._take_up_budget)) is None:
            return
        services = [self._own(over, leave), node.run(leave), self._shares.run(leave)]
        watchers = [health.run(), self._watch(health), self._settle(writer), self._observe()]
        watchers += [hand_on(stop, over), self._watch_lease(over)]
        watchers += [orders.watch(node.obey, machine.clock, machine.waits)]
        await together(services, watchers)

    def _make_node(self, archivist: Archivist, writer: SegmentWriter, fetcher: Fetcher, health: Health) -> CrawlNode:
        machine, facts = self._machine, self._machine.facts
        governor = governor_of(machine.settings, machine.clock, machine.random.fraction, shares=self._shares)
        holdings = Holdings(
            governor=governor,
            clock=machine.clock,
            shard_of=lambda host: shard_of_host(host, facts),
            owns=self._ownership.holds,  # also while a shard is drained, so that its claims can go back
        )
        return make_node(
            classes=RealNode(),
            archivist=archivist,
            steps=FetchSteps(writer, machine.mortality, self.incarnation, self._settling),
            fetcher=fetcher,
            governor=governor,
            holdings=holdings,
            health=health,
            quota=Unlimited(),
            coding_is_cut=coding_is_cut,
            errands=self._errands(),
            clock=machine.clock,
            random=machine.random,
            facts=facts,
            settings=machine.settings,
        )

    def _errands(self) -> CassandraErrands:
        machine, facts = self._machine, self._machine.facts
        return CassandraErrands(
            machine.session,
            owned=self._ownership.shards,
            shard_of_host=lambda host: shard_of_host(host, facts),
            clock=machine.clock,
            name=self.incarnation,
        )

    # -- shards ------------------------------------------------------------------------------------------------------
    async def _own(self, over: asyncio.Event, leave: asyncio.Event) -> None:
        """Own shards until it is over; the node ends after the last of them was passed on."""
        try:
            await self._ownership.run(over)
        finally:
            leave.set()

    async def _take(self, shard: int, epoch: int, previous: Previous) -> None:
        machine = self._machine
        assert self._node is not None
        log_event(_LOG, logging.INFO, "shard taken", shard=shard, epoch=epoch, previous=previous.value)
        store = machine.owned_store(shard, epoch)
        await self._node.take(shard, store, machine.bus.producer, unsure=previous is Previous.DEAD)

    async def _take_up_budget(self) -> bool:
        """What was sent today by whoever worked before, so that the day's budget is spent once."""
        machine = self._machine
        if machine.settings.politeness.budget_per_day == 0:
            return True
        stores = [machine.store(shard) for shard in range(machine.facts.shards)]
        sent_on = {day: sum([await store.requests(day) for store in stores]) for day in budget_days(machine.clock)}
        take_up(self._shares, machine.settings.politeness, machine.clock, sent_on)
        return True

    async def _lose(self, shard: int, why: Loss) -> None:
        assert self._node is not None
        await self._node.release(shard)
        await self._machine.give_up(shard)
        log_event(_LOG, logging.INFO, "shard given back", shard=shard, why=why.value)

    # -- watchers ----------------------------------------------------------------------------------------------------
    async def _watch_lease(self, over: asyncio.Event) -> None:
        """A lease that was lost never comes back: others may act on our death."""
        while not self._lease.gone():
            await self._machine.clock.sleep(LAPSE_LOOK_SECONDS)
        over.set()
        await asyncio.Event().wait()

    async def _watch(self, health: Health) -> None:
        """End the process when a part says that it will not come back, or the machine's clock was set."""
        clock = self._machine.clock
        while True:
            await clock.sleep(self._machine.settings.work.health_seconds_max / 2)
            if isinstance(health.last_error, CannotGoOn):
                raise health.last_error
            if not clock.agrees():
                raise CannotGoOn(
                    "the wall clock of this machine was set: start again, so that every wait keeps its length"
                )

    async def _settle(self, writer: SegmentWriter) -> None:
        """Leave hints for recovery."""
        while True:
            await self._machine.clock.sleep(UPKEEP_SECONDS)
            for segment, offset in self._settling.marks().items():
                await writer.settle(segment, offset)

    async def _observe(self) -> None:
        """Learn how far the readers of the bus are."""
        while True:
            await self._machine.observe_bus()
            await self._machine.clock.sleep(UPKEEP_SECONDS)

    # -- for people --------------------------------------------------------------------------------------------------
    def troubles(self) -> dict[str, str]:
        """See `RoleService.troubles`."""
        if self._health is None or self._node is None:
            return {"segments": "no writer yet"}
        part = self._health.unhealthy()
        if part is None:
            return {}
        return {part: str(self._health.last_error or "not confirmed lately")}

    def samples(self) -> list[Sample]:
        """See `RoleService.samples`. A lease that was never acknowledged has no age."""
        age_us = self._lease.age_us()
        aged = [] if age_us is None else [Sample(LEASE_AGE, age_us / 1e6)]
        return [Sample(HELD, len(self._ownership.shards())), *aged]

    def holdings(self) -> dict[str, object]:
        """See `RoleService.holdings`."""
        return {"incarnation": self.incarnation, "shards": sorted(self._ownership.shards())}


async def _nobody_is_dead(_incarnation: str) -> bool:
    """A crawl node takes no file from anybody."""
    return True

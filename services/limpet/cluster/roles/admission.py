"""The admission's process: `links.discovered` and its retry topic, one `Admission` for each partition.

The group gives each partition to one process, so that host counts have one writer. Two that overlap for a moment after
a rebalance write the same rows.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from limpet.admission.nearest import Nearest
from limpet.admission.service import Admission
from limpet.assembly.desks import desk_of
from limpet.assembly.places import shard_of_url
from limpet.assembly.tasks import together, unless
from limpet.bus.kafka import Bounds, KafkaGapError, Redelivery
from limpet.bus.kafka.topics import RETRY
from limpet.cluster.held import Held
from limpet.cluster.machine import Machine
from limpet.cluster.orders import CassandraOrders
from limpet.cluster.partitions import IDLE_SECONDS, Partitions
from limpet.model.events import LINKS_DISCOVERED
from limpet.obs.metrics import HELD, Sample
from limpet.politeness.orders import Orders
from limpet.reconciler.gaps import Gap, GapMender


class AdmissionRole:
    """See `RoleService`."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._parts: list[Partitions] = []
        self._orders = CassandraOrders(machine.session)

    @property
    def incarnation(self) -> str:
        """See `RoleService.incarnation`."""
        return self._machine.incarnation

    async def run(self, stop: asyncio.Event) -> None:
        """See `RoleService.run`."""
        machine = self._machine
        redelivery = Redelivery(machine.bus.cluster, machine.bus.producer, LINKS_DISCOVERED, Bounds())
        for topic in (LINKS_DISCOVERED, LINKS_DISCOVERED + RETRY):
            self._parts.append(
                Partitions(
                    topic,
                    await machine.member(topic),
                    partial(self._serve, topic),
                    clock=machine.clock,
                    patience=machine.patience,
                    redelivery=redelivery,
                    mend=self._mend if topic == LINKS_DISCOVERED else None,  # nobody knows what a retry was of
                )
            )
        if await unless(stop, machine.patience.insist("orders", self._orders.look)) is None:
            return
        services = [part.run(stop) for part in self._parts]
        await together(services, [self._orders.watch(_heard, machine.clock, machine.waits)])

    async def _serve(self, topic: str, partition: int, held: Held, leave: asyncio.Event) -> None:
        machine, facts = self._machine, self._machine.facts
        store = machine.store(partition)
        seen = machine.seen(topic, partition, leave.is_set)
        admission = Admission(
            store=store,
            seen=seen,
            consumer=held,
            desk=await desk_of(facts, machine.settings, store),
            offer=_woken_by_the_store,
            clock=machine.clock,
            mortality=machine.mortality,
            settings=machine.settings,
            crawl=facts.crawl,
            nearest=Nearest() if facts.scope.depth_max is not None else None,
            blocked=self._blocked,
            reads_seeds=True,
            idle_seconds=IDLE_SECONDS,
        )
        try:
            await admission.run(leave)
        finally:
            await seen.close()

    async def _mend(self, error: KafkaGapError, step_over: Callable[[], Awaitable[None]]) -> None:
        """What published links that were dropped unread is parsed again, before the partition goes on."""
        machine, facts = self._machine, self._machine.facts
        home = machine.store(error.partition)
        mender = GapMender(
            holders=[home],
            store_of=lambda url: machine.store(shard_of_url(url, facts)),
            crawl=facts.crawl,
            clock=machine.clock,
            mortality=machine.mortality,
        )
        gap = Gap(partition=error.partition, source=error.source, begin=error.offset, end=error.start)
        await mender.mend(gap, home, step_over)

    def _blocked(self, host: str, url: str) -> bool:
        order = self._orders.latest.get(host)
        return order is not None and order.blocks(url)

    def troubles(self) -> dict[str, str]:
        """See `RoleService.troubles`."""
        return {} if len(self._parts) == 2 else {"groups": "not joined yet"}

    def samples(self) -> list[Sample]:
        """See `RoleService.samples`."""
        return [Sample(HELD, len(self._parts[0].served()) if self._parts else 0)]

    def holdings(self) -> dict[str, object]:
        """See `RoleService.holdings`."""
        return {"partitions": self._parts[0].served() if self._parts else []}


async def _heard(_orders: Orders) -> None:
    """Who is blocked is looked up with each link."""


def _woken_by_the_store(_host: str, _authority: str, _due_us: int) -> None:
    """The crawl node asks the store what has become due (`UrlStore.woken`)."""

"""The parser's process: `document.fetched` and its retry topic, one `Parser` for each partition that the group gives.

A fault of a server gives the batch again; a death leaves the reader's cell unclean, and the next reader meets the
suspect span message by message (see `limpet.cluster.attempts`).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from limpet.admission.candidates import Desk
from limpet.assembly.desks import desk_of, wants_of
from limpet.assembly.places import shard_of_url
from limpet.bus import LostPartitionError
from limpet.bus.kafka import Bounds, KafkaGapError, Redelivery
from limpet.bus.kafka.topics import RETRY
from limpet.cluster.attempts import PartitionMarks, suspect_span
from limpet.cluster.held import Held
from limpet.cluster.machine import Machine
from limpet.cluster.partitions import IDLE_SECONDS, Partitions
from limpet.cluster.tables import CassandraAttempts
from limpet.model.errors import LimpetError
from limpet.model.events import DOCUMENT_FETCHED
from limpet.obs.alerts import log_alert
from limpet.obs.metrics import HELD, Sample
from limpet.parser.service import Parser
from limpet.segments import SegmentStore

READS_AT_ONCE: Final = 16
JOBS_SECONDS: Final = 5.0
NEVER_SECONDS: Final = 1e12
"""The reader of the retry topic leaves jobs to the other one of its partition."""


class ParserRole:
    """See `RoleService`."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._attempts = CassandraAttempts(machine.session)
        self._alone = asyncio.Lock()
        self._begun: dict[tuple[str, int], tuple[Held, dict[int, int]]] = {}
        self._parts: list[Partitions] = []
        self._desks: dict[int, Desk] = {}

    @property
    def incarnation(self) -> str:
        """See `RoleService.incarnation`."""
        return self._machine.incarnation

    async def run(self, stop: asyncio.Event) -> None:
        """See `RoleService.run`."""
        machine = self._machine
        segments = machine.segments(_nobody_is_dead, log_alert)
        redelivery = Redelivery(machine.bus.cluster, machine.bus.producer, DOCUMENT_FETCHED, Bounds())
        try:
            for topic in (DOCUMENT_FETCHED, DOCUMENT_FETCHED + RETRY):
                self._parts.append(
                    Partitions(
                        topic,
                        await machine.member(topic),
                        partial(self._serve, topic, segments),
                        clock=machine.clock,
                        patience=machine.patience,
                        redelivery=redelivery,
                        mend=_found_again,
                    )
                )
            async with asyncio.TaskGroup() as tasks:
                for part in self._parts:
                    tasks.create_task(part.run(stop))
        finally:
            await segments.close()

    async def _serve(
        self, topic: str, segments: SegmentStore, partition: int, held: Held, leave: asyncio.Event
    ) -> None:
        suspect = await self._begin(topic, partition, held)
        parser = await self._parser(topic, segments, partition, held, suspect)
        try:
            await parser.run(leave)
        except LostPartitionError:
            await self._end(topic, partition)
            raise
        await self._end(topic, partition)

    async def _begin(self, topic: str, partition: int, held: Held) -> dict[int, int]:
        """The suspect span of a partition that was just given to us; the same again while it stays ours."""
        begun = self._begun.get((topic, partition))
        if begun is not None and begun[0] is held:
            return begun[1]
        machine = self._machine
        clean = await self._attempts.begin(topic, partition, machine.incarnation)
        suspect: dict[int, int] = {}
        if not clean:
            place = (machine.asked.kafka.topic(topic), partition)
            _, end = (await machine.bus.cluster.spans([place]))[place]
            suspect = suspect_span(held, end, machine.settings.work.parse_batch_max)
        self._begun[topic, partition] = (held, suspect)
        return suspect

    async def _end(self, topic: str, partition: int) -> None:
        """In order. If it cannot be told, the next reader only takes care where it need not."""
        self._begun.pop((topic, partition), None)
        with contextlib.suppress(LimpetError):
            await self._attempts.end(topic, partition, self._machine.incarnation)

    async def _parser(
        self, topic: str, segments: SegmentStore, partition: int, held: Held, suspect: dict[int, int]
    ) -> Parser:
        machine, facts = self._machine, self._machine.facts
        store = machine.store(partition)
        desk = await desk_of(facts, machine.settings, store)

        async def learn() -> None:
            for url in await store.seeds():
                desk.add_seed(url)

        return Parser(
            store=store,
            consumer=held,
            producer=machine.bus.producer,
            segments=segments,
            partition_of=lambda url: shard_of_url(url, facts),
            marks=PartitionMarks(self._attempts, topic, partition),
            suspect=suspect,
            alone=self._alone,
            cleared=suspect.clear,
            clock=machine.clock,
            mortality=machine.mortality,
            settings=machine.settings,
            crawl=facts.crawl,
            wants=wants_of(facts),
            depth_counts=facts.scope.depth_max is not None,
            in_scope=desk.in_scope,
            runner=machine.runner("parses"),
            learn=learn,
            reads_at_once=READS_AT_ONCE,
            jobs_seconds=JOBS_SECONDS if topic == DOCUMENT_FETCHED else NEVER_SECONDS,
            idle_seconds=IDLE_SECONDS,
        )

    def troubles(self) -> dict[str, str]:
        """See `RoleService.troubles`."""
        return {} if len(self._parts) == 2 else {"groups": "not joined yet"}

    def samples(self) -> list[Sample]:
        """See `RoleService.samples`."""
        return [Sample(HELD, len(self._parts[0].served()) if self._parts else 0)]

    def holdings(self) -> dict[str, object]:
        """See `RoleService.holdings`."""
        return {"partitions": self._parts[0].served() if self._parts else []}


async def _found_again(_gap: KafkaGapError, step_over: Callable[[], Awaitable[None]]) -> None:
    """A body that nobody parsed is found from the rows, and published again."""
    await step_over()


async def _nobody_is_dead(_incarnation: str) -> bool:
    """A parser takes no file from anybody."""
    return True

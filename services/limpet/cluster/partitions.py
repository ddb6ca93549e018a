"""Serves the partitions of a topic that a group gives this process, a task each, from assignment to revocation.

What a partition meets decides what becomes of it:

* `LostPartitionError`: somebody else reads it; what was in hand is dropped, they get it again.
* `CannotGoOn`, `UsageError`: the process ends.
* any other `LimpetError`: a server of ours does not serve. The partition waits, says so, and gives its batch again.
* an event version that is not known: likewise, until this process is upgraded.
* `GapError`: retention was faster than we. The partition stands still and says so, until it is mended if it can be.
* anything else: the messages in hand are tried one by one, and the one that fails alone is set aside (`Redelivery`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from limpet.bus import Consumer, GapError, LostPartitionError, Message, Position
from limpet.bus.kafka import KafkaGapError
from limpet.clock import Clock
from limpet.cluster.held import Held
from limpet.cluster.waiting import PAUSE_SECONDS_FIRST, PAUSE_SECONDS_MAX, Patience
from limpet.model.errors import CannotGoOn, LimpetError, UsageError
from limpet.obs import log_event

LOOK_SECONDS: Final = 0.25
IDLE_SECONDS: Final = 2.0
"""How long a reader without messages waits, unless it is woken: a process has dozens of them, and each look costs."""
REASON_CHARS_MAX: Final = 300
_LOG = logging.getLogger("limpet.cluster")

Mend = Callable[[KafkaGapError, Callable[[], Awaitable[None]]], Awaitable[None]]
"""(gap, step over it): see to it that what was dropped unread comes back, then step over."""

Serve = Callable[[int, Held, asyncio.Event], Awaitable[None]]
"""(partition, its messages, leave): work until `leave`, finish what is in hand, return."""


class Member(Protocol):
    """What is needed of a group's member (`KafkaMember`)."""

    def share(self) -> frozenset[int]:
        """The partitions that are ours now."""
        ...

    def consumer(self, partition: int) -> Consumer:
        """The consumer of one of them. Raises `LostPartitionError`."""
        ...

    async def changed(self, seconds: float) -> bool:
        """Wait for a change of the share, at most `seconds`."""
        ...


class SetAside(Protocol):
    """What becomes of messages that failed (`Redelivery`)."""

    async def set_aside(self, message: Message, reason: str) -> None:
        """Keep it elsewhere, durably. Raises `CannotGoOn` when too many fail."""
        ...

    def succeeded(self) -> None:
        """One message went well."""
        ...


class Partitions:
    """One topic's share of this process."""

    def __init__(
        self,
        topic: str,
        member: Member,
        serve: Serve,
        *,
        clock: Clock,
        patience: Patience,
        redelivery: SetAside,
        mend: Mend | None = None,
    ) -> None:
        """Without `mend`, a partition stands still at a gap."""
        self._topic = topic
        self._member = member
        self._serve = serve
        self._clock = clock
        self._patience = patience
        self._redelivery = redelivery
        self._mend = mend
        self._serving: dict[int, tuple[asyncio.Task[None], asyncio.Event]] = {}

    def served(self) -> list[int]:
        """Partitions at work."""
        return sorted(self._serving)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`, then let each partition finish what it has in hand. Raises what ends the process."""
        try:
            while not stop.is_set():
                self._look()
                await self._member.changed(LOOK_SECONDS)
            for _, leave in self._serving.values():
                leave.set()
            for task, _ in list(self._serving.values()):
                await task
        finally:
            await self._end()

    def _look(self) -> None:
        """Begin with what is new, leave what is not ours any more, forget what has ended."""
        share = self._member.share()
        for partition, (task, leave) in list(self._serving.items()):
            if task.done():
                del self._serving[partition]
                task.result()
            elif partition not in share:
                leave.set()
        for partition in share - self._serving.keys():
            leave = asyncio.Event()
            task = asyncio.get_running_loop().create_task(self._partition(partition, leave))
            self._serving[partition] = (task, leave)

    async def _end(self) -> None:
        tasks = [task for task, _ in self._serving.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._serving.clear()

    async def _partition(self, partition: int, leave: asyncio.Event) -> None:
        name = f"{self._topic}[{partition}]"
        try:
            held = Held(self._member.consumer(partition), self._clock, lambda count: self._went_well(name, count))
            pause = PAUSE_SECONDS_FIRST
            while not leave.is_set():
                try:
                    await self._serve(partition, held, leave)
                except Exception as error:  # noqa: BLE001 - judged there; what ends the process is raised again
                    pause = min(2 * pause, PAUSE_SECONDS_MAX) if self._waits(name) else PAUSE_SECONDS_FIRST
                    await self._fault(name, held, error)
                    await self._rest(pause if self._waits(name) else 0.0, leave)
        except LostPartitionError:
            log_event(_LOG, logging.INFO, "partition went to somebody else", partition=name)
        finally:
            self._patience.waits.end(name)

    async def _fault(self, name: str, held: Held, error: Exception) -> None:
        """Judge `error`; on return the work is to be begun again."""
        if isinstance(error, (CannotGoOn, UsageError, LostPartitionError)):
            raise error
        if isinstance(error, GapError):
            await self._gap(name, held, error)
        elif isinstance(error, LimpetError):  # an event version that is not known is one, too
            self._patience.waits.begin(name, error)
            held.rewind()
        else:
            await self._suspicious(name, held, error)

    async def _gap(self, name: str, held: Held, error: GapError) -> None:
        self._patience.waits.begin(name, error)
        if self._mend is None or not isinstance(error, KafkaGapError) or error.offset > error.end:
            return
        log_event(_LOG, logging.ERROR, "messages were dropped unread; going on behind them", reason=str(error))
        behind = Position(error.partition, error.source, error.start - 1)
        try:
            await self._mend(error, lambda: held.commit([behind]))
        except LimpetError as failure:
            await self._fault(name, held, failure)

    async def _suspicious(self, name: str, held: Held, error: Exception) -> None:
        """A fault of one of the messages in hand, or of this program."""
        reason = f"{type(error).__name__}: {error}"[:REASON_CHARS_MAX]
        messages = held.in_hand()
        if not messages:
            raise error
        log_event(_LOG, logging.ERROR, "messages failed", partition=name, messages=len(messages), reason=reason)
        if len(messages) > 1:
            held.rewind(alone=True)
            return
        try:
            await self._redelivery.set_aside(messages[0], reason)
            await held.commit([messages[0].position])
        except LimpetError as failure:
            await self._fault(name, held, failure)
        else:
            held.rewind(alone=True)

    def _waits(self, name: str) -> bool:
        return name in self._patience.waits.now()

    def _went_well(self, name: str, count: int) -> None:
        self._patience.waits.end(name)
        for _ in range(count):
            self._redelivery.succeeded()

    async def _rest(self, seconds: float, leave: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(seconds):
                await leave.wait()
        except TimeoutError:
            pass

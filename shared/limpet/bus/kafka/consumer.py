"""`Consumer` on Kafka: one partition of a reader."""

import asyncio
from collections.abc import Sequence
from typing import Final

from confluent_kafka import KafkaError

from limpet.bus.finished import Finished
from limpet.bus.kafka.cluster import Cluster, Place
from limpet.bus.kafka.commits import Commits, RebalancingError
from limpet.bus.kafka.errors import of_request
from limpet.bus.kafka.inbox import Inbox
from limpet.bus.kafka.reader import Reader
from limpet.bus.port import GapError, LostPartitionError, Message, Position
from limpet.model.errors import Definite

FIRST_OFFSET: Final = 0
REBALANCE_SECONDS_MAX: Final = 30.0
AGAIN_SECONDS: Final = 0.1


class KafkaGapError(GapError):
    """The log holds [start, end) and the next message to read, `offset`, lies outside.

    Before `start`: retention was faster than the reader. Beyond `end`: the log lost its tail, or the topic was made
    anew; no commit accepts that, since it would have to go backwards.
    """

    def __init__(self, place: Place, offset: int, start: int, end: int) -> None:
        topic, partition = place
        if offset > end:
            said = f"the next offset is {offset} and the log ends at {end}; it was cut, or the topic was made anew"
        else:
            said = f"messages {offset} to {max(start, offset + 1) - 1} were dropped unread; parse again what sent them"
        super().__init__(f"{topic}[{partition}]: {said}")
        self.topic = topic
        self.partition = partition
        self.source = 0
        self.offset = offset
        self.start = start
        self.end = end


class KafkaConsumer:
    """See `Consumer`. All writers share a log, so its only source is 0.

    `receive` raises `KafkaGapError`; committing the position before its `start` accepts the loss. After the partition
    was given to somebody else, `receive` and `commit` raise `LostPartitionError`.
    """

    def __init__(self, cluster: Cluster, reader: Reader, commits: Commits, place: Place, inbox: Inbox) -> None:
        self._cluster = cluster
        self._reader = reader
        self._commits = commits
        self._place = place
        self._inbox = inbox
        self._work = Finished(inbox.start)
        self._news = asyncio.Event()
        self._lost = False
        commits.begin(place, inbox.start)

    @property
    def partition(self) -> int:
        """Which one it reads."""
        return self._place[1]

    # -- receiving ---------------------------------------------------------------------------------------------------
    async def receive(self, limit: int) -> list[Message]:
        """See `Consumer.receive`. Raises `KafkaGapError`, `LostPartitionError`, `RefusedError`."""
        self._check()
        messages, resume = self._inbox.take(limit)
        if resume:
            self._reader.resume(self._place)
        if messages:
            self._work.receive([message.position.offset for message in messages])
        elif self._inbox.missing or self._inbox.error is not None:
            raise await self._fault()
        return messages

    async def _fault(self) -> Exception:
        error = self._inbox.error
        if error is not None and error.code() not in OUT_OF_RANGE:
            return of_request(error, f"reading {self._place[0]}[{self._place[1]}]")
        start, end = (await self._cluster.spans([self._place]))[self._place]
        return KafkaGapError(self._place, self._inbox.next, start, end)

    async def wait(self, seconds: float) -> None:
        """See `Consumer.wait`."""
        self._news.clear()
        if self._lost or self._inbox.ready():
            return
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass

    def wake(self) -> None:
        """There is news."""
        self._news.set()

    # -- offsets -----------------------------------------------------------------------------------------------------
    async def commit(self, positions: Sequence[Position]) -> None:
        """See `Consumer.commit`. Raises `LostPartitionError`; `Indefinite` when no answer came."""
        for position in positions:
            self._work.finish(position.offset)
        upto = self._work.target()
        if upto <= self._work.committed:
            return
        await self._insist(upto)
        self._work.moved(upto)
        if upto > self._inbox.next:  # a loss was accepted
            self._inbox = self._fresh(upto)
            self._reader.assign(self._place, self._inbox)

    async def _insist(self, upto: int) -> None:
        """Commit through a rebalance, as long as the partition stays ours."""
        end = self._cluster.clock.monotonic() + REBALANCE_SECONDS_MAX
        while True:
            self._check()
            try:
                await self._commits.commit(self._place, upto)
            except RebalancingError as error:
                if self._cluster.clock.monotonic() >= end:
                    raise Definite(f"{error}; does the group have members elsewhere?") from error
                await self._cluster.clock.sleep(AGAIN_SECONDS)
            else:
                return

    def _fresh(self, offset: int) -> Inbox:
        settings = self._cluster.settings
        return Inbox(offset, messages_max=settings.buffer_messages_max, bytes_max=settings.buffer_bytes_max)

    def uncommitted(self) -> dict[int, int]:
        """See `Consumer.uncommitted`."""
        return {0: self._work.committed}

    # -- ends --------------------------------------------------------------------------------------------------------
    def lose(self) -> None:
        """Somebody else reads the partition now."""
        self._lost = True
        self._news.set()

    def _check(self) -> None:
        if self._lost:
            raise LostPartitionError(f"{self._place[0]}[{self._place[1]}] is read by somebody else now")

    def close(self) -> None:
        """Stop reading; what was not committed comes again to the next reader."""
        self._reader.unassign(self._place)
        self.lose()


OUT_OF_RANGE: Final = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._NO_OFFSET}  # noqa: SLF001
)

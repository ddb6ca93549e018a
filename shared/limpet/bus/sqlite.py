"""The bus on SQLite: every shard's file holds one outgoing log and the offsets of the shard's own consumers.

Only the owner of a file writes it. A message for another shard stays in its writer's log and is read there, so a
position is (partition, source, offset) with the writer's shard as its source.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from limpet.bus.finished import Finished
from limpet.bus.port import Capabilities, Message, Position, UnknownTopicError
from limpet.bus.sqlitelog import LogFile, LogGapError, SqliteLog, Subscription
from limpet.clock.port import Clock
from limpet.model.events import TOPICS
from limpet.runtime.sqlitefile import SqliteFile
from limpet.runtime.sqlitetx import Row, Tx
from limpet.urlstore import counters

__all__ = ["LogFile", "LogGapError", "SqliteConsumer", "SqliteLog", "SqliteProducer"]

TRIM_ROWS_MAX: Final = 10_000
TRIM_CHUNK: Final = 500
HEALTHY_SECONDS: Final = 1.0
FIRST_OFFSET: Final = 1
CAPABILITIES: Final = Capabilities(positions=True, sources=True, keeps_unread=True, groups=False)


class SqliteProducer:
    """See `Producer`. Appends to the log of the shard that `log` reads; that must be `file` itself.

    `retention_us` is how long a message stays after its reader committed it.
    """

    def __init__(
        self, file: SqliteFile, log: SqliteLog, clock: Clock, *, retention_us: int, topics: Sequence[str] = TOPICS
    ) -> None:
        self._file = file
        self._log = log
        self._clock = clock
        self._retention_us = retention_us
        self._topics = frozenset(topics)
        self._trim_after = 0
        log.load()

    async def publish(self, topic: str, messages: Sequence[tuple[int, bytes]]) -> list[Position]:
        """See `Producer.publish`. Raises `UnknownTopicError`."""
        if topic not in self._topics:
            raise UnknownTopicError(f"no topic {topic!r}; there are {', '.join(sorted(self._topics))}")
        if not messages:
            return []
        now_us = self._clock.wall_us()
        return await self._file.write(lambda tx: self._append(tx, topic, messages, now_us))

    def _append(self, tx: Tx, topic: str, messages: Sequence[tuple[int, bytes]], now_us: int) -> list[Position]:
        appended = [
            (tx.insert("log_append", (topic, partition, now_us, payload)), topic, partition)
            for partition, payload in messages
        ]
        for partition, finish in {partition: offset + 1 for offset, _, partition in appended}.items():
            tx.run("log_finish", (topic, partition, finish))
        tx.count(counters.PUBLISHED + topic, len(appended))
        tx.then(lambda: self._log.appended(appended))
        return [Position(partition, self._log.source, offset) for offset, _, partition in appended]

    async def healthy(self) -> None:
        """See `Producer.healthy`: a commit of the last second confirms it, else one is made."""
        self._file.check()
        if self._file.idle_seconds() > HEALTHY_SECONDS:
            now_us = self._clock.wall_us()
            await self._file.write(lambda tx: tx.run("meta_put", ("probed_us", str(now_us))))

    def backlog(self) -> int:
        """See `Producer.backlog`. Readers in this process report by themselves, those elsewhere through `observe`."""
        return self._log.backlog()

    def observe(self, committed: Mapping[str, Mapping[int, int]]) -> None:
        """Learn committed offsets: topic -> partition -> next message of this log that its reader will read."""
        self._log.observe(committed)

    async def trim(self, now_us: int, committed: Mapping[str, Mapping[int, int]]) -> int:
        """Drop messages older than the retention that their reader committed; the number of messages.

        A topic and partition missing from `committed` keeps everything. Bounded: call it again for more.
        """
        self._log.observe(committed)
        dropped = [
            (offset, topic, partition)
            for offset, topic, partition, _ in self._older_than(now_us - self._retention_us)
            if offset < committed.get(topic, {}).get(partition, 0)
        ]
        if dropped:
            await self._file.write(lambda tx: _drop(tx, dropped))
        return len(dropped)

    def _older_than(self, before_us: int) -> list[Row]:
        """Messages written before that time, found by reading on until there is a younger one."""
        found: list[Row] = []
        while len(found) < TRIM_ROWS_MAX:
            after = self._trim_after
            rows = self._file.read(lambda reader: reader.all("log_from", (after, TRIM_CHUNK)))  # noqa: B023 - called at once
            old = [row for row in rows if row[3] < before_us]
            found += old
            if len(rows) < TRIM_CHUNK or len(old) < len(rows):
                self._trim_after = 0
                return found
            self._trim_after = rows[-1][0] + 1
        return found


def _drop(tx: Tx, dropped: Sequence[tuple[int, str, int]]) -> None:
    for first, last in _runs(offset for offset, _, _ in dropped):
        tx.run("log_trim", (first, last))
    for (topic, partition), start in {(topic, part): offset + 1 for offset, topic, part in dropped}.items():
        tx.run("log_begin", (start, topic, partition))
    for _, topic, _ in dropped:
        tx.count(counters.TRIMMED + topic)


def _runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending `offsets` as ranges, both ends included."""
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and runs[-1][1] == offset - 1:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))
    return runs


class SqliteConsumer:
    """See `Consumer`. Reads one partition of one topic from the logs of every source; keeps its offsets in `file`.

    `receive` raises `LogGapError` when a log begins after the committed offset. Committing the position before
    `LogGapError.start` accepts the loss, once what it held was parsed again.
    """

    def __init__(
        self, file: SqliteFile, topic: str, partition: int, logs: Mapping[int, SqliteLog], clock: Clock
    ) -> None:
        self._file = file
        self._topic = topic
        self._partition = partition
        self._logs = dict(logs)
        self._clock = clock
        self._wake = asyncio.Event()
        stored: dict[int, int] = dict(file.read(lambda reader: reader.all("consumed_of", (topic, partition))))
        self._work = {source: Finished(stored.get(source, FIRST_OFFSET)) for source in logs}
        self._turn = sorted(logs)
        self._subscriptions: dict[int, Subscription] = {}
        with contextlib.suppress(LogGapError):  # receive says it again
            self._subscribe()

    # -- receiving ---------------------------------------------------------------------------------------------------
    async def receive(self, limit: int) -> list[Message]:
        """See `Consumer.receive`. Sources take turns. Raises `LogGapError`."""
        self._subscribe()
        self._turn.append(self._turn.pop(0))
        messages: list[Message] = []
        for source in self._turn:
            self._logs[source].poll()
            subscription = self._subscriptions[source]
            if subscription.ready and len(messages) < limit:
                taken = subscription.take(limit - len(messages))
                self._work[source].receive([offset for offset, _ in taken])
                messages += [Message(Position(self._partition, source, offset), data) for offset, data in taken]
        return messages

    def _subscribe(self) -> None:
        if len(self._subscriptions) == len(self._logs):
            return
        for source, log in self._logs.items():
            if source not in self._subscriptions:
                begin = self._work[source].committed
                self._subscriptions[source] = log.subscribe(self._topic, self._partition, begin, self._wake)

    async def wait(self, seconds: float) -> None:
        """See `Consumer.wait`. Logs of other processes are looked at every `SqliteLog.poll_seconds`."""
        foreign = [log.poll_seconds for log in self._logs.values() if not log.own]
        end = self._clock.monotonic() + seconds
        while not self._ready():
            left = end - self._clock.monotonic()
            if left <= 0:
                return
            await _woken(self._wake, min([left, *foreign]))

    def _ready(self) -> bool:
        self._wake.clear()
        for log in self._logs.values():
            log.poll()
        gap = len(self._subscriptions) < len(self._logs)
        return gap or any(subscription.ready for subscription in self._subscriptions.values())

    # -- offsets -----------------------------------------------------------------------------------------------------
    async def commit(self, positions: Sequence[Position]) -> None:
        """See `Consumer.commit`."""
        for position in positions:
            self._work[position.source].finish(position.offset)
        ahead = {source: upto for source, work in self._work.items() if (upto := work.target()) > work.committed}
        if not ahead:
            return
        count = sum(self._work[source].covers(upto) for source, upto in ahead.items())
        await self._file.write(lambda tx: self._store(tx, ahead, count))
        for source, upto in ahead.items():
            self._work[source].moved(upto)
            self._logs[source].consumed(self._topic, self._partition, upto)

    def _store(self, tx: Tx, ahead: Mapping[int, int], count: int) -> None:
        for source, upto in ahead.items():
            tx.run("consumed_put", (self._topic, self._partition, source, upto))
            tx.run("mark_delete", (self._topic, self._partition, source, upto))
        tx.count(counters.COMMITTED + self._topic, count)

    def uncommitted(self) -> dict[int, int]:
        """See `Consumer.uncommitted`."""
        return {source: work.committed for source, work in self._work.items()}

    # -- attempt marks, for the uncommitted span after an unclean start ----------------------------------------------
    async def mark(self, positions: Sequence[Position]) -> list[int]:
        """Durably begin an attempt at each message; which attempt it is. A commit past it takes the mark away."""
        params = [(self._topic, self._partition, position.source, position.offset) for position in positions]
        return await self._file.write(lambda tx: [tx.value("mark_add", values) for values in params])

    async def acquit(self, positions: Sequence[Position]) -> None:
        """Durably forget the attempts at each message, which goes well."""

        def op(tx: Tx) -> None:
            for position in positions:
                tx.run("mark_forget", (self._topic, self._partition, position.source, position.offset))

        await self._file.write(op)

    def marks(self) -> dict[Position, int]:
        """Attempts begun and not committed."""
        rows = self._file.read(lambda reader: reader.all("marks", (self._topic, self._partition)))
        return {Position(self._partition, source, offset): attempts for source, offset, attempts in rows}


async def _woken(wake: asyncio.Event, seconds: float) -> None:
    """Return when `wake` is set, at the latest after `seconds`. An idle consumer comes here several times a second."""
    try:
        async with asyncio.timeout(seconds):
            await wake.wait()
    except TimeoutError:
        pass

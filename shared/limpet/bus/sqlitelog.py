"""One outgoing log, followed by everybody in this process who reads from it.

A log is read forward once, whoever wants it: only where messages lie, eight bytes each; a payload is read when its
consumer receives it. What this process itself appends is told to its readers at the commit and never looked for.
"""

import asyncio
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from limpet.bus.port import GapError
from limpet.clock.port import Clock
from limpet.runtime.sqlitetx import Reader

T = TypeVar("T")

SCAN_ROWS: Final = 2000
PENDING_MAX: Final = 20_000  # positions one consumer holds of one log; beyond that it reads the log again, later
POLL_SECONDS: Final = 0.05

Appended = Sequence[tuple[int, str, int]]
"""(offset, topic, partition) of messages, in order."""


class LogFile(Protocol):
    """A shard's file, one's own (`SqliteFile`) or another's (`ReadOnlyFile`)."""

    def read(self, op: Callable[[Reader], T]) -> T:
        """`op` over everything that is committed."""
        ...


class LogGapError(GapError):
    """The log of `source` begins at `start`, and the next message to read, `offset`, lies before it."""

    def __init__(self, topic: str, partition: int, source: int, offset: int, start: int) -> None:
        super().__init__(
            f"{topic}[{partition}] from source {source}: messages {offset} to {start - 1} were dropped unread; "
            "parse again what published them"
        )
        self.topic = topic
        self.partition = partition
        self.source = source
        self.offset = offset
        self.start = start


class Subscription:
    """What one consumer has yet to receive from one log."""

    def __init__(
        self, log: "SqliteLog", topic: str, partition: int, offset: int, wake: asyncio.Event, pending_max: int
    ) -> None:
        self._log = log
        self._pending_max = pending_max
        self._topic = topic
        self._partition = partition
        self._wake = wake
        self._pending: list[int] = []
        self._next = 0  # index into _pending
        self.begin = offset
        self._behind = 0  # from this offset on, positions were not kept and must be looked up; 0 = none

    @property
    def ready(self) -> bool:
        """Whether there is something to receive."""
        return self._next < len(self._pending) or self._behind > 0

    def offer(self, offset: int) -> None:
        """A message lies at `offset`."""
        if offset < self.begin:
            return
        if not self._behind:
            if len(self._pending) - self._next >= self._pending_max:
                self._behind = offset
            else:
                self._pending.append(offset)
        self._wake.set()

    def look_up_from(self, offset: int) -> None:
        """Positions from `offset` on are to be looked up in the log."""
        self._behind = offset

    def take(self, limit: int) -> list[tuple[int, bytes]]:
        """Up to `limit` (offset, payload), in order. Raises `LogGapError`."""
        if self._next >= len(self._pending) and self._behind:
            self._refill()
        offsets = self._pending[self._next : self._next + limit]
        taken = [(offset, self._log.payload(self._topic, self._partition, offset)) for offset in offsets]
        self._next += len(offsets)
        if self._next >= len(self._pending):
            self._pending, self._next = [], 0
        return taken

    def _refill(self) -> None:
        found = self._log.positions(self._topic, self._partition, self._behind, self._pending_max)
        self._pending, self._next = found, 0
        self._behind = found[-1] + 1 if len(found) == self._pending_max else 0


class SqliteLog:
    """The outgoing log in one shard's file. `source` is the number of that shard.

    For a log that another process writes, `poll` looks for news, at most every `poll_seconds`; the owner's producer
    calls `appended` instead.
    """

    def __init__(
        self,
        file: LogFile,
        source: int,
        clock: Clock,
        *,
        own: bool,
        poll_seconds: float = POLL_SECONDS,
        pending_max: int = PENDING_MAX,
    ) -> None:
        self.source = source
        self.own = own
        self.poll_seconds = poll_seconds
        self._pending_max = pending_max
        self._file = file
        self._clock = clock
        self._subscriptions: dict[tuple[str, int], Subscription] = {}
        self._cursor = 0  # everything before it was offered; 0 = nothing was read yet
        self._polled = float("-inf")
        self._unconsumed: dict[tuple[str, int], array[int]] = {}

    # -- reading -----------------------------------------------------------------------------------------------------
    def subscribe(self, topic: str, partition: int, offset: int, wake: asyncio.Event) -> Subscription:
        """Follow one topic and partition from `offset` on. Raises `LogGapError` when the log begins after it."""
        start: int = self._file.read(lambda reader: reader.value("log_start", (topic, partition))) or 1
        if offset < start:
            raise LogGapError(topic, partition, self.source, offset, start)
        subscription = Subscription(self, topic, partition, offset, wake, self._pending_max)
        self._subscriptions[topic, partition] = subscription
        if self._cursor > offset:
            subscription.look_up_from(offset)
        return subscription

    def poll(self, *, force: bool = False) -> None:
        """Offer what was appended since the last look, if it is time to look."""
        now = self._clock.monotonic()
        if self._cursor and not force and (self.own or now < self._polled + self.poll_seconds):
            return
        self._polled = now
        if not self._subscriptions:
            return
        if not self._cursor:
            self._cursor = min(subscription.begin for subscription in self._subscriptions.values())
        while self._read_on():
            pass

    def _read_on(self) -> bool:
        rows = self._file.read(lambda reader: reader.all("log_from", (self._cursor, SCAN_ROWS)))
        for offset, topic, partition, _ in rows:
            self._offer(offset, topic, partition)
        return len(rows) == SCAN_ROWS

    def _offer(self, offset: int, topic: str, partition: int) -> None:
        self._cursor = offset + 1
        subscription = self._subscriptions.get((topic, partition))
        if subscription is not None:
            subscription.offer(offset)

    def payload(self, topic: str, partition: int, offset: int) -> bytes:
        """One message. Raises `LogGapError` when it is no longer there."""
        payload: bytes | None = self._file.read(lambda reader: reader.value("log_payload", (offset,)))
        if payload is None:
            start: int = self._file.read(lambda reader: reader.value("log_start", (topic, partition))) or 1
            raise LogGapError(topic, partition, self.source, offset, max(start, offset + 1))
        return payload

    def positions(self, topic: str, partition: int, offset: int, limit: int) -> list[int]:
        """Where messages of one topic and partition lie, from `offset` up to what `poll` has passed."""
        params = (offset, self._cursor, topic, partition, limit)
        return [found for (found,) in self._file.read(lambda reader: reader.all("log_of_part", params))]

    # -- the owner's side --------------------------------------------------------------------------------------------
    def appended(self, messages: Appended) -> None:
        """The owner's producer made these durable."""
        for offset, topic, partition in messages:
            self._unconsumed.setdefault((topic, partition), array("q")).append(offset)
        if self._cursor and messages[0][0] >= self._cursor:
            for offset, topic, partition in messages:
                self._offer(offset, topic, partition)

    def load(self) -> None:
        """Learn what an earlier process left in the log."""
        after = 1
        while rows := self._file.read(lambda reader: reader.all("log_from", (after, SCAN_ROWS))):  # noqa: B023 - called at once
            for offset, topic, partition, _ in rows:
                self._unconsumed.setdefault((topic, partition), array("q")).append(offset)
            after = rows[-1][0] + 1

    def consumed(self, topic: str, partition: int, offset: int) -> None:
        """The reader of this topic and partition committed everything before `offset`."""
        offsets = self._unconsumed.get((topic, partition))
        if not offsets:
            return
        count = 0
        while count < len(offsets) and offsets[count] < offset:
            count += 1
        del offsets[:count]

    def observe(self, committed: Mapping[str, Mapping[int, int]]) -> None:
        """`consumed` for every topic and partition of `committed`."""
        for topic, partitions in committed.items():
            for partition, offset in partitions.items():
                self.consumed(topic, partition, offset)

    def backlog(self) -> int:
        """Messages that their readers have not committed, as last known."""
        return sum(map(len, self._unconsumed.values()))

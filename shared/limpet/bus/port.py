"""The bus port: named topics of ordered logs. It carries facts, not commands.

Contract, for every adapter:

* `publish` returns only when the messages are durable, in order per (partition, source). A failed publish is unknown
  (`Indefinite`), never absent; publishing again may duplicate, so consumers are idempotent.
* A consumer has a *working* offset (next to deliver, in memory) and a *committed* offset (durable). After a restart it
  begins at the committed one: what was received and not committed comes again.
* `commit` is called last and says what is finished. The committed offset moves over contiguous finished work only, and
  never backwards.
* A committed offset below the log's start is a `Gap`: messages were dropped unread. It is raised, never skipped.
* Nothing unread is dropped by retention, or (`Capabilities.keeps_unread` is false) retention goes by age alone, is
  longer than the longest outage planned for, and what it took is a gap.
* What the bus will refuse again is a `RefusedError`: an unknown topic, a missing right, a message that is too large.
  No topic comes into being because somebody wrote to it.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from limpet.model.errors import CannotGoOn, Definite


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What adapters may differ in; never durability, order or fencing.

    `positions`: messages lie at numbered places, so a commit is an offset and a gap is found by comparing numbers.
    `sources`: writers have logs of their own; else all share one, and `Position.source` is 0.
    `keeps_unread`: retention waits for the reader; else only age decides.
    `groups`: the bus can hand out partitions by itself (a hint: see `limpet.membership`).
    """

    positions: bool
    sources: bool
    keeps_unread: bool
    groups: bool


class GapError(Definite):
    """The log no longer holds messages that this consumer has not read."""


class RefusedError(Definite, CannotGoOn):
    """The bus refuses this and will refuse it again: somebody has to mend it, and no retry does."""


class UnknownTopicError(RefusedError):
    """No such topic: a message to it would vanish."""


class DeniedError(RefusedError):
    """This process may not do that."""


class OversizedError(RefusedError):
    """A message is larger than the topic takes."""


class BusUnavailableError(Definite):
    """The bus did not answer a question; nothing was changed."""


class LostPartitionError(Definite):
    """The partition is read by somebody else now: drop what is in hand, its new owner gets it again."""


class Position(msgspec.Struct, frozen=True, order=True):
    """Where a message lies. `source` tells the writer's log where writers have logs of their own, else 0."""

    partition: int
    source: int
    offset: int


class Message(msgspec.Struct, frozen=True):
    """One message as received."""

    position: Position
    payload: bytes
    headers: tuple[tuple[str, bytes], ...] = ()  # empty where the bus has none


class Producer(Protocol):
    """Writes to topics."""

    async def publish(self, topic: str, messages: Sequence[tuple[int, bytes]]) -> list[Position]:
        """Append (partition, payload) pairs; the positions, in order, once all are durable."""
        ...

    async def healthy(self) -> None:
        """Confirm that a publish would be accepted now, or raise as `publish` would."""
        ...

    def backlog(self) -> int:
        """Messages this producer wrote that their consumers have not committed, as last known.

        Where writers share a log, what all of them wrote.
        """
        ...


class Consumer(Protocol):
    """Reads one partition of one topic for the one group that owns it."""

    async def receive(self, limit: int) -> list[Message]:
        """Up to `limit` messages after the working offset, which moves past them; [] when there are none now."""
        ...

    async def commit(self, positions: Sequence[Position]) -> None:
        """These are finished: durably move the committed offset of each source past the highest of them.

        Never past a message that was received and is not finished; it moves on once that is.
        """
        ...

    def uncommitted(self) -> dict[int, int]:
        """Source -> first offset that is not committed."""
        ...

    async def wait(self, seconds: float) -> None:
        """Return when there may be something to receive, at the latest after `seconds`."""
        ...

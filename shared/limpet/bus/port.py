"""The bus port: named topics of ordered logs. It carries facts, not commands.

Contract, for every adapter:

* `publish` returns only when the messages are durable, in order per (partition, source). A failed publish is unknown
  (`Indefinite`), never absent; publishing again may duplicate, so consumers are idempotent.
* A consumer has a *working* offset (next to deliver, in memory) and a *committed* offset (durable). After a restart it
  begins at the committed one: what was received and not committed comes again.
* `commit` is called last, with finished work only, and never moves backwards.
* A committed offset below the log's start is a `Gap`: messages were dropped unread. It is raised, never skipped.
* Nothing unread is dropped by retention.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from limpet.model.errors import Definite


class GapError(Definite):
    """The log no longer holds messages that this consumer has not read."""


class UnknownTopicError(Definite):
    """No such topic: a message to it would vanish."""


class Position(msgspec.Struct, frozen=True, order=True):
    """Where a message lies. `source` tells the writer's log where writers have logs of their own, else 0."""

    partition: int
    source: int
    offset: int


class Message(msgspec.Struct, frozen=True):
    """One message as received."""

    position: Position
    payload: bytes


class Producer(Protocol):
    """Writes to topics."""

    async def publish(self, topic: str, messages: Sequence[tuple[int, bytes]]) -> list[Position]:
        """Append (partition, payload) pairs; the positions, in order, once all are durable."""
        ...

    async def healthy(self) -> None:
        """Confirm that a publish would be accepted now, or raise as `publish` would."""
        ...

    def backlog(self) -> int:
        """Messages this producer wrote that their consumers have not committed, as last known."""
        ...


class Consumer(Protocol):
    """Reads one partition of one topic for the one group that owns it."""

    async def receive(self, limit: int) -> list[Message]:
        """Up to `limit` messages after the working offset, which moves past them; [] when there are none now."""
        ...

    async def commit(self, positions: Sequence[Position]) -> None:
        """Durably move the committed offset of each source past the highest of `positions`."""
        ...

    def uncommitted(self) -> dict[int, int]:
        """Source -> first offset that is not committed."""
        ...

    async def wait(self, seconds: float) -> None:
        """Return when there may be something to receive, at the latest after `seconds`."""
        ...

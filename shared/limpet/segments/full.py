"""Segments that are full: they get no more captures, and wait until what they hold has its outcomes."""

from collections.abc import Iterator
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from limpet.clock.port import Clock
from limpet.segments.settling import Settling

FULL_SEGMENTS_MAX: Final = 2
"""Full segments that wait for their seal; one more and the oldest that is settled is sealed at once."""

UNSETTLED_SEGMENTS_MAX: Final = 8
"""Full segments of which none is settled; one more and the oldest is left to recovery."""


class WriterLimits(msgspec.Struct, frozen=True, kw_only=True):
    """When a segment is full, and how much may wait to be written."""

    roll_bytes: int = 1_000_000_000
    roll_captures_max: int = 100_000  # bounds the index lines kept until the seal: about 25 MB
    queue_bytes_max: int = 33_554_432
    idle_seal_seconds: float = 3_600.0
    full_seal_seconds: float = 60.0  # until a full segment is sealed: time to complete what was appended last


class Full(Protocol):
    """A segment of a writer."""

    name: str
    size_bytes: int


S = TypeVar("S", bound=Full)


class FullSegments(Generic[S]):
    """The full segments of one writer, oldest first.

    `settling` tells which captures have their outcome; None: nobody keeps outcomes, and all are settled.
    """

    def __init__(self, clock: Clock, limits: WriterLimits, settling: Settling | None) -> None:
        self._clock = clock
        self._limits = limits
        self._settling = settling
        self._waiting: list[tuple[S, float]] = []  # and since when

    def __iter__(self) -> Iterator[S]:
        return iter([segment for segment, _ in self._waiting])

    def add(self, segment: S) -> None:
        """It is full from now on."""
        self._waiting.append((segment, self._clock.monotonic()))

    def pop(self) -> S | None:
        """The one whose wait is over; None when no wait is."""
        turn = self._turn()
        return None if turn is None else self._waiting.pop(turn)[0]

    def is_due(self) -> bool:
        """Whether `pop` has one."""
        return self._turn() is not None

    def pop_all(self) -> list[S]:
        """All of them, now."""
        waiting, self._waiting = self._waiting, []
        return [segment for segment, _ in waiting]

    def unsettled(self, segment: S) -> int | None:
        """Where the first capture lies that has no outcome; None when every one has."""
        if self._settling is None:
            return None
        mark = self._settling.mark(segment.name)
        return mark if mark < segment.size_bytes else None

    def _turn(self) -> int | None:
        if not self._waiting:
            return None
        if self._clock.monotonic() - self._waiting[0][1] >= self._limits.full_seal_seconds:
            return 0
        if len(self._waiting) > FULL_SEGMENTS_MAX:
            settled = (at for at, (segment, _) in enumerate(self._waiting) if self.unsettled(segment) is None)
            return next(settled, 0 if len(self._waiting) > UNSETTLED_SEGMENTS_MAX else None)
        return None

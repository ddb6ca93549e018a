"""What an answer says of its host, read again for the audit, and whether the process that got it can have kept it."""

from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec

from limpet.reconciler.audit_evidence import Evidence, Exchange, ExchangeKind

WAIT_STATUS: Final = frozenset({429, 503})
KEPT_US: Final = 10_000_000
"""What a process learnt so long before its last sign of life, it had made durable."""

_REFUSED: Final = frozenset({401, 403, 429})
_TRANSIENT: Final = frozenset({408, 425})


class Says(Enum):
    """What an exchange says of its host."""

    GOOD = "good"
    TRANSIENT = "transient failure"
    REFUSED = "refusal"
    NOTHING = "nothing"


def says(exchange: Exchange) -> Says:
    """By the rules of docs/politeness.md: robots.txt that is forbidden allows all, and refuses nothing."""
    status, robots = exchange.status, exchange.kind is ExchangeKind.ROBOTS
    if exchange.failure:
        return Says.GOOD if exchange.failure == "protocol" else Says.TRANSIENT  # it did answer, in another language
    if status in _REFUSED:
        return Says.NOTHING if robots and status != 429 else Says.REFUSED
    return Says.TRANSIENT if status >= 500 or status in _TRANSIENT else Says.GOOD


def permit_us(exchange: Exchange) -> int:
    """When the request was let go."""
    return exchange.start_us - exchange.connect_us


class Memory:
    """What a later process can know of what an earlier one was told.

    Its counts are durable together with an outcome; a robots.txt has none. A refusal may have got its outcome from the
    recovery that followed a death, which counts nothing.
    """

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._last_us: Mapping[int, int] = evidence.last_signs_us()
        self.begun_us = evidence.begun_us()

    def accepted(self, exchange: Exchange) -> bool:
        """Whether an answer that means trouble was accepted: a page's has an outcome, or nobody counted it."""
        if exchange.kind is ExchangeKind.PAGE:
            return self._evidence.is_accepted(exchange.url, exchange.start_us)
        return exchange.kind in {ExchangeKind.ROBOTS, ExchangeKind.FAILURE}

    def outlived(self, told: "Told", by: Exchange) -> bool:
        """Whether the process that sent `by` must know of what was told."""
        if told.incarnation in {0, by.incarnation}:
            return True
        return self._last_us.get(told.incarnation, 0) - told.end_us >= KEPT_US


class Told(msgspec.Struct, frozen=True):
    """An answer that means trouble. `incarnation` 0: whoever came later knew of it."""

    end_us: int
    incarnation: int
    robots: bool

    @classmethod
    def by(cls, exchange: Exchange) -> "Told":
        """What `exchange` told."""
        robots = exchange.kind is ExchangeKind.ROBOTS
        durable = not robots and exchange.status not in {401, 403}
        return cls(exchange.end_us, 0 if durable else exchange.incarnation, robots)

"""Was a host given its time? One request after the other, with the gap between them that rules and site ask for."""

from typing import Final

import msgspec

from limpet.config.settings import Politeness
from limpet.fetch.gate import Owned
from limpet.reconciler.audit_evidence import Exchange, ExchangeKind
from limpet.reconciler.kinds import AuditKind as Kind
from limpet.reconciler.report import Collector
from limpet.warc import warc_date

SLACK_US: Final = 5_000
"""Dates and durations are of two clocks, each rounded; waits are far longer."""

_LICENSED: Final = frozenset({ExchangeKind.PAGE, ExchangeKind.FAILURE})


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The politeness that was in force from `since_us` on; None: nobody knows any more what was."""

    politeness: Politeness
    since_us: int | None
    owned: Owned


class Gaps:
    """The requests to one host, in the order of time."""

    def __init__(self, rules: Rules, out: Collector) -> None:
        self._rules = rules
        self._owned = False
        self._out = out
        self._last: Exchange | None = None  # the one that ended last
        self._before: Exchange | None = None  # the one that began last
        self._waited_for: Exchange | None = None  # whose answer asked for the longest wait

    def check(self, exchange: Exchange, delay_us: int, *, owned: bool) -> None:
        """Judge one request; `delay_us` is the crawl-delay of the copy that licensed it, 0 = none."""
        self._owned = owned
        floor_us = self._floor_us(exchange)
        self._recorded(exchange, floor_us, delay_us)
        if self._last is not None:
            self._spacing(exchange, self._last, floor_us, delay_us)
        self._wait(exchange)
        self._remember(exchange)

    def _spacing(self, exchange: Exchange, last: Exchange, floor_us: int, delay_us: int) -> None:
        free_us = exchange.start_us - last.end_us
        demand_us = max(floor_us, exchange.gap_us, self._latency_us(exchange))
        if free_us < -SLACK_US:
            self._find(Kind.OVERLAP, exchange, f"began {-free_us / 1e6:.3f} s before the end of {_shown(last)}")
        elif free_us < delay_us - SLACK_US:
            detail = f"{free_us / 1e6:.3f} s after {_shown(last)}, crawl-delay is {delay_us / 1e6:g} s"
            self._find(Kind.CRAWL_DELAY_IGNORED, exchange, detail)
        elif free_us < demand_us - SLACK_US:
            detail = f"{free_us / 1e6:.3f} s after {_shown(last)}, at least {demand_us / 1e6:.3f} s are due"
            self._find(Kind.GAP_TOO_SHORT, exchange, detail)

    def _recorded(self, exchange: Exchange, floor_us: int, delay_us: int) -> None:
        if exchange.kind in _LICENSED and exchange.gap_us < max(floor_us, delay_us) - SLACK_US:
            detail = f"recorded {exchange.gap_us / 1e6:g} s, the rules demand {max(floor_us, delay_us) / 1e6:g} s"
            self._find(Kind.GAP_UNDERSTATED, exchange, detail)

    def _wait(self, exchange: Exchange) -> None:
        asked = self._waited_for
        if asked is not None and exchange.start_us < asked.until_us - SLACK_US:
            left = (asked.until_us - exchange.start_us) / 1e6
            self._find(Kind.RETRY_AFTER_IGNORED, exchange, f"{left:.3f} s before the end of what {_shown(asked)} asked")

    def _floor_us(self, exchange: Exchange) -> int:
        """The floor, where it is known: settings of earlier runs are not kept."""
        if self._owned:
            return 0
        if self._rules.since_us is None or exchange.start_us < self._rules.since_us:
            self._out.checked["floor_unknown"] += 1
            return 0
        return int(self._rules.politeness.floor_seconds * 1e6)

    def _latency_us(self, exchange: Exchange) -> int:
        """A slow host gets more time. A process knows the last response time of its own requests for sure."""
        before, rules = self._before, self._rules
        known = rules.since_us is not None and exchange.start_us >= rules.since_us
        if self._owned or before is None or not known or not 0 < before.incarnation == exchange.incarnation:
            return 0
        politeness = rules.politeness
        latency_us = (before.end_us - before.start_us) * politeness.latency_multiple
        return int(min(politeness.latency_gap_seconds_max * 1e6, latency_us))

    def _remember(self, exchange: Exchange) -> None:
        self._before = exchange
        if self._last is None or exchange.end_us >= self._last.end_us:
            self._last = exchange
        if exchange.until_us and (self._waited_for is None or exchange.until_us > self._waited_for.until_us):
            self._waited_for = exchange

    def _find(self, kind: Kind, exchange: Exchange, detail: str) -> None:
        where = exchange.where or "an outcome without a record"
        self._out.find(kind, exchange.url, f"at {warc_date(exchange.start_us)}: {detail} ({where})")


def _shown(exchange: Exchange) -> str:
    return f"{exchange.url} of {warc_date(exchange.start_us)}"

"""Was a host left alone after a 429 or 503 that named no time? Then our own rules do (docs/politeness.md).

A page: 30 s, doubled with each such answer in a row, up to an hour. robots.txt: five minutes, doubled up to a day. What
a Retry-After asks for is judged with the gaps.
"""

from typing import Final

from limpet.reconciler.audit_evidence import Evidence, Exchange, ExchangeKind
from limpet.reconciler.audit_troubles import WAIT_STATUS, Memory, Told, permit_us
from limpet.reconciler.kinds import AuditKind as Kind
from limpet.reconciler.report import Collector
from limpet.warc import warc_date

PAGE_US: Final = 30_000_000
PAGE_US_MAX: Final = 3_600_000_000
ROBOTS_US: Final = 300_000_000
ROBOTS_US_MAX: Final = 86_400_000_000
SLACK_US: Final = 5_000
_DOUBLINGS_MAX: Final = 10


class OwnWaits:
    """One host, its requests in the order of time."""

    def __init__(self, evidence: Evidence, memory: Memory, out: Collector) -> None:
        self._evidence = evidence
        self._memory = memory
        self._out = out
        self._row = 0  # pages in a row that were answered so
        self._robots_rows: dict[str, tuple[int, int]] = {}  # authority -> in a row, and the process that counts
        self._told: Told | None = None
        self._until_us = 0
        self._why = ""

    def check(self, exchange: Exchange) -> None:
        """Judge one request by the answers before it; learn from its own."""
        if self._told is not None and not self._memory.outlived(self._told, exchange):
            self._told, self._until_us = None, 0
        if permit_us(exchange) < self._until_us - SLACK_US:
            left = (self._until_us - exchange.start_us) / 1e6
            where = exchange.where or "an outcome without a record"
            detail = f"at {warc_date(exchange.start_us)}: {left:.1f} s too soon after {self._why} ({where})"
            self._out.find(Kind.OWN_WAIT_IGNORED, exchange.url, detail)
        waits = exchange.status in WAIT_STATUS
        if waits:
            self._hold(exchange, self._page_us(exchange), durable=True)  # at its headers
        if exchange.kind is ExchangeKind.ROBOTS:
            self._robots(exchange, waits=waits)
        elif exchange.kind is not ExchangeKind.CONTACT:
            self._row = self._row + self._memory.accepted(exchange) if waits else 0

    def _page_us(self, exchange: Exchange) -> int:
        if exchange.until_us > exchange.start_us:
            return 0  # it said how long
        return min(PAGE_US_MAX, PAGE_US << min(self._row, _DOUBLINGS_MAX))

    def _robots(self, exchange: Exchange, *, waits: bool) -> None:
        """Its wait is the whole host's. As a hop of another host's robots.txt it would be that host's."""
        if exchange.url != f"{exchange.authority}/robots.txt":
            return
        if not waits or self._evidence.is_redirected_to(exchange.url):
            self._robots_rows.pop(exchange.authority, None)
            return
        row, incarnation = self._robots_rows.get(exchange.authority, (0, exchange.incarnation))
        row = row if incarnation == exchange.incarnation else 0
        self._robots_rows[exchange.authority] = (row + 1, exchange.incarnation)
        wait_us = min(ROBOTS_US_MAX, ROBOTS_US << min(row, _DOUBLINGS_MAX))
        self._hold(exchange, wait_us, durable=False)

    def _hold(self, exchange: Exchange, wait_us: int, *, durable: bool) -> None:
        until_us = exchange.start_us + wait_us
        if until_us > self._until_us:
            self._told = Told(exchange.end_us, 0 if durable else exchange.incarnation, robots=False)
            self._until_us = until_us
            asked = f"status {exchange.status} of {exchange.url} at {warc_date(exchange.start_us)}"
            self._why = f"{asked}, which asks for {wait_us / 1e6:g} s"

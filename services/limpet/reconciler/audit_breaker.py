"""Was a host in trouble left alone? Counted again from the answers that the archive and the outcomes show.

Five transient failures in a row, or ten refusals, and nothing is sent for ten minutes, then one probe; each that fails
doubles that, up to a day (docs/politeness.md). What the archive cannot show is given away: a robots.txt that no answer
came for, a name that was not found, the share that chance adds, a host that may have been given up after a week.
"""

from typing import Final

from limpet.reconciler.audit_evidence import Exchange
from limpet.reconciler.audit_troubles import Memory, Says, Told, permit_us, says
from limpet.reconciler.kinds import AuditKind as Kind
from limpet.reconciler.report import Collector
from limpet.warc import warc_date

STREAKS: Final = {Says.TRANSIENT: 5, Says.REFUSED: 10}
OPEN_US: Final = 600_000_000
OPEN_US_MAX: Final = 86_400_000_000
GIVE_UP_US: Final = 7 * 86_400_000_000
STREAK_US_MAX: Final = 86_400_000_000
"""A longer streak may have a gap that nobody sees: the host given up, and its URLs let go again by the operator."""

KNOWN_US: Final = 10_000_000
"""An answer is judged a moment after it came: a failure of our own uplink looks the same at first."""

SLACK_US: Final = 5_000
_DOUBLINGS_MAX: Final = 8


class Breaker:
    """One host, its requests in the order of time."""

    def __init__(self, memory: Memory, out: Collector) -> None:
        self._memory = memory
        self._out = out
        self._sound_us = memory.begun_us  # no trouble is older
        self._streaks: dict[Says, list[Told]] = {kind: [] for kind in STREAKS}
        self._trips = 0
        self._opened: Told | None = None
        self._until_us = 0
        self._why = ""

    def check(self, exchange: Exchange) -> None:
        """Judge one request by the answers before it; learn from its own."""
        self._forget(exchange)
        if permit_us(exchange) >= self._until_us - SLACK_US:
            self._learn(exchange)
            return
        if self._opened is not None and permit_us(exchange) >= self._opened.end_us + KNOWN_US:
            left = (self._until_us - exchange.start_us) / 1e6
            where = exchange.where or "an outcome without a record"
            detail = f"at {warc_date(exchange.start_us)}: {left:.1f} s too soon after {self._why} ({where})"
            self._out.find(Kind.BREAKER_IGNORED, exchange.url, detail)
        if says(exchange) is Says.GOOD:
            self._learn(exchange)

    def _forget(self, exchange: Exchange) -> None:
        """What the process that sent `exchange` need not know, because another one died with it."""
        if self._opened is not None and not self._memory.outlived(self._opened, exchange):
            self._start_anew()
        for told in self._streaks.values():
            told[:] = [one for one in told if self._counts(one, exchange)]

    def _counts(self, told: Told, exchange: Exchange) -> bool:
        """A robots.txt alone makes a count durable only when it opens the breaker."""
        if told.robots and told.incarnation != exchange.incarnation:
            return False
        return exchange.start_us - told.end_us < STREAK_US_MAX and self._memory.outlived(told, exchange)

    def _learn(self, exchange: Exchange) -> None:
        said = says(exchange)
        if said is Says.GOOD:
            self._start_anew()
            self._sound_us = exchange.end_us
        elif said in STREAKS and self._memory.accepted(exchange):
            if exchange.end_us - self._sound_us >= GIVE_UP_US:
                self._start_anew()
                return
            self._streaks[said].append(Told.by(exchange))
            if self._trips or len(self._streaks[said]) >= STREAKS[said]:
                self._open(exchange, said)

    def _open(self, exchange: Exchange, said: Says) -> None:
        what = "a probe" if self._trips else f"{len(self._streaks[said])} in a row"
        self._until_us = exchange.end_us + min(OPEN_US_MAX, OPEN_US << min(self._trips, _DOUBLINGS_MAX))
        self._trips += 1
        self._opened = Told.by(exchange)
        self._why = f"the {said.value} of {exchange.url} at {warc_date(exchange.start_us)}, {what}"

    def _start_anew(self) -> None:
        self._trips = self._until_us = 0
        self._opened = None
        for told in self._streaks.values():
            told.clear()

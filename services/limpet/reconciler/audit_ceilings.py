"""What hosts share, kept within its ceilings: domains, platforms, addresses, the crawl's own rate and budget.

A request held a connection from the moment its permit was given, when its look-up and its connection began, to the end
of its answer; that moment is also its start. Both are read from the records. What a request held and no record tells
(a connection that failed before it was used) is left out: the judge may overlook, it never accuses falsely.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from limpet.config.settings import Politeness
from limpet.reconciler.audit_evidence import Evidence, Exchange, Held
from limpet.reconciler.audit_keys import Ceiling, address_ceiling, domain_of, network_of, platform_of
from limpet.reconciler.audit_ownership import Who
from limpet.reconciler.kinds import AuditKind as Kind
from limpet.reconciler.report import Collector
from limpet.warc import warc_date

SLACK_US: Final = 5_000
"""Dates and durations are of two clocks, each rounded."""

START_SLACK_US: Final = 250_000
"""How much sooner than its turn a start may show: a process can be held up between its permit and its first byte, and
the next one not. Less than one start, so that any rate above the ceiling is found within a second or two."""

CRAWL_BURST_US: Final = 1_000_000
CATCH_UP_FACTOR: Final = 1.5
DAY_US: Final = 86_400_000_000
TOLD_HOSTS: Final = 3
OPEN_MAX: Final = 4_096
_CRAWL: Final = "crawl"


class Ceilings:
    """Gathers what each request held, in a file; `judge` reads it key by key."""

    def __init__(self, policy: Politeness, since_us: int | None, evidence: Evidence, out: Collector) -> None:
        self._policy = policy
        self._since_us = since_us
        self._evidence = evidence
        self._out = out
        self._before: Counter[int] = Counter()  # requests of a day, older than the settings
        self._days: Counter[int] = Counter()
        self._domain, self._hosts = "", 0  # of the host at hand
        evidence.name_domains(domain_of)

    def take(self, exchange: Exchange, who: Who) -> None:
        """One request. What is older than the settings was sent under others, which nobody knows any more."""
        start_us = exchange.start_us - exchange.connect_us
        known = self._since_us is not None and start_us >= self._since_us
        if (start_us + START_SLACK_US) // DAY_US == (start_us - START_SLACK_US) // DAY_US:  # midnight is no one's
            (self._days if known else self._before)[start_us // DAY_US] += 1
        if known:
            for key in self._keys(exchange, who):
                self._evidence.hold(_held(key, start_us, exchange, who))

    def judge(self) -> None:
        """Everything was taken."""
        for key, helds in groupby(self._evidence.held(), key=lambda held: held.key):
            kind = key.partition(" ")[0]
            sweep = _Sweep(key, self._burst_us(kind), self._evidence, self._out)
            for held in _bound(helds) if kind == "domain" else helds:
                sweep.take(held, self._ceiling(kind, held.address))
            self._out.checked[f"ceilings_{kind}"] += 1
        self._budget()

    def _keys(self, exchange: Exchange, who: Who) -> Iterator[str]:
        domain, platform = domain_of(exchange.host), platform_of(exchange.host)
        if domain != self._domain:
            self._domain, self._hosts = domain, self._evidence.hosts_of(domain)
        if self._hosts > 1:
            yield f"domain {domain}"
        if platform and not who.frees_address:
            yield f"platform {platform}"
        network = network_of(exchange.address)
        if not network and not who.owned:
            self._out.checked["address_unknown"] += 1
        if network and not who.frees_address:
            yield f"address {network}"
        if self._policy.budget_per_day > 0:
            yield _CRAWL

    def _ceiling(self, kind: str, address: str) -> Ceiling:
        policy = self._policy
        if kind == "domain":
            return Ceiling(policy.domain_connections_max)
        if kind == "platform":
            return Ceiling(policy.platform_connections_max, policy.platform_starts_per_second_max)
        if kind == "address":
            return address_ceiling(address, policy)
        return Ceiling(0, policy.budget_per_day * CATCH_UP_FACTOR * 1e6 / DAY_US)

    @staticmethod
    def _burst_us(kind: str) -> int:
        return START_SLACK_US + (CRAWL_BURST_US if kind == _CRAWL else 0)

    def _budget(self) -> None:
        """What was sent before the settings may exceed them; what came after may not add to it."""
        budget = self._policy.budget_per_day
        for day, count in sorted(self._days.items()):
            total = count + self._before[day]
            if budget and total > budget:
                date = warc_date(day * DAY_US)[:10]
                self._out.find(Kind.BUDGET_EXCEEDED, date, f"{total:,} requests, the budget of a day is {budget:,}")


def _held(key: str, start_us: int, exchange: Exchange, who: Who) -> Held:
    return Held(key, start_us, exchange.end_us, who.owned, exchange.address, exchange.until_us, exchange.number)


def _bound(helds: Iterable[Held]) -> Iterator[Held]:
    """A domain whose every host is the operator's has no ceiling: it begins with the first host that is not."""
    met_stranger = False
    for held in helds:
        met_stranger = met_stranger or not held.owned
        if met_stranger:
            yield held


class _Sweep:
    """One key, its requests in the order of their starts."""

    def __init__(self, key: str, burst_us: int, evidence: Evidence, out: Collector) -> None:
        self._key = key
        self._evidence = evidence
        self._burst_us = burst_us
        self._out = out
        self._ceiling = Ceiling()
        self._is_first = True
        self._ends: list[int] = []  # of the requests under way
        self._turn_us = 0  # the next start is due then
        self._told: dict[str, tuple[int, int]] = {}  # host -> (from, until) of the three longest waits

    def take(self, held: Held, ceiling: Ceiling) -> None:
        self._ceiling = ceiling if self._is_first else self._ceiling.raised_to(ceiling)
        self._is_first = False
        self._connections(held)
        self._starts(held)
        if self._key.startswith("address "):
            self._told_to_wait(held)

    def _connections(self, held: Held) -> None:
        while self._ends and self._ends[0] <= held.start_us + SLACK_US:
            heapq.heappop(self._ends)
        most = self._ceiling.connections
        if most and len(self._ends) >= most:
            self._find(Kind.TOO_MANY_CONNECTIONS, held, f"connection {len(self._ends) + 1} of {most} allowed")
        if len(self._ends) < OPEN_MAX:
            heapq.heappush(self._ends, held.end_us)

    def _starts(self, held: Held) -> None:
        """A start counts against the next ones only if it was in its turn: each one out of turn is found by itself."""
        rate = self._ceiling.starts_per_second
        if not rate:
            return
        if held.start_us < self._turn_us - self._burst_us:
            early = (self._turn_us - held.start_us) / 1e6
            self._find(Kind.STARTS_TOO_CLOSE, held, f"{early:.3f} s before its turn at {rate:g} starts a second")
            return
        self._turn_us = max(self._turn_us, held.start_us) + int(1e6 / rate)

    def _told_to_wait(self, held: Held) -> None:
        start_us = held.start_us
        waiting = [host for host, (told_us, until_us) in self._told.items() if told_us < start_us < until_us - SLACK_US]
        if len(waiting) >= TOLD_HOSTS:
            self._find(Kind.ADDRESS_NOT_SPARED, held, f"{', '.join(sorted(waiting))} had been told to wait")
        if not held.until_us:
            return
        host = self._evidence.exchange(held.number).host
        if held.until_us > self._told.get(host, (0, 0))[1]:
            self._told[host] = (held.end_us + SLACK_US, held.until_us)
            if len(self._told) > TOLD_HOSTS:
                del self._told[min(self._told, key=lambda name: self._told[name][1])]

    def _find(self, kind: Kind, held: Held, detail: str) -> None:
        exchange = self._evidence.exchange(held.number)
        where = exchange.where or "an outcome without a record"
        self._out.find(kind, exchange.url, f"{self._key}: {detail}, at {warc_date(held.start_us)} ({where})")

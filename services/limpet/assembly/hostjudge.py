"""What holds a host back, as an onlooker may know it: from its rows, from orders, from what crawlers say of it.

The arithmetic is the governor's own: a governor of the onlooker's is fed from the rows and asked, so that what is shown
cannot drift from what is done.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from limpet.assembly.places import shard_of_host
from limpet.clock import Clock
from limpet.config import Facts, Settings
from limpet.fetch import Owned
from limpet.fetch.denylist import packed
from limpet.politeness import Governor, HostState
from limpet.politeness.orders import NO_ORDER, Orders
from limpet.robots import Oddity, RobotsState, oddity_of, stored_delay
from limpet.urlstore import HostRow

Reasons = Sequence[tuple[str, float]]
"""What a crawler says of a host: (reason, seconds it waits for it)."""

Served = tuple["Waiting", bytes]
"""One authority of a host, with the robots state that is stored of it."""

_ROBOTS: Final = msgspec.msgpack.Decoder(RobotsState)


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """One authority of a host: what is queued there, and what it waits for. `_us`: wall time, 0 = none.

    `queued` and `leased` None: nobody counted.
    """

    authority: str
    queued: int | None
    leased: int | None
    due_us: int
    wait_us: int
    wait_reason: str
    robots_oddity: Oddity | None = None  # why its robots.txt cannot be read as one


class HostNow(msgspec.Struct, frozen=True, kw_only=True):
    """One host. `next_us`: not asked before it; None = not before the operator lets it go on, or the crawl runs."""

    host: str
    shard: int
    urls: int
    queued: int | None
    leased: int | None
    gap_seconds: float
    gap_reason: str
    gaps: list[tuple[str, float]]
    next_us: int | None
    next_reason: str
    slow: bool
    order: str
    blocked_paths: list[str]
    ceilings: list[str]
    response_us: int
    breaker_trips: int
    authorities: list[Waiting]
    robots_oddities: list[Oddity]


class HostJudge:
    """Says what holds hosts back. Remembers each host it was asked about: for many, take a fresh one now and then."""

    def __init__(self, facts: Facts, orders: Orders, settings: Settings, clock: Clock) -> None:
        owned = Owned.parse(settings.owned)

        def owns_address(text: str) -> bool:
            address = packed(text)
            return address is not None and owned.covers_address(address)

        self._facts = facts
        self._orders = orders
        self._clock = clock
        self._governor = Governor(clock, settings.politeness, owned.covers_host, owns_address=owns_address)
        self._governor.obey(orders)
        self._read: dict[tuple[bytes, str], tuple[float, Oddity | None]] = {}

    def stranger(self, host: str) -> HostNow:
        """A host that was never met, and of which something is ordered."""
        return self.host(HostRow(host=host), [], None)

    def host(self, row: HostRow, found: Iterable[Served], told: tuple[int, Reasons] | None) -> HostNow:
        """A host that was met. `told`: when crawlers said what, None when nobody did."""
        state = self._governor.meet(row)
        authorities: list[Waiting] = []
        for one, robots in found:
            delay_seconds, oddity = self._robots(robots)
            self._governor.set_crawl_delay(state, delay_seconds)
            authorities.append(msgspec.structs.replace(one, robots_oddity=oddity))
        gaps = self._governor.gaps(state)
        next_us, reason = self._next(state, authorities, told)
        order = self._orders.get(row.host, NO_ORDER)
        return HostNow(
            host=row.host,
            shard=shard_of_host(row.host, self._facts),
            urls=row.urls,
            queued=_sum(one.queued for one in authorities),
            leased=_sum(one.leased for one in authorities),
            gap_seconds=gaps[0][1] if gaps else 0.0,
            gap_reason=gaps[0][0] if gaps else "none",
            gaps=gaps,
            next_us=next_us,
            next_reason=reason,
            slow=self._governor.is_slow(state) or order.gap_seconds > 0,
            order=order.told,
            blocked_paths=sorted(order.blocked_paths),
            ceilings=self._governor.ceilings(state),
            response_us=row.response_us,
            breaker_trips=row.trips,
            authorities=authorities,
            robots_oddities=sorted({one.robots_oddity for one in authorities if one.robots_oddity is not None}),
        )

    def _next(
        self, state: HostState, authorities: list[Waiting], told: tuple[int, Reasons] | None
    ) -> tuple[int | None, str]:
        """When the host may be asked, as far as anybody knows, and what decides."""
        if state.order.stopped:
            return None, state.order.stopped
        waits = [(state.row.wait_us, state.row.wait_reason)]
        queued = [one for one in authorities if one.queued] or authorities
        if queued:
            waits.append(min((one.wait_us, one.wait_reason) for one in queued))
        if told is not None:
            at_us, reasons = told
            gaps = {name for name, _ in self._governor.gaps(state)}
            waits += [(at_us + int(s * 1e6), name.removeprefix("wait: ")) for name, s in reasons if name not in gaps]
        next_us, reason = max(waits)
        now_us = self._clock.wall_us()
        return (next_us, reason) if next_us > now_us else (now_us, "")

    def _robots(self, robots: bytes) -> tuple[float, Oddity | None]:
        """Crawl-delay of a robots copy, and what is wrong with it. Many hosts serve the same file: read but once."""
        if not robots:
            return 0.0, None
        copy = _ROBOTS.decode(robots).copy
        if copy is None:
            return 0.0, None
        key = (hashlib.sha256(copy.body).digest(), copy.reason)
        if key not in self._read:
            delay = stored_delay(robots, self._facts.agent) or 0.0
            self._read[key] = (delay, oddity_of(copy.body, copy.reason))
        return self._read[key]


def _sum(counts: Iterable[int | None]) -> int | None:
    """Of what was counted; None when something was not."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total

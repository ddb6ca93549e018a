"""Every host of a crawl as an onlooker may know it: what the shards hold, the operator's orders, and, while the crawl
runs, what its workers say.

The arithmetic is the governor's own: a governor of the onlooker's is fed from the rows and asked, so that what is shown
cannot drift from what is done.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from limpet.assembly.places import shard_of_host
from limpet.clock import Clock
from limpet.config import Settings
from limpet.embedded.folder import Folder
from limpet.embedded.live import Listener, Reasons
from limpet.embedded.views import ShardViews
from limpet.fetch import Owned
from limpet.fetch.denylist import packed
from limpet.politeness import Governor, HostState
from limpet.politeness.orders import NO_ORDER, OPERATOR_SLOW, Orders
from limpet.robots import Oddity, RobotsState, oddity_of, stored_delay
from limpet.runtime.sqlitetx import Reader
from limpet.urlstore import HostRow
from limpet.urlstore.sqlite import reading
from limpet.urlstore.sqlite.dueindex import earliest

_ROBOTS: Final = msgspec.msgpack.Decoder(RobotsState)


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """One authority of a host: what is queued there, and what it waits for. `_us`: wall time, 0 = none."""

    authority: str
    queued: int
    leased: int
    due_us: int
    wait_us: int
    wait_reason: str
    robots_oddity: Oddity | None = None  # why its robots.txt cannot be read as one


class HostNow(msgspec.Struct, frozen=True, kw_only=True):
    """One host. `next_us`: not asked before it; None = not before the operator lets it go on, or the crawl runs."""

    host: str
    shard: int
    urls: int
    queued: int
    leased: int
    gap_seconds: float
    gap_reason: str
    gaps: list[tuple[str, float]]
    next_us: int | None
    next_reason: str
    slow: bool
    order: str
    ceilings: list[str]
    response_us: int
    breaker_trips: int
    authorities: list[Waiting]
    robots_oddities: list[Oddity]


class HostsView:
    """Built for one look."""

    def __init__(self, folder: Folder, views: ShardViews, orders: Orders, settings: Settings, clock: Clock) -> None:
        owned = Owned.parse(settings.owned)

        def owns_address(text: str) -> bool:
            address = packed(text)
            return address is not None and owned.covers_address(address)

        self._folder = folder
        self._views = views
        self._orders = orders
        self._clock = clock
        self._governor = Governor(clock, settings.politeness, owned.covers_host, owns_address=owns_address)
        self._governor.obey(orders)
        self._read: dict[tuple[bytes, str], tuple[float, Oddity | None]] = {}
        self.told: Callable[[], dict[str, tuple[int, Reasons]]] = self._ask

    def hosts(self, only: str | None = None) -> list[HostNow]:
        """Every host, or one; the busiest first. Hosts that were never met are among them when something is ordered of
        them. Memory: one record a host.
        """
        live = self.told()
        shards = range(self._folder.facts.shards) if only is None else [shard_of_host(only, self._folder.facts)]
        found = [host for shard in shards for host in self._shard(shard, only, live)]
        met = {host.host for host in found}
        ordered = self._orders if only is None else [host for host in [only] if host in self._orders]
        found += [self._stranger(host) for host in ordered if host not in met]
        return sorted(found, key=lambda host: (-host.queued, host.host))

    def _stranger(self, host: str) -> HostNow:
        return self._host(shard_of_host(host, self._folder.facts), HostRow(host=host), [], None)

    def _ask(self) -> dict[str, tuple[int, Reasons]]:
        return asyncio.run(Listener(self._folder.run, self._clock).ask())

    def _shard(self, shard: int, only: str | None, live: dict[str, tuple[int, Reasons]]) -> Iterator[HostNow]:
        def op(reader: Reader) -> tuple[list[HostRow], dict[str, list[tuple[Waiting, bytes]]]]:
            waiting: dict[str, list[tuple[Waiting, bytes]]] = {}
            for name, host, robots, wait_us, wait_reason, queued, leased, soon_us, new_us in reader.all(
                "authorities_now", (only or "",)
            ):
                one = Waiting(
                    authority=name,
                    queued=queued,
                    leased=leased,
                    due_us=earliest(soon_us, new_us) or 0,
                    wait_us=wait_us,
                    wait_reason=wait_reason,
                )
                waiting.setdefault(host, []).append((one, robots))
            rows = reading.hosts(reader) if only is None else [row for row in [reading.host(reader, only)] if row]
            return rows, waiting

        rows, waiting = self._views.read_one(shard, op)
        for row in rows:
            yield self._host(shard, row, waiting.get(row.host, []), live.get(row.host))

    def _host(
        self, shard: int, row: HostRow, found: list[tuple[Waiting, bytes]], told: tuple[int, Reasons] | None
    ) -> HostNow:
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
            shard=shard,
            urls=row.urls,
            queued=sum(one.queued for one in authorities),
            leased=sum(one.leased for one in authorities),
            gap_seconds=gaps[0][1] if gaps else 0.0,
            gap_reason=gaps[0][0] if gaps else "none",
            gaps=gaps,
            next_us=next_us,
            next_reason=reason,
            slow=self._governor.is_slow(state) or order.gap_seconds > 0,
            order=order.stopped or (OPERATOR_SLOW if order.gap_seconds else ""),
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
            delay = stored_delay(robots, self._folder.facts.agent) or 0.0
            self._read[key] = (delay, oddity_of(copy.body, copy.reason))
        return self._read[key]

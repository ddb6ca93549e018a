"""Every host of a crawl folder as an onlooker may know it: what the shards hold, the operator's orders, and, while the
crawl runs, what its workers say. See `limpet.assembly.hostjudge`.
"""

import asyncio
from collections.abc import Callable, Iterator

from limpet.assembly.hostjudge import HostJudge, HostNow, Served, Waiting
from limpet.assembly.places import shard_of_host
from limpet.clock import Clock
from limpet.config import Settings
from limpet.embedded.folder import Folder
from limpet.embedded.live import Listener, Reasons
from limpet.embedded.views import ShardViews
from limpet.politeness.orders import Orders
from limpet.runtime.sqlitetx import Reader
from limpet.urlstore import HostRow
from limpet.urlstore.sqlite import reading
from limpet.urlstore.sqlite.dueindex import earliest

__all__ = ["HostNow", "HostsView", "Waiting"]


class HostsView:
    """Built for one look."""

    def __init__(self, folder: Folder, views: ShardViews, orders: Orders, settings: Settings, clock: Clock) -> None:
        self._folder = folder
        self._views = views
        self._orders = orders
        self._clock = clock
        self._judge = HostJudge(folder.facts, orders, settings, clock)
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
        found += [self._judge.stranger(host) for host in ordered if host not in met]
        return sorted(found, key=lambda host: (-(host.queued or 0), host.host))

    def _ask(self) -> dict[str, tuple[int, Reasons]]:
        return asyncio.run(Listener(self._folder.run, self._clock).ask())

    def _shard(self, shard: int, only: str | None, live: dict[str, tuple[int, Reasons]]) -> Iterator[HostNow]:
        def op(reader: Reader) -> tuple[list[HostRow], dict[str, list[Served]]]:
            waiting: dict[str, list[Served]] = {}
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
            yield self._judge.host(row, waiting.get(row.host, []), live.get(row.host))

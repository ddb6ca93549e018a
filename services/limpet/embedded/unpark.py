"""A higher cap lets go what the lower one held back: before a run, while no worker runs.

Follows from the rows and the settings alone, so a death in the middle is made good by the next run.
"""

from collections import defaultdict
from typing import Final

from limpet.admission.rules import Rule
from limpet.clock import DurableClock
from limpet.config import Settings
from limpet.embedded.folder import Folder
from limpet.embedded.ports import Ports
from limpet.embedded.shards import Shard, Shards
from limpet.embedded.views import ShardViews
from limpet.model.lifecycle import State
from limpet.urlstore import UrlStore, counters

BATCH: Final = 1_000


async def unpark(folder: Folder, settings: Settings, ports: Ports) -> int:
    """Make URLs due that their host's cap held back and no longer does, first come, first served; their number."""
    holding = _holding(folder)
    if not holding:
        return 0
    clock = DurableClock(ports.clock)
    commits = ports.make_runner("commits")
    shards = Shards(folder, settings, ports, clock, commits)
    try:
        await shards.open(holding)
        return sum([await _shard(shard, settings, clock) for shard in shards.owned.values()])
    finally:
        await shards.close()
        commits.close()


def _holding(folder: Folder) -> frozenset[int]:
    """The shards with parked rows, by their counters: most crawls have none."""
    with ShardViews(folder) as views:
        return frozenset(shard for shard, view in views if view.counters().get(counters.of_state(State.PARKED), 0) > 0)


async def _shard(shard: Shard, settings: Settings, clock: DurableClock) -> int:
    fps = await _let_go(shard.store, settings.rules.host_urls_max)
    parts = [fps[begin : begin + BATCH] for begin in range(0, len(fps), BATCH)]
    return sum([await shard.store.rearm(part, clock.wall_us()) for part in parts])


async def _let_go(store: UrlStore, host_urls_max: int) -> list[bytes]:
    found: list[bytes] = []
    parked: dict[str, list[bytes]] = defaultdict(list)
    for row in await store.rows(State.PARKED):  # in the order of admission
        if row.reason == Rule.HOST_CAP.value:
            parked[row.host].append(row.fp)
    for host, held in parked.items():
        known = await store.host(host)
        free = host_urls_max - (known.urls if known is not None else 0) + len(held)
        found += held[: max(0, free)]
    return found

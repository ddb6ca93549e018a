"""Gaps in the logs of links on one machine: before a run, while no worker runs.

A log keeps what its readers did not commit, so a gap means that a shard file was put back from an older copy.
"""

from collections.abc import Awaitable, Callable

from limpet.assembly.places import shard_of_url
from limpet.bus import Position
from limpet.bus.sqlite import FIRST_OFFSET
from limpet.clock import DurableClock
from limpet.config import Settings
from limpet.embedded.folder import Folder
from limpet.embedded.ports import Ports
from limpet.embedded.shards import Shards
from limpet.embedded.views import ShardViews
from limpet.model.events import LINKS_DISCOVERED
from limpet.reconciler.gaps import Gap, GapMender


async def mend_gaps(folder: Folder, settings: Settings, ports: Ports) -> int:
    """Parse again what published links that were dropped unread; the number of documents."""
    gaps = gaps_of(folder)
    if not gaps:
        return 0
    clock = DurableClock(ports.clock)
    commits = ports.make_runner("commits")
    shards = Shards(folder, settings, ports, clock, commits)
    try:
        await shards.open(range(folder.facts.shards))
        await shards.attach()
        stores = {number: shard.store for number, shard in shards.owned.items()}
        mender = GapMender(
            holders=stores.values(),
            store_of=lambda url: stores[shard_of_url(url, folder.facts)],
            crawl=folder.facts.crawl,
            clock=clock,
            mortality=ports.mortality,
        )
        return sum([await mender.mend(gap, stores[gap.partition], _passing(shards, gap)) for gap in gaps])
    finally:
        await shards.close()
        commits.close()


def _passing(shards: Shards, gap: Gap) -> Callable[[], Awaitable[None]]:
    consumer = shards.links_consumer(gap.partition)
    return lambda: consumer.commit([Position(gap.partition, gap.source, gap.end - 1)])


def gaps_of(folder: Folder) -> list[Gap]:
    """Where a log begins behind what its reader has committed."""
    with ShardViews(folder) as views:
        starts = {source: view.log_start(LINKS_DISCOVERED) for source, view in views}
        read = {shard: view.committed(LINKS_DISCOVERED).get(shard, {}) for shard, view in views}
    return [
        Gap(partition=shard, source=source, begin=begin, end=starts[source][shard])
        for shard in sorted(read)
        for source in sorted(starts)
        if (begin := read[shard].get(source, FIRST_OFFSET)) < starts[source].get(shard, FIRST_OFFSET)
    ]

"""`limpet rebuild-seen`: seen marks are derived, and made again from the rows, while the crawl goes on."""

import argparse
import asyncio

from limpet.cli.printing import print_json, print_lines
from limpet.cli.units import show_count
from limpet.clock import DurableClock, SystemClock
from limpet.cluster.remote import open_remote
from limpet.cluster.settings import ClusterSettings, load_cluster_settings
from limpet.model.errors import UsageError
from limpet.runtime import SystemRandom, ThreadRunner


def rebuild_seen(arguments: argparse.Namespace) -> int:
    """Mark the rows of all shards, or of one, in their seen shards."""
    settings = load_cluster_settings(arguments.config)
    shards = settings.crawl.shards
    if arguments.shard is not None and not 0 <= arguments.shard < shards:
        raise UsageError(f"--shard {arguments.shard}: this crawl has shards 0 to {shards - 1}")
    wanted = range(shards) if arguments.shard is None else [arguments.shard]
    marked = asyncio.run(_rebuild(settings, list(wanted)))
    if arguments.json:
        print_json({"marked": {str(shard): count for shard, count in marked.items()}})
    else:
        print_lines(f"shard {shard:02d}: {show_count(count, 'row')} marked" for shard, count in marked.items())
    return 0


async def _rebuild(settings: ClusterSettings, shards: list[int]) -> dict[int, int]:
    clock, runner = DurableClock(SystemClock()), ThreadRunner("receipts")
    try:
        async with open_remote(settings, clock, SystemRandom()) as crawl:
            return {shard: await crawl.rebuild_seen(shard, runner) for shard in shards}
    finally:
        runner.close()

"""Seeds given by the user become rows of their shards, while nobody owns these."""

import asyncio
from collections.abc import Sequence

from limpet.assembly.desks import SeedReport, seed_shard, sum_of
from limpet.assembly.places import shard_of_url
from limpet.clock import DurableClock
from limpet.config import Settings
from limpet.embedded.folder import Folder
from limpet.embedded.ports import Ports
from limpet.embedded.shards import Shards


async def admit_seeds(folder: Folder, settings: Settings, ports: Ports, urls: Sequence[str]) -> SeedReport:
    """Admit canonical `urls` as seeds; creates shard files that do not exist. Must not run while a worker does."""
    clock = DurableClock(ports.clock)
    commits = ports.make_runner("commits")
    shards = Shards(folder, settings, ports, clock, commits)
    by_shard: dict[int, list[str]] = {}
    for url in urls:
        by_shard.setdefault(shard_of_url(url, folder.facts), []).append(url)
    try:
        await shards.open(by_shard)
        work = [
            seed_shard(shards.owned[number].store, folder.facts, settings, clock, found, one_commit=True)
            for number, found in by_shard.items()
        ]
        reports = await asyncio.gather(*work)
    finally:
        await shards.close()
        commits.close()
    return sum_of(reports)

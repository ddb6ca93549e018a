"""What a cluster's rows say, read as any process would."""

import asyncio
from pathlib import Path

from limpet.clock import SystemClock
from limpet.cluster.settings import load_cluster_settings
from limpet.cluster.stores import open_store
from limpet.runtime import SystemRandom
from limpet.urlstore.cassandra import Session


def states_of(config: Path) -> dict[str, str]:
    """URL -> state."""

    async def read() -> dict[str, str]:
        settings = load_cluster_settings(config)
        session = await Session.open(settings.cassandra)
        try:
            found: dict[str, str] = {}
            for shard in range(settings.crawl.shards):
                rows = await open_store(session, shard, SystemClock(), SystemRandom()).rows()
                found |= {row.url: row.state.value for row in rows}
            return found
        finally:
            await session.close()

    return asyncio.run(read())

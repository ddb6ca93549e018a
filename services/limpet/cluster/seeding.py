"""`limpet add --config`: seeds become durable rows through the same judge as on one machine, whoever else is at work.

Scope first, then the row: an admission that calls a link off scope reads the seeds anew. An owner of the shard hears of
the row from the store.
"""

import asyncio
from collections.abc import Callable, Sequence

from limpet.assembly.desks import SeedReport, seed_shard, sum_of
from limpet.assembly.places import shard_of_url
from limpet.clock import DurableClock
from limpet.cluster.facts import read_facts
from limpet.cluster.settings import ClusterSettings, process_settings
from limpet.cluster.stores import open_store
from limpet.cluster.tables import CassandraFacts
from limpet.config import Facts
from limpet.runtime import Random
from limpet.urlstore.cassandra import Session


async def admit_seeds(
    settings: ClusterSettings,
    urls: Sequence[str],
    clock: DurableClock,
    rng: Random,
    check: Callable[[Facts], None],
) -> SeedReport:
    """Admit canonical `urls`; `check` may refuse them once the facts are known. Raises `LimpetError`."""
    session = await Session.open(settings.cassandra)
    try:
        facts = await read_facts(CassandraFacts(session), settings, clock, rng)
        check(facts)
        by_shard: dict[int, list[str]] = {}
        for url in urls:
            by_shard.setdefault(shard_of_url(url, facts), []).append(url)
        process = process_settings(settings)
        work = [
            seed_shard(open_store(session, shard, clock, rng), facts, process, clock, found)
            for shard, found in by_shard.items()
        ]
        return sum_of(await asyncio.gather(*work))
    finally:
        await session.close()

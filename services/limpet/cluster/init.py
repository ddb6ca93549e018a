"""`limpet init`: lays a crawl out on the servers. It may be run again, by anybody, at any time.

In order: keyspace and tables · facts, written once · topics · the folder on HDFS · a look at the seen shards. What is
there as wanted is left alone; what is there and is otherwise is refused, naming both, and nothing after it is touched.
"""

import msgspec

from limpet.bus.kafka import KafkaBus
from limpet.clock import Clock
from limpet.cluster.facts import write_facts
from limpet.cluster.seen import checked_seen
from limpet.cluster.settings import ClusterSettings
from limpet.cluster.tables import CassandraFacts
from limpet.cluster.topics import topics_of
from limpet.config import Facts
from limpet.model.errors import CannotGoOn
from limpet.runtime import Random
from limpet.segments.hdfs import Hdfs, HdfsFault
from limpet.segments.hdfs.native import NativeHdfs
from limpet.urlstore.cassandra import Session, migrate


class InitReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was done now; empty tuples when all was there."""

    crawl: str
    migrations: tuple[str, ...]
    topics: tuple[str, ...]
    shards: int
    seen_shards: int


async def init(settings: ClusterSettings, clock: Clock, rng: Random) -> InitReport:
    """Lay the crawl out. Raises `UsageError` for what is otherwise, `LimpetError` for a server that is away."""
    done = await migrate(settings.cassandra, clock)
    session = await Session.open(settings.cassandra)
    try:
        facts = await write_facts(CassandraFacts(session), settings, clock, rng)
    finally:
        await session.close()
    created = await _topics(settings, clock)
    await make_root(NativeHdfs(settings.hdfs), settings.hdfs.root)
    return InitReport(
        crawl=facts.crawl,
        migrations=tuple(done),
        topics=tuple(created),
        shards=facts.shards,
        seen_shards=await _seen(settings, facts, clock),
    )


async def _topics(settings: ClusterSettings, clock: Clock) -> list[str]:
    bus = KafkaBus(settings.kafka, clock, min_insync=settings.kafka.min_insync)
    try:
        return await bus.topics.ensure(topics_of(settings))
    finally:
        await bus.close()


async def make_root(hdfs: Hdfs, root: str) -> None:
    """Make the folder of the segments, and see that HDFS takes writes."""
    try:
        await hdfs.mkdirs(root)
    except HdfsFault as error:
        raise CannotGoOn(f"HDFS does not make {root}: {error}") from error
    finally:
        await hdfs.close()


async def _seen(settings: ClusterSettings, facts: Facts, clock: Clock) -> int:
    """How many seen shards are fit. The first that is not is a `UsageError`, one that is away `SeenUnavailable`."""
    if settings.cluster.seen != "redis":
        return 0
    await checked_seen(settings, facts, clock)
    return facts.shards

"""The seen shards of a crawl, as its configuration has them."""

import asyncio
from collections.abc import Sequence

from limpet.clock import Clock
from limpet.cluster.settings import ClusterSettings
from limpet.config import Facts
from limpet.receipts import Receipt, Recorder
from limpet.seen import SeenShard
from limpet.seen.redis import Address, Layout, RedisSeen


class NoSeen:
    """See `SeenShard`: nothing is ever marked, so every link asks for its row."""

    async def present(self, fps: Sequence[bytes]) -> list[bool]:
        """See `SeenShard.present`."""
        return [False] * len(fps)

    async def mark(self, fps: Sequence[bytes]) -> None:
        """See `SeenShard.mark`."""

    async def clear(self) -> None:
        """See `SeenShard.clear`."""

    async def close(self) -> None:
        """See `SeenShard.close`."""


class NoLog:
    """See `ReceiptLog`: keeps nothing. For looks at servers, which change nothing."""

    async def keep(self, receipt: Receipt) -> None:
        """See `ReceiptLog.keep`."""

    async def kept(self) -> list[Receipt]:
        """See `ReceiptLog.kept`."""
        return []

    async def close(self) -> None:
        """See `ReceiptLog.close`."""


def seen_shard(
    settings: ClusterSettings, facts: Facts, shard: int, *, clock: Clock, incarnation: str, recorder: Recorder
) -> SeenShard:
    """One shard; it connects at the first use."""
    if settings.cluster.seen != "redis":
        return NoSeen()
    return redis_shard(settings, facts, shard, clock=clock, incarnation=incarnation, recorder=recorder)


def redis_shard(
    settings: ClusterSettings, facts: Facts, shard: int, *, clock: Clock, incarnation: str, recorder: Recorder
) -> RedisSeen:
    """One shard on its server."""
    return RedisSeen(
        Address.parse(settings.seen.addresses[shard]),
        shard,
        Layout(facts.seen_capacity, facts.shards),
        crawl=facts.crawl,
        epoch=settings.seen.epoch,
        incarnation=incarnation,
        recorder=recorder,
        clock=clock,
    )


async def checked_seen(settings: ClusterSettings, facts: Facts, clock: Clock) -> None:
    """Connect to every shard and look at its server. Raises `UsageError`, `SeenUnavailable`."""
    recorder = Recorder(NoLog())
    shards = [
        redis_shard(settings, facts, shard, clock=clock, incarnation="init", recorder=recorder)
        for shard in range(facts.shards)
    ]
    try:
        await asyncio.gather(*(shard.check() for shard in shards))
    finally:
        await asyncio.gather(*(shard.close() for shard in shards))

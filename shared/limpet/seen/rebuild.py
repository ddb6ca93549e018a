"""Fill a seen shard again from the rows, while the crawl goes on."""

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Final

from limpet.seen.port import SeenShard

BATCH: Final = 2048


async def rebuild(shard: SeenShard, fps: Iterable[bytes] | AsyncIterable[bytes], *, batch: int = BATCH) -> int:
    """Mark every fingerprint of `fps`, which come from rows; how many there were.

    It clears nothing: what is marked has a row. A wiped shard needs only this. Where marks may lack their rows (the
    store was restored from a copy), begin a new epoch or `clear` first. Batches are awaited one by one, so that the
    shard's other work gets its turn. Raises `SeenUnavailable` like `mark`; running it again is harmless.
    """
    count = 0
    pending: list[bytes] = []
    async for fp in _each(fps):
        pending.append(fp)
        if len(pending) >= batch:
            await shard.mark(pending)
            count, pending = count + len(pending), []
    await shard.mark(pending)
    return count + len(pending)


async def _each(fps: Iterable[bytes] | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    if isinstance(fps, AsyncIterable):
        async for fp in fps:
            yield fp
    else:
        for fp in fps:
            yield fp

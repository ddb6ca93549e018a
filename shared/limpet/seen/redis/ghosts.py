"""Marks without rows (*ghost seen*): each would be a lost URL, since admission passes over what is marked."""

from collections.abc import Iterable

from limpet.seen.redis.shard import RedisSeen


async def ghosts(shard: RedisSeen, fps: Iterable[bytes], sets: range | None = None) -> list[tuple[int, int]]:
    """(set, member) of every mark that belongs to none of `fps`, the fingerprints of all rows of the shard.

    The marks are read first and `fps` is drawn from afterwards: a mark follows its row, so an iterator over the rows of
    that moment explains every mark, and the crawl may go on. `sets` narrows the look to some sets, as few as memory
    asks for: of `fps` only what falls into them is kept. Raises `SeenUnavailable`.
    """
    looked_at = range(shard.layout.sets) if sets is None else sets
    found = [(number, member) async for number, members in shard.marks(looked_at) for member in members]
    if not found:
        return []
    known = {place for fp in fps for place in shard.layout.places([fp]) if place[0] in looked_at}
    return [place for place in found if place not in known]

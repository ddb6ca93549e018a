"""Counters of a shard and of the whole crawl, from what the last sweeps counted and from the totals of each writer.

Gauges are snapshots, dated: they say what the sweeps met, piece by piece. Totals only grow, so that the larger of a
recount and of the writers' own sums is the better answer: a recount knows nothing of what came since, the sums nothing
of what a dead writer had not flushed.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from limpet.urlstore import counters
from limpet.urlstore.cassandra import codec
from limpet.urlstore.cassandra.guarded import each
from limpet.urlstore.cassandra.ledger import Totals
from limpet.urlstore.cassandra.session import Row, Session

LISTED: Final = -1
"""Beside the pieces: what is counted by listing it, such as jobs."""

PIECES_MAX: Final = 65_535


class Snapshot(NamedTuple):
    """Counts, and when the pass began that the oldest of them is from (0 = nothing was swept whole yet)."""

    counts: dict[str, int]
    at_us: int


def piece_key(piece: int, pieces: int) -> int:
    """How a snapshot names its piece: parts of a ring that was cut otherwise must not be added to it."""
    return pieces * (PIECES_MAX + 1) + piece


def summed(rows: Sequence[Row]) -> Snapshot:
    """The snapshots of a shard together. Of a ring that was cut in two ways, those of the way that was used last."""
    pieces = [row for row in rows if row["piece"] != LISTED]
    last = max(pieces, key=lambda row: (row["at_us"], row["piece"]), default=None)
    counted = [row for row in pieces if last and row["piece"] >> 16 == last["piece"] >> 16]
    counts: Counter[str] = Counter()
    for row in [*counted, *(row for row in rows if row["piece"] == LISTED)]:
        counts.update(codec.numbers(row["data"]))
    return Snapshot(dict(counts), min((row["began_us"] for row in counted), default=0))


async def snapshot(session: Session, shard: int) -> Snapshot:
    """What the last whole sweep of each piece counted of a shard."""
    return summed(await session.run("snapshots_of", shard=shard))


def merged(counted: dict[str, int], totals: dict[str, int]) -> dict[str, int]:
    """Gauges as counted; of a total, the larger."""
    grown = {name: max(counted.get(name, 0), count) for name, count in totals.items() if name in counters.TOTALS}
    return counted | grown


async def counters_of(session: Session, shard: int, totals: Totals) -> dict[str, int]:
    """See `UrlStore.counters`."""
    return merged((await snapshot(session, shard)).counts, await totals.all())


async def status(session: Session, shards: Iterable[int]) -> Snapshot:
    """The sums over all shards, and when the oldest part was counted; two small reads a shard."""

    async def of(shard: int) -> Snapshot:
        counted = await snapshot(session, shard)
        total: Counter[str] = Counter()
        for row in await session.run("tallies", shard=shard):
            total.update(codec.numbers(row["data"]))
        return Snapshot(merged(counted.counts, dict(total)), counted.at_us)

    found = await each(shards, of)
    sums: Counter[str] = Counter()
    for one in found:
        sums.update(one.counts)
    return Snapshot(dict(sums), min((one.at_us for one in found if one.at_us), default=0))

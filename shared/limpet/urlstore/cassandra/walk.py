"""The whole keyspace, read once in the order of the token ring, a page at a time: for listings over all shards.

Its length is that of the keyspace, its memory that of a page. What moves while a walk goes on is met once, as it was
before or as it is after.
"""

from collections.abc import AsyncIterator, Collection, Iterable

from limpet.model.lifecycle import State
from limpet.urlstore.cassandra.rows import clash_row, complete, url_row
from limpet.urlstore.cassandra.session import Session
from limpet.urlstore.cassandra.view import RING
from limpet.urlstore.types import UrlRow


async def walk_rows(
    session: Session, shards: Iterable[int], states: Collection[State] | None = None
) -> AsyncIterator[list[UrlRow]]:
    """Every row, or those of some states; clashing candidates of `shards` come last, as rows in review."""
    async for page in session.pages("url_scan", low=RING[0], high=RING[1]):
        yield [url_row(row) for row in page if complete(row) and (states is None or row["state"] in states)]
    if states is None or State.REVIEW in states:
        for shard in shards:
            async for page in session.pages("clashes", shard=shard):
                yield [clash_row(row["candidate"], row["admitted_us"]) for row in page]

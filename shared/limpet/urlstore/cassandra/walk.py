"""The whole keyspace, read once in the order of the token ring, a page at a time: for listings over all shards.

Its length is that of the keyspace, its memory that of a page. What moves while a walk goes on is met once, as it was
before or as it is after.
"""

from collections.abc import AsyncIterator, Collection, Iterable
from typing import NamedTuple

from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.urlstore.cassandra.rows import clash_row, complete, outcome, url_row
from limpet.urlstore.cassandra.session import Row, Session
from limpet.urlstore.cassandra.surveying import by_url
from limpet.urlstore.cassandra.view import RING
from limpet.urlstore.types import UrlRow


class Fetched(NamedTuple):
    """A row with its outcomes, oldest first, and the state that each gave it."""

    row: UrlRow
    outcomes: tuple[tuple[Outcome, State], ...]


async def walk_rows(
    session: Session, shards: Iterable[int], states: Collection[State] | None = None
) -> AsyncIterator[list[UrlRow]]:
    """Every row, or those of some states; clashing candidates of `shards` come last, as rows in review."""
    async for page in session.pages("url_scan", low=RING[0], high=RING[1]):
        yield [url_row(row) for row in page if complete(row) and (states is None or row["state"] in states)]
    if states is None or State.REVIEW in states:
        async for found in _clashes(session, shards):
            yield found


async def walk_fetched(session: Session, shards: Iterable[int]) -> AsyncIterator[list[Fetched]]:
    """Every row with its outcomes; clashing candidates of `shards` come last, with none."""
    rest: list[Row] = []
    async for page in session.pages("fetched_scan", low=RING[0], high=RING[1]):
        rows = rest + page
        last = rows[-1]["fp"] if rows else b""
        rest = [row for row in rows if row["fp"] == last]  # the next page may go on with it
        yield [_fetched(one) for one in by_url(row for row in rows if row["fp"] != last)]
    yield [_fetched(one) for one in by_url(rest)]
    async for found in _clashes(session, shards):
        yield [Fetched(row, ()) for row in found]


async def _clashes(session: Session, shards: Iterable[int]) -> AsyncIterator[list[UrlRow]]:
    for shard in shards:
        async for page in session.pages("clashes", shard=shard):
            yield [clash_row(row["candidate"], row["admitted_us"]) for row in page]


def _fetched(rows: list[Row]) -> Fetched:
    found = [(outcome(row["outcome"]), State(row["ended"])) for row in rows if row["fetched_us"] is not None]
    return Fetched(url_row(rows[0]), tuple(found))

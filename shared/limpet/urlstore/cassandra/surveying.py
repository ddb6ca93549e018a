"""What a sweep makes of the rows it reads. Pure: no store, no clock."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from limpet.model.lifecycle import State
from limpet.urlstore import counters
from limpet.urlstore.cassandra.jobs import DONE, OPEN
from limpet.urlstore.cassandra.parse import DEPTH_NONE
from limpet.urlstore.cassandra.rows import complete, outcome, way
from limpet.urlstore.cassandra.session import Row
from limpet.urlstore.types import leads_on

RING_MIN: Final = -(2**63)
RING: Final = 2**64

Counts = dict[int, Counter[str]]
"""By shard, then by the names of `limpet.urlstore.counters`."""


class Document(NamedTuple):
    """A document of a URL that needs something."""

    shard: int
    fp: bytes
    fetched_us: int


class Outdated(NamedTuple):
    """An output whose links say a greater depth than the row now has, and that no job is going to replace."""

    document: Document
    version: int
    depth: int


class Waiting(NamedTuple):
    """An open job, and when somebody should look at it."""

    document: Document
    at_us: int


def piece_of_ring(piece: int, pieces: int) -> tuple[int, int]:
    """The tokens of a piece: after the first, up to and with the second."""
    return RING_MIN + piece * RING // pieces, min(RING_MIN + (piece + 1) * RING // pieces, -RING_MIN - 1)


def by_url(rows: Iterable[Row]) -> list[list[Row]]:
    """Rows that follow each other, together by URL; what is no row yet (an outcome or a way alone) left out."""
    groups: dict[bytes, list[Row]] = {}
    for row in rows:
        if complete(row):
            groups.setdefault(row["fp"], []).append(row)
    return list(groups.values())


def count(urls: Iterable[Sequence[Row]], counts: Counts) -> None:
    """Add what these rows are to the counts of their shards."""
    for rows in urls:
        total = counts.setdefault(rows[0]["shard"], Counter())
        total[counters.of_state(State(rows[0]["state"]))] += 1
        total[counters.ADMITTED] += 1
        pages = 0
        for row in rows:
            if row["fetched_us"] is None:
                continue
            one = outcome(row["outcome"])
            total[counters.OUTCOMES] += 1
            total[counters.BYTES] += one.wire_bytes
            total[counters.RECORDS] += one.location is not None
            pages += one.page and row["ended"] == State.FETCHED
        total[counters.PAGES] += bool(pages)


def unparsed(rows: Sequence[Row], parsed: Sequence[Row], version: int) -> list[tuple[Document, int]]:
    """Fetched outcomes of a URL with neither an output of that version nor a job; when each was completed."""
    seen = {
        row["fetched_us"]
        for row in parsed
        if (row["version"] == version and row["depth"] != DEPTH_NONE) or (row["version"] < 0 and row["state"] != DONE)
    }
    return [
        (Document(row["shard"], row["fp"], row["fetched_us"]), row["completed_us"])
        for row in rows
        if row["ended"] == State.FETCHED and row["fetched_us"] not in seen
    ]


def outdated(rows: Sequence[Row], parsed: Sequence[Row]) -> list[Outdated]:
    """What death left between an output and the question whether its row had come nearer meanwhile."""
    come = way(rows[0])
    if not leads_on(come.hops):
        return []
    replaced = {row["fetched_us"] for row in parsed if row["version"] < 0 and row["state"] != DONE}
    return [
        Outdated(Document(rows[0]["shard"], row["fp"], row["fetched_us"]), row["version"], row["depth"])
        for row in parsed
        if row["version"] >= 0 and come.depth < row["depth"] < DEPTH_NONE and row["fetched_us"] not in replaced
    ]


def waiting_jobs(rows: Sequence[Row], parsed: Sequence[Row]) -> list[Waiting]:
    """Open jobs of a URL."""
    shard = rows[0]["shard"]
    return [
        Waiting(Document(shard, row["fp"], row["fetched_us"]), max(row["due_us"], row["lease_us"]))
        for row in parsed
        if row["version"] < 0 and row["state"] == OPEN
    ]


def plain(counts: Mapping[int, Mapping[str, int]]) -> dict[int, dict[str, int]]:
    """Counts as they are stored."""
    return {shard: dict(names) for shard, names in counts.items()}

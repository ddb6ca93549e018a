"""How a row, its outcomes and clashing candidates lie in table `url`, and which entry of the due index is a row's."""

from typing import Any, Final, NamedTuple

import msgspec

from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.urlstore.cassandra.session import Row
from limpet.urlstore.types import Candidate, UrlRow

NOBODY: Final = b""
"""The token of a row that is not leased."""
NO_ENTRY: Final = -1
"""The position of a row that is not in the due index."""
DEPTH_MAX: Final = 65_535
CLASH: Final = "clash"

_ENCODER: Final = msgspec.msgpack.Encoder()
_OUTCOME: Final = msgspec.msgpack.Decoder(Outcome)
_CANDIDATE: Final = msgspec.msgpack.Decoder(Candidate)


class Way(msgspec.Struct, frozen=True, array_like=True):
    """How a URL was come by: one cell, so that it is never half of one way and half of another."""

    depth: int
    hops: str
    kind: str
    via: bytes
    seed: bool


_WAY: Final = msgspec.msgpack.Decoder(Way)


class Entry(NamedTuple):
    """One entry of the due index. Entries of a lane are ordered by position, then fingerprint."""

    lane: int
    at_us: int
    fp: bytes


def encode(record: Outcome | Candidate | Way) -> bytes:
    """A record as one value. Raises ValueError for text that is none."""
    return _ENCODER.encode(record)


def outcome(data: bytes) -> Outcome:
    """An outcome as stored."""
    return _OUTCOME.decode(data)


def candidate(data: bytes) -> Candidate:
    """A clashing candidate as stored."""
    return _CANDIDATE.decode(data)


def way(row: Row) -> Way:
    """The way by which a row was come by."""
    return _WAY.decode(row["way"])


def way_of(one: Candidate) -> Way:
    """The way by which a candidate was come by."""
    return Way(one.depth, one.hops, one.kind, one.via, one.seed)


def rank(depth: int) -> int:
    """The timestamp of a way: the nearer, the later; always before any guarded write."""
    return 1 + DEPTH_MAX - min(max(depth, 0), DEPTH_MAX)


def complete(row: Row | None) -> bool:
    """Whether there is a row: an outcome alone, or a way alone, makes none."""
    return row is not None and None not in {row["key"], row["way"]}


def waits(row: Row) -> bool:
    """Whether the row can be claimed at its due time."""
    return bool(row["state"] == State.DUE or (row["state"] == State.FETCHED and row["due_us"] > 0))


def is_at(row: Row, entry: Entry) -> bool:
    """Whether the entry is the one that the row names."""
    return bool(row["entry_us"] == entry.at_us and row["lane"] == entry.lane)


def url_row(row: Row) -> UrlRow:
    """A row as the port shows it."""
    come = way(row)
    return UrlRow(
        fp=row["fp"],
        key=row["key"],
        url=row["url"],
        host=row["host"],
        authority=row["authority"],
        state=State(row["state"]),
        reason=row["reason"],
        due_us=row["due_us"],
        depth=come.depth,
        hops=come.hops,
        kind=come.kind,
        seed=come.seed,
        via=come.via,
        failures=row["failures"],
        interruptions=row["interruptions"],
        alone=row["alone"],
        token=row["claim"],
        lease_us=row["lease_us"],
        holder=row["holder"],
        latest_us=row["latest_us"],
        admitted_us=row["admitted_us"],
    )


def clash_row(data: bytes, admitted_us: int) -> UrlRow:
    """A clashing candidate as the row in review that it is."""
    one = candidate(data)
    return UrlRow(
        fp=one.fp,
        key=one.key,
        url=one.url,
        host=one.host,
        authority=one.authority,
        state=State.REVIEW,
        reason=CLASH,
        due_us=0,
        depth=one.depth,
        hops=one.hops,
        kind=one.kind,
        seed=one.seed,
        via=one.via,
        failures=0,
        interruptions=0,
        alone=False,
        token=NOBODY,
        lease_us=0,
        holder="",
        latest_us=0,
        admitted_us=admitted_us,
    )


def discovery_cells(one: Candidate, shard: int, state: State, at_us: int, now_us: int) -> dict[str, Any]:
    """The parameters of query `url_discover`; `at_us`: its position in the due index."""
    return {
        "fp": one.fp,
        "key": one.key,
        "url": one.url,
        "host": one.host,
        "authority": one.authority,
        "shard": shard,
        "admitted_us": now_us,
        "state": state.value,
        "reason": one.cancelled or one.parked,
        "due_us": one.due_us,
        "lane": 1,
        "entry_us": at_us,
    }


def way_cells(one: Candidate) -> dict[str, Any]:
    """The parameters of query `url_nearer`."""
    return {"fp": one.fp, "way": encode(way_of(one)), "rank": rank(one.depth)}

"""What a sweep makes of rows, without a server."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.model.outcome import Outcome
from limpet.segments import Location
from limpet.urlstore.cassandra import codec, surveying
from limpet.urlstore.cassandra.parse import DEPTH_NONE
from limpet.urlstore.cassandra.rows import Way, encode
from limpet.urlstore.cassandra.snapshots import LISTED, merged, piece_key, summed
from limpet.urlstore.cassandra.surveying import Document, Outdated, Waiting

FP = b"f" * 16


def row(**changes: Any) -> dict[str, Any]:
    """A fetched row with one outcome, as `sweep_rows` shows it."""
    depth, hops = changes.pop("depth", 2), changes.pop("hops", "LL")
    one = Outcome(fp=FP, fetched_us=10, url="u", status=200, wire_bytes=7, location=Location("s", 0, 1))
    values: dict[str, Any] = {
        "fp": FP,
        "key": "k",
        "shard": 3,
        "way": encode(Way(depth, hops, "navigation", b"", False)),
        "state": "fetched",
        "fetched_us": 10,
        "outcome": encode(one),
        "ended": "fetched",
        "completed_us": 20,
    }
    return values | changes


def parsed(**changes: Any) -> dict[str, Any]:
    """An output of version 1, as `parse_scan` shows it."""
    values: dict[str, Any] = {
        "fp": FP,
        "fetched_us": 10,
        "version": 1,
        "depth": 2,
        "due_us": None,
        "lease_us": None,
        "state": None,
    }
    return values | changes


def open_job(**changes: Any) -> dict[str, Any]:
    """A job of the same document."""
    return parsed(version=-1, depth=None, due_us=5, lease_us=9, state="open") | changes


@given(pieces=st.integers(1, 4096))
def test_pieces_cover_the_ring_without_gap_or_overlap(pieces: int) -> None:
    """From the token that no key has, up to and with the last one."""
    found = [surveying.piece_of_ring(piece, pieces) for piece in range(pieces)]
    assert found[0][0] == -(2**63)
    assert found[-1][1] == 2**63 - 1
    assert all(one[1] == other[0] for one, other in pairwise(found))
    assert all(low < high for low, high in found)


def test_rows_are_counted_by_shard_once_however_many_outcomes_they_have() -> None:
    """A page counts once; what is no page, or did not end as fetched, is an outcome only."""
    redirect = encode(Outcome(fp=FP, fetched_us=11, url="u", status=301, page=False, wire_bytes=1))
    rows = [row(), row(fetched_us=11, outcome=redirect), row(fetched_us=12, ended="due", outcome=redirect)]
    bare = row(fp=b"g" * 16, shard=4, state="due", fetched_us=None, outcome=None, ended=None)
    counts: surveying.Counts = {}
    surveying.count(surveying.by_url([*rows, bare]), counts)
    assert counts[3] == {
        "state.fetched": 1,
        "admitted": 1,
        "outcomes": 3,
        "bytes": 9,
        "records": 1,
        "pages": 1,
    }
    assert {name: count for name, count in counts[4].items() if count} == {"state.due": 1, "admitted": 1}


def test_what_is_no_row_yet_is_not_counted() -> None:
    """An outcome, or a way, whose row has not been written."""
    assert surveying.by_url([row(key=None), row(way=None)]) == []


@pytest.mark.parametrize(
    ("known", "missed"),
    [
        ([], True),
        ([parsed()], False),
        ([parsed(version=2)], True),
        ([parsed(depth=DEPTH_NONE)], True),
        ([parsed(fetched_us=9)], True),
        ([open_job()], False),
        ([open_job(state="review")], False),
        ([open_job(state="done")], True),
    ],
)
def test_an_outcome_is_unparsed_without_output_and_without_job(known: list[dict[str, Any]], missed: bool) -> None:
    """Of the version that runs; an output that was taken back, and a job that ended, are none."""
    found = surveying.unparsed([row(), row(fetched_us=11, ended="gone")], known, 1)
    assert found == ([(Document(3, FP, 10), 20)] if missed else [])


def test_an_output_is_outdated_when_its_row_is_nearer_and_no_job_will_replace_it() -> None:
    """Only where links of the row are followed; one that was taken back stays so."""
    known = [
        parsed(depth=3),
        parsed(depth=2, version=2),
        parsed(depth=DEPTH_NONE, version=3),
        parsed(depth=0, version=4),
    ]
    assert surveying.outdated([row()], known) == [Outdated(Document(3, FP, 10), 1, 3)]
    assert surveying.outdated([row()], [*known, open_job()]) == []
    assert surveying.outdated([row()], [*known, open_job(state="done")]) != []
    assert surveying.outdated([row(hops="LE")], known) == []


def test_open_jobs_wait_for_the_later_of_due_time_and_lease() -> None:
    """What is in review or done waits for nobody."""
    jobs = [open_job(), open_job(due_us=50), open_job(state="review"), open_job(state="done"), parsed()]
    assert [one.at_us for one in surveying.waiting_jobs([row()], jobs)] == [9, 50]
    assert surveying.waiting_jobs([row()], jobs)[0] == Waiting(Document(3, FP, 10), 9)


def _snapshot(piece: int, at_us: int, **counts: int) -> dict[str, Any]:
    return {"piece": piece, "at_us": at_us, "began_us": at_us - 10, "data": codec.encode(counts)}


def test_pieces_of_a_ring_that_was_cut_in_two_ways_are_not_added_up() -> None:
    """The way that was used last counts; what is listed counts beside it, and does not make anything younger."""
    rows = [
        _snapshot(piece_key(0, 2), 100, a=1),
        _snapshot(piece_key(1, 2), 300, a=2),
        _snapshot(piece_key(0, 1), 200, a=50),
        _snapshot(LISTED, 50, jobs_open=4),
    ]
    assert summed(rows) == ({"a": 3, "jobs_open": 4}, 90)
    assert summed([rows[0], rows[2]]) == ({"a": 50}, 190)
    assert summed([]) == ({}, 0)


def test_of_a_total_the_larger_is_told_and_of_a_gauge_what_was_counted() -> None:
    """A recount misses what came since, the writers' sums what a dead one had not flushed."""
    counted = {"state.due": 3, "admitted": 10, "outcomes": 4}
    totals = {"admitted": 9, "outcomes": 6, "claims": 2, "state.due": 99}
    assert merged(counted, totals) == {"state.due": 3, "admitted": 10, "outcomes": 6, "claims": 2}


@given(st.text(max_size=3), st.integers(0, 9_000))
def test_what_stands_in_a_key_is_bounded_text_and_the_same_for_the_same(begin: str, length: int) -> None:
    """Whatever a page says, in whatever bytes; what differs only behind the bound still differs."""
    text = begin + "é" * length
    found = codec.clipped(text)
    assert len(found.encode()) <= codec.KEY_BYTES_MAX
    assert codec.clipped(text) == found
    assert (found == text) == (len(text.encode()) <= codec.KEY_BYTES_MAX)
    assert codec.clipped(text + "é" * 9_000) != codec.clipped(text + "é" * 9_001)


def test_records_are_one_cell_each() -> None:
    """They come back as they were stored."""
    counts = {3: {"a": 1}, 4: {"b": 2}}
    assert codec.by_shard(codec.encode(counts)) == counts
    assert codec.texts(codec.encode(["a", "é"])) == ["a", "é"]
    with pytest.raises(msgspec.DecodeError):
        codec.numbers(b"\xc1")

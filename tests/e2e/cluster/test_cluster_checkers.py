"""The checkers of the cluster can fail: in sound evidence each anomaly is planted, and found by its name."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from e2e.cluster.checkers import anomalies, without_outcome
from e2e.cluster.evidence import Announced, Evidence, Lag, Marks, Parse
from e2e.cluster.made_evidence import sound

PAGE = "http://127.0.1.1:8080/page/3.html"
Plant = Callable[[Evidence], Evidence]


def test_a_sound_crawl_has_no_anomaly() -> None:
    """Nothing is found where nothing is wrong."""
    evidence = sound()
    assert {record.status for record in evidence.records} >= {200, 301, 302, 404, 410}
    assert anomalies(evidence) == []


def changed_row(evidence: Evidence, url: str = PAGE, **changes: object) -> Evidence:
    """One row is otherwise."""
    assert any(row.url == url for row in evidence.rows)
    return replace(evidence, rows=[replace(row, **changes) if row.url == url else row for row in evidence.rows])  # type: ignore[arg-type] # the fields are named by the tests


def changed_fact(evidence: Evidence, **changes: object) -> Evidence:
    """One outcome is otherwise."""
    return replace(evidence, facts=[replace(fact, **changes) if fact.url == PAGE else fact for fact in evidence.facts])  # type: ignore[arg-type] # the fields are named by the tests


def without_row(evidence: Evidence) -> Evidence:
    return replace(evidence, rows=[row for row in evidence.rows if row.url != PAGE])


def two_rows(evidence: Evidence) -> Evidence:
    return replace(evidence, rows=[*evidence.rows, replace(evidence.rows[0], fp=b"x" * 16)])


def without_record(evidence: Evidence) -> Evidence:
    return replace(evidence, records=[record for record in evidence.records if record.url != PAGE])


def other_record(evidence: Evidence, **changes: object) -> Evidence:
    records = [replace(one, **changes) if one.url == PAGE else one for one in evidence.records]  # type: ignore[arg-type] # the fields are named by the tests
    return replace(evidence, records=records)


def without_fact(evidence: Evidence) -> Evidence:
    return replace(evidence, facts=[fact for fact in evidence.facts if fact.url != PAGE])


def row_of_something_else(evidence: Evidence) -> Evidence:
    return replace(evidence, rows=[*evidence.rows, replace(evidence.rows[0], url="http://127.0.1.1/else")])


def fact_twice(evidence: Evidence, later_us: int = 1) -> Evidence:
    again = next(fact for fact in evidence.facts if fact.url == PAGE)
    return replace(evidence, facts=[*evidence.facts, replace(again, fetched_us=again.fetched_us + later_us)])


def stray_mark(evidence: Evidence) -> Evidence:
    first, *rest = evidence.marks
    return replace(evidence, marks=[Marks(first.shard, first.sets, first.members | {(0, 12)}), *rest])


def exchanged_marks(evidence: Evidence) -> Evidence:
    full = sorted((marks for marks in evidence.marks), key=lambda marks: -len(marks.members))
    one, other, *rest = full
    return replace(evidence, marks=[replace(one, members=other.members), replace(other, members=one.members), *rest])


def unread(evidence: Evidence) -> Evidence:
    return replace(evidence, lags=[*evidence.lags, Lag("links.discovered", 3, 9, 10)])


def unparsed(evidence: Evidence) -> Evidence:
    return replace(evidence, parses=evidence.parses[1:])


def stuck_job(evidence: Evidence) -> Evidence:
    first, *rest = evidence.parses
    return replace(evidence, parses=[Parse(first.fp, first.fetched_us, accepted=False, job="review"), *rest])


def rumour(evidence: Evidence, place: tuple[str, int, int] = ("nowhere", 0, 1)) -> Evidence:
    return replace(evidence, announced=[*evidence.announced, Announced(PAGE, 1, place)])


def with_copy(evidence: Evidence, **changes: Any) -> Evidence:
    """The record of a page is there twice; the second is otherwise."""
    one = next(record for record in evidence.records if record.url == PAGE)
    return replace(evidence, records=[*evidence.records, replace(one, segment="limpet-1-00002-b.warc.gz", **changes)])


def asked_again(evidence: Evidence) -> Evidence:
    """The page was asked twice, and has one outcome."""
    visit = next(visit for visit in evidence.visits if visit.url == PAGE)
    return replace(evidence, visits=[*evidence.visits, visit])


def test_a_capture_that_was_appended_again_is_no_orphan() -> None:
    """One request in two segments, one outcome: the answer of an append was lost. It is counted, and loses nothing."""
    twice = with_copy(sound())
    assert anomalies(twice) == []
    assert [record.url for record in without_outcome(twice)] == [PAGE]


PLANTS: list[tuple[str, Plant]] = [
    ("lost URL: .* has no row", without_row),
    ("lost URL: .* is failed", lambda evidence: changed_row(evidence, state="failed")),
    ("lost URL: .* was never parsed", unparsed),
    ("invented URL: .* has 2 rows", two_rows),
    ("invented URL: http://127.0.1.1/else", row_of_something_else),
    ("unfinished: .* leased by", lambda evidence: changed_row(evidence, state="leased")),
    ("unfinished: .* leased by", lambda evidence: changed_row(evidence, token=b"t")),
    ("unfinished: .* due at", lambda evidence: changed_row(evidence, state="parked")),
    ("unfinished: .* due at 5", lambda evidence: changed_row(evidence, due_us=5)),
    ("unfinished: .* is read up to", unread),
    ("unfinished: the parse job", stuck_job),
    ("unfinished: 1 dead letters", lambda evidence: replace(evidence, dead_letters=1)),
    ("unfinished: repair", lambda evidence: replace(evidence, troubles=("repair of something",))),
    ("ghost seen: .* without a row", without_row),
    ("ghost seen: .* without a row", stray_mark),
    ("ghost seen: .* without a row", exchanged_marks),
    ("phantom fetch: .* has no whole record", without_record),
    ("phantom fetch: .* is of .*x,", lambda evidence: other_record(evidence, url=PAGE + "x")),
    ("phantom fetch: .* is of .*, 5,", lambda evidence: other_record(evidence, date_us=5)),
    ("phantom fetch: .* is of .*, 206", lambda evidence: other_record(evidence, status=206)),
    ("phantom fetch: .* another digest", lambda evidence: other_record(evidence, payload_sha256="0" * 64)),
    ("phantom fetch: .* not what the site gives", lambda evidence: other_record(evidence, body_sha256="0" * 64)),
    ("phantom fetch: .* is fetched without a record", lambda evidence: changed_fact(evidence, place=None)),
    ("phantom fetch: .* was announced", rumour),
    ("phantom fetch: .* was announced", lambda evidence: rumour(evidence, place=evidence.announced[0].place)),
    ("double acceptance: 2 outcomes of the record", fact_twice),
    (r"double acceptance: 2 outcomes \(b", lambda evidence: fact_twice(evidence, later_us=0)),
    ("double acceptance: .* was sent 0 times", lambda evidence: replace(evidence, visits=evidence.visits[1:])),
    ("stale overwrite: .* points to 1", lambda evidence: changed_row(evidence, latest_us=1)),
    ("stale overwrite: .* have no row", without_row),
    ("orphan record: .*3.html of", without_fact),
    ("orphan record: .* of 5", lambda evidence: with_copy(evidence, date_us=5)),
    ("orphan record: .* of 5", lambda evidence: with_copy(asked_again(evidence), date_us=5)),
    ("orphan record: .*3.html of", lambda evidence: with_copy(evidence, payload_sha256="0" * 64)),
    ("orphan record: .*3.htmlx", lambda evidence: with_copy(evidence, url=PAGE + "x")),
    ("orphan record: some ends in 7", lambda evidence: replace(evidence, torn={"some": 7})),
    ("orphan record: some was never sealed", lambda evidence: replace(evidence, unsealed=["some"])),
]


@pytest.mark.parametrize(("found", "plant"), PLANTS)
def test_every_anomaly_is_found(found: str, plant: Plant) -> None:
    """A checker that cannot fail proves nothing: every rule of every checker speaks up."""
    assert any(re.match(found, anomaly) for anomaly in anomalies(plant(sound())))

"""The checkers of the cluster can fail: in sound evidence each anomaly is planted, and found by its name."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from e2e.cluster.checkers import anomalies, names
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


def fact_twice(evidence: Evidence) -> Evidence:
    again = next(fact for fact in evidence.facts if fact.url == PAGE)
    return replace(evidence, facts=[*evidence.facts, replace(again, fetched_us=again.fetched_us + 1)])


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


def rumour(evidence: Evidence) -> Evidence:
    return replace(evidence, announced=[*evidence.announced, Announced(PAGE, 1, ("nowhere", 0, 1))])


def test_a_superfluous_record_is_no_orphan() -> None:
    """Two requests, one outcome, two records: the second completion came too late, and nothing is lost by it."""
    evidence = sound()
    one = next(record for record in evidence.records if record.url == PAGE)
    visit = next(visit for visit in evidence.visits if visit.url == PAGE)
    twice = replace(evidence, records=[*evidence.records, replace(one, offset=1, date_us=one.date_us - 1)])
    assert names(anomalies(twice)) == {"orphan record"}
    assert anomalies(replace(twice, visits=[*evidence.visits, visit])) == []


PLANTS: list[tuple[str, Plant]] = [
    ("lost URL", without_row),
    ("lost URL", lambda evidence: changed_row(evidence, state="failed")),
    ("lost URL", unparsed),
    ("invented URL", two_rows),
    ("unfinished", lambda evidence: changed_row(evidence, state="leased")),
    ("unfinished", lambda evidence: changed_row(evidence, token=b"t")),
    ("unfinished", lambda evidence: changed_row(evidence, due_us=5)),
    ("unfinished", unread),
    ("unfinished", stuck_job),
    ("unfinished", lambda evidence: replace(evidence, dead_letters=1)),
    ("unfinished", lambda evidence: replace(evidence, troubles=("repair of something",))),
    ("ghost seen", without_row),
    ("ghost seen", stray_mark),
    ("ghost seen", exchanged_marks),
    ("phantom fetch", without_record),
    ("phantom fetch", rumour),
    ("phantom fetch", lambda evidence: other_record(evidence, url=PAGE + "x")),
    ("phantom fetch", lambda evidence: other_record(evidence, payload_sha256="0" * 64)),
    ("phantom fetch", lambda evidence: other_record(evidence, body_sha256="0" * 64)),
    ("phantom fetch", lambda evidence: changed_fact(evidence, place=None)),
    ("double acceptance", fact_twice),
    ("double acceptance", lambda evidence: replace(evidence, visits=evidence.visits[1:])),
    ("stale overwrite", lambda evidence: changed_row(evidence, latest_us=1)),
    ("stale overwrite", without_row),
    ("orphan record", without_fact),
    ("orphan record", lambda evidence: replace(evidence, torn={"some": 7})),
    ("orphan record", lambda evidence: replace(evidence, unsealed=["some"])),
]


@pytest.mark.parametrize(("name", "plant"), PLANTS)
def test_every_anomaly_is_found(name: str, plant: Plant) -> None:
    """A checker that cannot fail proves nothing."""
    assert name in names(anomalies(plant(sound())))

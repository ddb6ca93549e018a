"""The checkers can fail: in the evidence of a sound crawl each anomaly is planted, and found by its name."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from crash.checkers import anomalies, names
from crash.evidence import Death, Evidence, members
from crash.rehearsal import Rehearsal
from crash.witness import Visit
from crash.world import small_web

SECOND_US = 1_000_000
ONE = "http://alpha.test/one"


@pytest.fixture(scope="module")
def sound() -> Iterator[Evidence]:
    """What a crawl without a fault leaves behind."""
    with Rehearsal.of(small_web()) as rehearsal:
        assert rehearsal.live().ending == "done"
        evidence = rehearsal.evidence()
        assert anomalies(evidence) == []
        yield evidence


@pytest.fixture
def evidence(sound: Evidence, tmp_path: Path) -> Evidence:
    """A copy that a test may spoil."""
    return replace(
        sound,
        shard_files=[copied(path, tmp_path / f"shard-{path.name}") for path in sound.shard_files],
        seen_files=[copied(path, tmp_path / f"seen-{path.name}") for path in sound.seen_files],
        archive=dict(sound.archive),
        visits=[replace_visit(visit) for visit in sound.visits],
        deaths=list(sound.deaths),
    )


def copied(path: Path, target: Path) -> Path:
    """A SQLite file that was closed, copied."""
    shutil.copyfile(path, target)
    return target


def replace_visit(visit: Visit, **changes: int | None) -> Visit:
    """A visit with some fields changed."""
    values = {name: getattr(visit, name) for name in visit.__struct_fields__} | changes
    return Visit(**values)


def run(paths: list[Path], sql: str) -> None:
    """Change what the files say, where they say it."""
    for path in paths:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(sql)
            connection.commit()


def spoil(sql: str) -> Callable[[Evidence], Evidence]:
    """Change the shards."""

    def change(evidence: Evidence) -> Evidence:
        run(evidence.shard_files, sql)
        return evidence

    return change


def mark_a_stranger(evidence: Evidence) -> Evidence:
    """A mark that no row belongs to."""
    run(evidence.seen_files[:1], "INSERT INTO seen (fp) VALUES (zeroblob(16))")
    return evidence


def lose_segments(evidence: Evidence) -> Evidence:
    """The archive is empty."""
    return replace(evidence, archive={})


def lose_the_last_record(evidence: Evidence) -> Evidence:
    """The segment ends in the middle of its last response."""
    archive = {name: data[:-1_300] if name.endswith(".gz") else data for name, data in evidence.archive.items()}
    return replace(evidence, archive=archive)


def reopen_segments(evidence: Evidence) -> Evidence:
    """Segments as a writer leaves them that was not recovered."""
    return replace(evidence, archive={f"{name}.open": data for name, data in evidence.archive.items()})


def repeat_a_record(evidence: Evidence) -> Evidence:
    """The last response of a segment once more, with no outcome of its own place."""
    name, data = next(iter(evidence.segments.items()))
    *_, (offset, length, _) = [member for member in members(data) if b"\r\nWARC-Type: response" in member[2][:60]]
    later = data[offset : offset + length]
    return replace(evidence, archive={**evidence.archive, name: data + later})


def another_death(evidence: Evidence) -> Evidence:
    """A death in the middle of the first page, which then was asked for again at once."""
    visits = evidence.visits
    first = next(visit for visit in visits if visit.url == "http://alpha.test/")
    open_visit = replace_visit(first, end_us=None, start_us=first.start_us - 2 * SECOND_US)
    death = Death(first.start_us - SECOND_US, {}, frozenset(), {}, {first.url: 1})
    return replace(evidence, visits=[*visits, open_visit], deaths=[death])


def one_more(url: str, seconds: float) -> Callable[[Evidence], Evidence]:
    """One more request, so long after the first one of that URL began."""

    def change(evidence: Evidence) -> Evidence:
        first = next(visit for visit in evidence.visits if visit.url == url)
        start_us = first.start_us + int(seconds * SECOND_US)
        return replace(
            evidence, visits=[*evidence.visits, replace_visit(first, start_us=start_us, end_us=start_us + 1)]
        )

    return change


def unasked_robots(evidence: Evidence) -> Evidence:
    """robots.txt was never fetched."""
    return replace(evidence, visits=[visit for visit in evidence.visits if not visit.url.endswith("/robots.txt")])


def sent_what_is_forbidden(evidence: Evidence) -> Evidence:
    """A disallowed URL was sent, long after everything else."""
    last = evidence.visits[-1]
    start_us = last.start_us + 100 * SECOND_US
    url = "http://alpha.test/private/x"
    visit = Visit(host="alpha.test", url=url, start_us=start_us, open_before=0, end_us=start_us + 1, status=200)
    return replace(evidence, visits=[*evidence.visits, visit])


def second_connection(evidence: Evidence) -> Evidence:
    """A request while another one was open."""
    return replace(evidence, visits=[replace_visit(visit, open_before=1) for visit in evidence.visits])


PLANTED: list[tuple[str, Callable[[Evidence], Evidence]]] = [
    ("lost URL", spoil("DELETE FROM url WHERE url = 'http://alpha.test/one'")),
    ("lost URL", spoil("UPDATE url SET state = 0 WHERE url = 'http://alpha.test/one'")),
    ("lost URL", spoil("INSERT INTO lease SELECT fp, id, authority, x'00', 1, 0, '' FROM url LIMIT 1")),
    ("lost URL", spoil("DELETE FROM output")),
    ("lost URL", spoil("UPDATE consumed SET next = 1")),
    ("lost URL", spoil("DELETE FROM reject")),
    ("lost URL", spoil("INSERT INTO job SELECT fp, 1, x'', 2, 1, '', x'', 0, 'open' FROM url LIMIT 1")),
    ("invented URL", spoil("UPDATE url SET url = url || '?' WHERE state = 3")),
    ("miscount", spoil("UPDATE counter SET totals = '{}'")),
    ("untold", spoil("UPDATE url SET state = 5")),
    ("phantom fetch", lose_segments),
    ("phantom fetch", lose_the_last_record),
    ("phantom fetch", spoil("DELETE FROM outcome")),
    ("phantom fetch", spoil("UPDATE outcome SET url = (SELECT max(id) FROM url)")),
    ("double acceptance", spoil("UPDATE outcome SET state = 2")),
    ("stale overwrite", spoil("UPDATE url SET latest_us = latest_us - 1")),
    ("orphan record", spoil("DELETE FROM outcome WHERE url IN (SELECT id FROM url WHERE url LIKE '%/one')")),
    ("orphan record", lose_the_last_record),
    ("orphan record", reopen_segments),
    ("orphan record", repeat_a_record),
    ("unlogged robots.txt", spoil("DELETE FROM robots_fetch")),
    ("phantom line", lose_segments),
    ("miscount", spoil("UPDATE day SET requests = requests + 1")),
    ("ghost seen", mark_a_stranger),
    ("too many requests", one_more(ONE, 50.0)),
    ("impolite fetch", one_more(ONE, 0.5)),
    ("impolite fetch", one_more("http://alpha.test/busy", 9.0)),
    ("impolite fetch", one_more("http://beta.test/deep", 1.5)),
    ("impolite fetch", second_connection),
    ("impolite fetch", another_death),
    ("unlicensed fetch", unasked_robots),
    ("unlicensed fetch", sent_what_is_forbidden),
]


@pytest.mark.parametrize(("name", "plant"), PLANTED, ids=[f"{name} {place}" for place, (name, _) in enumerate(PLANTED)])
def test_a_planted_anomaly_is_found(name: str, plant: Callable[[Evidence], Evidence], evidence: Evidence) -> None:
    """Each checker names what was planted."""
    assert name in names(anomalies(plant(evidence)))

"""`audit` over hosts in trouble: the breaker and the waits of our own, kept, broken, and not to be told."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from integration.checks.test_audit_planted import judged, page
from integration.crawl_maker import Sent, answer, make_crawl, robots
from integration.planting import kinds, run_sql, shard_with
from limpet.reconciler.audit import audit
from limpet.reconciler.audit_answers import marker
from limpet.reconciler.report import Report

DAY = 86_400.0
ROBOTS = "http://a.test/robots.txt"
FORBIDDEN, BROKEN, BUSY = answer(403), answer(500), answer(503)


def row(wire: bytes, count: int, first: float, apart: float = 2.0, **changes: object) -> list[Sent]:
    """Pages of a.test that are answered alike."""
    return [page(first + number * apart, f"/{first:g}-{number}", wire=wire, **changes) for number in range(count)]


def found(report: Report) -> list[tuple[str, str]]:
    return [(finding.kind, finding.subject.removeprefix("http://a.test")) for finding in report.findings]


# -- the breaker -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("streak", "end"),
    [
        (row(BROKEN, 5, 2), 10.1),
        ([page(2 + 2 * number, f"/{number}", failure="reset") for number in range(5)], 10.1),
        (row(FORBIDDEN, 10, 2), 20.1),
        ([*row(answer(401), 5, 2), *row(FORBIDDEN, 5, 12)], 20.1),
    ],
    ids=["server errors", "resets", "forbidden", "refusals of two kinds"],
)
def test_a_host_in_trouble_that_is_asked_on_is_found(tmp_path: Path, streak: Sequence[Sent], end: float) -> None:
    """Five transient failures or ten refusals in a row are followed by ten minutes of silence, for every request."""
    kept = [robots(0), *streak, page(end + 600, "/probe")]
    assert judged(tmp_path / "kept", kept).findings == []
    broken = [*kept[:-1], page(end + 20, "/soon"), page(end + 598, "/late")]
    report = judged(tmp_path / "broken", broken)
    assert found(report) == [("breaker_ignored", "/soon")]  # what it answered closes the breaker
    broken = [*kept[:-1], page(end + 20, "/soon", wire=BROKEN), page(end + 598, "/late", wire=BROKEN)]
    assert found(judged(tmp_path / "twice", broken)) == [("breaker_ignored", "/soon"), ("breaker_ignored", "/late")]


def test_a_probe_that_fails_doubles_the_silence(tmp_path: Path) -> None:
    """Ten minutes, twenty, forty; any failure of a probe counts, up to a day."""
    streak = [robots(0), *row(BROKEN, 5, 2), page(611, "/p1", wire=BROKEN), page(1_812, "/p2", wire=FORBIDDEN)]
    assert judged(tmp_path / "kept", [*streak, page(4_213, "/p3")]).findings == []
    report = judged(tmp_path / "broken", [*streak, page(4_200, "/p3")])
    assert found(report) == [("breaker_ignored", "/p3")]
    assert "a probe" in report.findings[0].detail


def test_a_probe_that_is_answered_well_closes_it(tmp_path: Path) -> None:
    """Afterwards it takes a whole streak again."""
    sent = [robots(0), *row(BROKEN, 5, 2), page(611), *row(BROKEN, 4, 613), page(622, "/last")]
    assert judged(tmp_path, sent).findings == []


@pytest.mark.parametrize(
    "streak",
    [
        row(BROKEN, 4, 2),
        row(FORBIDDEN, 9, 2),
        [*row(BROKEN, 4, 2), page(10, "/good"), *row(BROKEN, 4, 12)],
        [*row(BROKEN, 4, 2), page(10, "/gone", wire=answer(404)), *row(BROKEN, 4, 12)],
        [*row(BROKEN, 4, 2), page(10, "/odd", failure="protocol"), *row(BROKEN, 4, 12)],
        [*row(BROKEN, 4, 2), robots(10), *row(BROKEN, 4, 12)],
        [*row(BROKEN, 4, 2), *row(FORBIDDEN, 9, 12)],
        [page(2 + 2 * number, f"/{number}", failure="dns") for number in range(6)],
        [Sent(url=f"http://a.test:{81 + n}/robots.txt", at=2 + 2 * n, wire=FORBIDDEN) for n in range(12)],
    ],
    ids=["four", "nine", "good", "gone", "protocol", "robots", "mixed", "never sent", "robots forbidden"],
)
def test_what_is_no_streak_is_no_reason(tmp_path: Path, streak: Sequence[Sent]) -> None:
    """A good answer ends one; what was never sent and a robots.txt that is forbidden are none."""
    assert judged(tmp_path, [robots(0), *streak, page(35, "/next"), page(37, "/more")]).findings == []


def test_answers_that_nobody_accepted_do_not_count(tmp_path: Path) -> None:
    """A process that died before it completed them counted nothing that lasts."""
    sent = [robots(0), *row(BROKEN, 5, 2, orphan=True), page(35, "/next", incarnation="two")]
    assert judged(tmp_path, sent).findings == []


def test_the_breaker_outlives_the_process(tmp_path: Path) -> None:
    """Its counts are stored with the outcomes: a restart does not ask a host afresh."""
    sent = [robots(0), *row(BROKEN, 5, 2), page(35, "/next", incarnation="two")]
    assert found(judged(tmp_path / "open", sent)) == [("breaker_ignored", "/next")]
    sent = [robots(0), *row(BROKEN, 3, 2), *row(BROKEN, 2, 20, incarnation="two"), page(40, incarnation="two")]
    assert found(judged(tmp_path / "counts", sent)) == [("breaker_ignored", "/")]


def test_refusals_just_before_a_death_may_have_been_forgotten(tmp_path: Path) -> None:
    """Recovery adopts them without counting; whatever the process outlived by some seconds it has stored."""
    streak = [robots(0), *row(FORBIDDEN, 10, 2)]
    after = page(60, "/next", incarnation="two")
    assert judged(tmp_path / "died", [*streak, after]).findings == []
    lived = [robots(30.5, host="b.test")]
    assert found(judged(tmp_path / "lived", [*streak, *lived, after])) == [("breaker_ignored", "/next")]


def test_requests_that_left_before_the_failure_was_judged_are_no_violation(tmp_path: Path) -> None:
    """Whether a failure is the site's or our own takes seconds to tell."""
    streak = [page(2 + 2 * number, f"/{number}", failure="reset") for number in range(5)]
    assert judged(tmp_path, [robots(0), *streak, page(12, "/next", failure="reset")]).findings == []


@pytest.mark.parametrize(("days", "found_kinds"), [(8, set()), (5, {"breaker_ignored"})])
def test_a_host_that_may_have_been_given_up_is_tried_afresh(tmp_path: Path, days: int, found_kinds: set[str]) -> None:
    """After a week of trouble its URLs fail, and the operator may let them go again; not before."""
    licence, at = marker("allow_all:403"), 10.0
    sent = [Sent(url=ROBOTS, at=0, wire=FORBIDDEN), *row(BROKEN, 4, 2, digest=licence)]
    for wait in (0.0, 600, 1_200, 2_400, 4_800, 9_600, 19_200, 38_400, 76_800, *[DAY] * days):
        at += wait + 4
        sent.append(Sent(url=ROBOTS, at=at - 2, wire=FORBIDDEN))
        sent.append(page(at, f"/{at:g}", wire=BROKEN, digest=licence))
    report = judged(tmp_path, [*sent, page(at + 60, "/again", digest=licence)])
    assert kinds(report) == found_kinds


# -- waits of our own --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "wire", [answer(429), BUSY, answer(503, b"", b"Retry-After: soon"), answer(503, b"", b"Retry-After: 0")]
)
def test_a_busy_host_that_says_no_time_is_given_half_a_minute(tmp_path: Path, wire: bytes) -> None:
    """The wait that our rules promise binds every later request, of any process."""
    sent = [robots(0), page(2, wire=wire), page(31.9, "/x", incarnation="two"), page(33, "/y")]
    report = judged(tmp_path / "broken", sent)
    assert found(report) == [("own_wait_ignored", "/x")]
    assert "asks for 30 s" in report.findings[0].detail
    assert judged(tmp_path / "kept", [robots(0), page(2, wire=wire), page(32.1, "/x")]).findings == []


def test_busy_answers_in_a_row_double_the_wait(tmp_path: Path) -> None:
    """30 s, 60 s, 120 s; any other answer in between starts afresh."""
    rising = [robots(0), page(2, "/1", wire=BUSY), page(33, "/2", wire=BUSY), page(94, "/3", wire=BUSY)]
    assert judged(tmp_path / "kept", [*rising, page(215, "/4")]).findings == []
    assert found(judged(tmp_path / "broken", [*rising, page(150, "/4")])) == [("own_wait_ignored", "/4")]
    afresh = [*rising[:3], page(94, "/3"), page(96, "/4", wire=BUSY), page(127, "/5")]
    assert judged(tmp_path / "afresh", afresh).findings == []


def test_a_retry_after_takes_the_place_of_our_own_wait(tmp_path: Path) -> None:
    """A site that wants less gets less; it still counts for the next one that says nothing."""
    busy = answer(503, b"", b"Retry-After: 5")
    sent = [robots(0), page(2, wire=busy), page(8, "/x", wire=BUSY)]
    assert judged(tmp_path / "kept", [*sent, page(69, "/y")]).findings == []
    assert found(judged(tmp_path / "broken", [*sent, page(50, "/y")])) == [("own_wait_ignored", "/y")]


def test_busy_answers_that_nobody_accepted_do_not_lengthen_the_wait(tmp_path: Path) -> None:
    """Their own wait was stored at the headers; the count comes with the outcome."""
    sent = [robots(0), page(2, wire=BUSY, orphan=True), page(33, "/x", wire=BUSY), page(64, "/y")]
    assert judged(tmp_path, sent).findings == []


def test_a_busy_robots_txt_holds_the_whole_host(tmp_path: Path) -> None:
    """Five minutes, doubled; of every authority."""
    other = Sent(url="http://a.test:81/robots.txt", at=2, wire=BUSY)
    again = Sent(url="http://a.test:81/robots.txt", at=304, wire=BUSY)
    assert judged(tmp_path / "kept", [robots(0), other, page(302.1), again, page(904.5, "/x")]).findings == []
    assert found(judged(tmp_path / "once", [robots(0), other, page(290)])) == [("own_wait_ignored", "/")]
    assert found(judged(tmp_path / "twice", [robots(0), other, again, page(800)])) == [("own_wait_ignored", "/")]


def test_a_busy_robots_txt_that_others_are_redirected_to_may_be_their_answer(tmp_path: Path) -> None:
    """Then its host keeps the half minute that any such answer asks for."""
    moved = Sent(url="http://b.test/robots.txt", at=0, wire=answer(301, b"", b"Location: http://a.test/robots.txt"))
    hop = Sent(url="http://a.test/robots.txt", at=1, wire=BUSY)
    assert judged(tmp_path / "kept", [moved, hop, robots(32), page(34)]).findings == []
    assert kinds(judged(tmp_path / "broken", [moved, hop, robots(20), page(34)])) == {"own_wait_ignored"}


def test_what_a_dying_process_was_told_by_robots_txt_may_be_lost(tmp_path: Path) -> None:
    """The half minute is stored at the headers, the five minutes with the verdict."""
    other = Sent(url="http://a.test:81/robots.txt", at=2, wire=BUSY)
    sent = [robots(0), other, page(40, incarnation="two")]
    assert judged(tmp_path / "died", sent).findings == []
    lived = robots(20, host="b.test")
    assert found(judged(tmp_path / "lived", [*sent[:2], lived, sent[2]])) == [("own_wait_ignored", "/")]


def test_an_outcome_that_is_lost_behind_our_back_counts_no_more(tmp_path: Path) -> None:
    """The judge goes by what the rows say was accepted."""
    folder = make_crawl(tmp_path / "crawl", [robots(0), *row(BROKEN, 5, 2), page(35, "/next")])
    assert found(audit(folder)) == [("breaker_ignored", "/next")]
    run_sql(shard_with(folder, "http://a.test/2-0"), "DELETE FROM outcome WHERE seq = (SELECT min(seq) FROM outcome)")
    assert "breaker_ignored" not in kinds(audit(folder))

"""`audit` over crawls made by hand: a polite one is called polite, every planted violation is found by its name."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import pytest

from integration.crawl_maker import AGENT, Sent, answer, make_crawl, make_facts, robots
from integration.planting import CRAWL, flip, kinds, noted, place_of, segments_in
from limpet.config import Facts, Settings
from limpet.config.settings import Politeness
from limpet.embedded.folder import Folder
from limpet.reconciler.audit import audit
from limpet.reconciler.audit_answers import marker
from limpet.reconciler.report import Report
from limpet.robots import digest
from limpet.testing.loop import EPOCH_US

OPEN = b"User-agent: *\nDisallow:\n"
DAY = 86_400.0


def judged(
    tmp_path: Path, sent: Sequence[Sent], *, settings: Settings | None = None, facts: Facts | None = None
) -> Report:
    """The audit of a crawl that sent `sent`."""
    return audit(make_crawl(tmp_path / "crawl", sent, settings=settings, facts=facts))


def page(at: float, path: str = "/", **changes: object) -> Sent:
    """A page of a.test."""
    return Sent(url=f"http://a.test{path}", at=at, **changes)  # type: ignore[arg-type] # fields of Sent


def asked(*fields: bytes, path: bytes = b"/", method: bytes = b"GET", agent: bytes = AGENT) -> bytes:
    """A request as it went out."""
    lines = [b"%b %b HTTP/1.1" % (method, path), b"Host: a.test", b"User-Agent: " + agent, *fields]
    return b"\r\n".join(lines) + b"\r\n\r\n"


# -- polite ------------------------------------------------------------------------------------------------------------
def test_a_polite_crawl_is_called_polite(tmp_path: Path) -> None:
    """Robots first, a second and more between requests, Retry-After kept: all was looked at, nothing is found."""
    report = judged(tmp_path, CRAWL)
    assert (report.findings, report.notes, report.ok) == ([], [], True)
    assert report.checked == {
        "failures": 1,
        "requests": 7,
        "robots": 2,
        "pages": 5,
        "segments": 1,
        "hosts": 2,
        "licences": 6,
        "ceilings_address": 2,
        "address_unknown": 1,  # the request that failed
    }


def test_a_folder_that_never_ran_was_polite(tmp_path: Path) -> None:
    """Nothing was sent."""
    assert audit(Folder.create(tmp_path / "new", make_facts())).ok


def test_two_authorities_of_one_host_need_a_copy_each(tmp_path: Path) -> None:
    """Key is scheme, host and port; the gap is the host's."""
    other = "http://a.test:8080"
    sent = [
        robots(0),
        page(2),
        Sent(url=f"{other}/robots.txt", at=4, wire=answer(404)),
        Sent(url=f"{other}/", at=6, digest=marker("allow_all:404")),
    ]
    assert judged(tmp_path, sent).findings == []


def test_a_redirected_robots_txt_licenses_the_authority_that_was_asked(tmp_path: Path) -> None:
    """Hops are followed through the archive, across hosts; the rules count for the first authority."""
    text = b"User-agent: *\nDisallow: /secret\n"
    moved = answer(301, b"", b"Location: http://b.test/common")
    sent = [
        Sent(url="http://a.test/robots.txt", at=0, wire=moved),
        Sent(url="http://b.test/common", at=1, wire=answer(200, text), robots=True),
        page(3, digest=digest(text)),
        page(5, "/secret/1", digest=digest(text)),
    ]
    report = judged(tmp_path, sent)
    assert [(finding.kind, finding.subject) for finding in report.findings] == [
        ("disallowed", "http://a.test/secret/1")
    ]


def test_a_capture_that_was_appended_twice_is_no_second_request(tmp_path: Path) -> None:
    """The same request twice in the archive overlaps with itself, and was sent once."""
    folder = make_crawl(tmp_path / "crawl", CRAWL)
    segment = segments_in(folder)[0]
    offset, _ = place_of(folder, "http://a.test/last")
    segment.write_bytes(segment.read_bytes() + segment.read_bytes()[offset:])
    assert audit(folder).findings == []


# -- robots ------------------------------------------------------------------------------------------------------------
def test_a_disallowed_fetch_is_found(tmp_path: Path) -> None:
    """The copy that licensed it forbids it, and all readers say so."""
    report = judged(tmp_path, [robots(0), page(2), page(4, "/private/x")])
    assert kinds(report) == {"disallowed"}
    assert report.findings[0].subject == "http://a.test/private/x"
    assert "Disallow: /private" in report.findings[0].detail
    assert "RFC 9309 forbids" in report.findings[0].detail
    assert "protego forbids" in report.findings[0].detail


def test_a_group_of_our_own_is_obeyed_and_not_the_common_one(tmp_path: Path) -> None:
    """The token of the crawl's facts decides which group counts."""
    text = b"User-agent: *\nDisallow:\n\nUser-agent: Limpet\nDisallow: /\n"
    assert kinds(judged(tmp_path / "ours", [robots(0, text), page(2)])) == {"disallowed"}
    facts = make_facts(agent="Seagull")
    request = asked(agent=b"Seagull/1.0")
    sent = [
        Sent(
            url="http://a.test/robots.txt",
            at=0,
            wire=answer(200, text),
            request=asked(path=b"/robots.txt", agent=b"Seagull/1.0"),
        ),
        page(2, request=request),
    ]
    assert judged(tmp_path / "theirs", sent, facts=facts).findings == []


def test_what_only_the_plain_reader_forbids_is_found(tmp_path: Path) -> None:
    """For protego a crawl-delay between two agents ends the first one's group; RFC 9309 knows no such line."""
    text = b"User-agent: *\r\nCrawl-delay: 1\r\nUser-agent: other\r\nDisallow: /private\r\n"
    report = judged(tmp_path, [robots(0, text), page(2, "/private")])
    assert kinds(report) == {"disallowed"}
    assert "protego allows" in report.findings[0].detail


def test_what_only_protego_forbids_is_noted(tmp_path: Path) -> None:
    """That `$` at the end of a rule also stands for itself is a reading of its own."""
    report = judged(tmp_path, [robots(0, b"User-agent: *\nDisallow: /a$\n"), page(2, "/a$b")])
    assert (report.findings, noted(report)) == ([], {"readings_differ"})


def test_a_fetch_without_any_copy_is_found(tmp_path: Path) -> None:
    """Neither a digest, nor an answer that could have it."""
    report = judged(tmp_path, [page(0), page(2, "/x", digest="f" * 64)])
    assert [finding.kind for finding in report.findings] == ["no_copy", "no_copy"]


def test_a_copy_that_the_archive_does_not_have_is_found(tmp_path: Path) -> None:
    """Another digest than the archived answer's."""
    assert kinds(judged(tmp_path, [robots(0), page(2, digest=digest(OPEN))])) == {"no_copy"}


def test_an_expired_copy_is_found(tmp_path: Path) -> None:
    """24 hours, and no more."""
    good = [robots(0), page(DAY - 1)]
    assert judged(tmp_path / "good", good).findings == []
    report = judged(tmp_path / "late", [robots(0), page(DAY + 120)])
    assert kinds(report) == {"expired_copy"}
    assert "24.0 hours" in report.findings[0].detail


def test_a_copy_that_came_later_is_found(tmp_path: Path) -> None:
    """Robots after the page is no licence."""
    report = judged(tmp_path, [page(0, digest=digest(OPEN)), robots(2, OPEN)])
    assert kinds(report) == {"later_copy"}


def test_the_copy_of_another_port_is_found(tmp_path: Path) -> None:
    """A port is an authority of its own, and so is a scheme."""
    sent = [robots(0, OPEN), Sent(url="http://a.test:8080/", at=2, digest=digest(OPEN))]
    report = judged(tmp_path / "port", sent)
    assert kinds(report) == {"other_authority"}
    assert "http://a.test/robots.txt" in report.findings[0].detail
    sent = [robots(0, OPEN), Sent(url="https://a.test/", at=2, digest=digest(OPEN))]
    assert kinds(judged(tmp_path / "scheme", sent)) == {"other_authority"}


@pytest.mark.parametrize(
    "false_digest", [marker("unreachable:http_503"), marker("allow_all:503"), digest(b"come in"), digest(OPEN)]
)
def test_a_failing_robots_txt_is_no_licence(tmp_path: Path, false_digest: str) -> None:
    """Whatever name such a licence would have been given; `OPEN` stands for one that never was served."""
    failing = Sent(url="http://a.test/robots.txt", at=0, wire=answer(503, b"come in"))
    report = judged(tmp_path, [failing, page(310, digest=false_digest)])
    if false_digest == digest(OPEN):
        assert kinds(report) == {"no_copy"}
        assert "503" in report.findings[0].detail
    else:
        assert kinds(report) == {"unreachable_licence"}


def test_a_robots_txt_that_was_cut_off_is_no_licence(tmp_path: Path) -> None:
    """The missing part may have held the rule that matters."""
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + OPEN
    report = judged(tmp_path, [Sent(url="http://a.test/robots.txt", at=0, wire=cut), page(2, digest=digest(OPEN))])
    assert kinds(report) == {"unreachable_licence"}


def test_more_than_five_redirects_are_no_licence(tmp_path: Path) -> None:
    """RFC 9309 asks for five; the sixth leads nowhere."""
    hops = [
        Sent(
            url="http://a.test/robots.txt" if hop == 0 else f"http://a.test/r{hop}",
            at=hop * 2.0,
            wire=answer(301, b"", b"Location: /r%d" % (hop + 1)),
            robots=True,
        )
        for hop in range(6)
    ]
    last = Sent(url="http://a.test/r6", at=12, wire=answer(200, OPEN), robots=True)
    report = judged(tmp_path / "six", [*hops, last, page(14, digest=digest(OPEN))])
    assert kinds(report) == {"other_authority"}
    five = [*hops[:5], Sent(url="http://a.test/r5", at=10, wire=answer(200, OPEN), robots=True)]
    assert judged(tmp_path / "five", [*five, page(14, digest=digest(OPEN))]).findings == []


def test_a_failed_fetch_needs_a_licence_too(tmp_path: Path) -> None:
    """The request went out although no answer came; only what never left is exempt."""
    report = judged(tmp_path, [page(0, failure="timeout"), page(2, "/x", failure="dns")])
    assert [(finding.kind, finding.subject) for finding in report.findings] == [("no_copy", "http://a.test/")]


# -- gaps --------------------------------------------------------------------------------------------------------------
def test_a_gap_that_is_too_short_is_found(tmp_path: Path) -> None:
    """Measured from the end of one answer to the next request, against the floor."""
    report = judged(tmp_path, [robots(0), page(2, seconds=0.5), page(3.4, "/x")])
    assert kinds(report) == {"gap_too_short"}
    assert "0.900 s after http://a.test/" in report.findings[0].detail


def test_a_gap_below_what_the_fetch_itself_recorded_is_found(tmp_path: Path) -> None:
    """Whatever the floor is: the gap in force was another."""
    assert kinds(judged(tmp_path, [robots(0), page(2), page(4, "/x", gap=5.0)])) == {"gap_too_short"}


def test_a_slow_host_is_given_more_time(tmp_path: Path) -> None:
    """Five times the last response time, but never more than 30 s."""
    assert kinds(judged(tmp_path / "a", [robots(0), page(2, seconds=2.0), page(8, "/x")])) == {"gap_too_short"}
    assert judged(tmp_path / "b", [robots(0), page(2, seconds=2.0), page(14.1, "/x")]).findings == []
    assert judged(tmp_path / "c", [robots(0), page(2, seconds=60.0), page(92.1, "/x")]).findings == []


def test_the_gap_after_a_failure_counts(tmp_path: Path) -> None:
    """A request that nobody answered was one all the same."""
    report = judged(tmp_path, [robots(0), page(2, failure="timeout", seconds=5.0), page(7.5, "/x")])
    assert kinds(report) == {"gap_too_short"}


def test_robots_requests_keep_the_gap_and_count_for_it(tmp_path: Path) -> None:
    """They are requests like any other."""
    assert kinds(judged(tmp_path / "before", [robots(0), page(0.5)])) == {"gap_too_short"}
    assert kinds(judged(tmp_path / "after", [robots(0), page(2), robots(2.5)])) == {"gap_too_short"}


def test_a_crawl_delay_that_is_ignored_is_found(tmp_path: Path) -> None:
    """From the first page on, whatever gap was recorded."""
    text = b"User-agent: *\nCrawl-delay: 10\n"
    sent = [robots(0, text), page(11, gap=10.0), page(16, "/x", gap=10.0)]
    report = judged(tmp_path, sent)
    assert kinds(report) == {"crawl_delay_ignored"}
    assert "crawl-delay is 10 s" in report.findings[0].detail
    assert judged(tmp_path / "kept", [robots(0, text), page(11, gap=10.0), page(21.2, "/x", gap=10.0)]).findings == []


def test_a_recorded_gap_below_the_rules_is_found(tmp_path: Path) -> None:
    """Even when the request came late enough by accident."""
    text = b"User-agent: *\nCrawl-delay: 10\n"
    assert kinds(judged(tmp_path, [robots(0, text), page(100, gap=1.0)])) == {"gap_understated"}


def test_an_overlap_is_found(tmp_path: Path) -> None:
    """One connection a host, whatever the port."""
    sent = [
        robots(0),
        robots(2, host="a.test:81"),
        page(4, seconds=5.0),
        Sent(url="http://a.test:81/", at=6),
    ]
    report = judged(tmp_path, sent)
    assert kinds(report) == {"overlap"}
    assert report.findings[0].subject == "http://a.test:81/"


def test_owned_hosts_have_no_floor_but_all_the_rest(tmp_path: Path) -> None:
    """One connection, crawl-delay and Retry-After stay."""
    settings = Settings(owned=("a.test",))
    fast = [robots(0), page(0.1, gap=0.0), page(0.3, "/x", gap=0.0)]
    assert judged(tmp_path / "fast", fast, settings=settings).findings == []
    assert kinds(judged(tmp_path / "both", [robots(0), page(0.05, gap=0.0)], settings=settings)) >= {"overlap"}
    delayed = [robots(0, b"User-agent: *\nCrawl-delay: 2\n"), page(1, gap=2.0)]
    assert kinds(judged(tmp_path / "delay", delayed, settings=settings)) == {"crawl_delay_ignored"}


def test_fetches_older_than_the_settings_are_judged_by_the_gap_they_recorded(tmp_path: Path) -> None:
    """A later run may have a larger floor; the earlier one is held to its own, and that is said."""
    folder = make_crawl(
        tmp_path / "crawl",
        [robots(0), page(2), page(3.5, "/x"), page(5, "/y", gap=3.0)],
        settings=Settings(politeness=Politeness(floor_seconds=60.0)),
    )
    later = (EPOCH_US + 10**9) * 1000
    os.utime(folder.path / "settings.json", ns=(later, later))
    report = audit(folder)
    assert [(finding.kind, finding.subject) for finding in report.findings] == [("gap_too_short", "http://a.test/y")]
    assert noted(report) == {"floor_unknown"}


# -- waits -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("status", [429, 503])
def test_a_retry_after_that_is_ignored_is_found(tmp_path: Path, status: int) -> None:
    """In seconds, from a page or from robots.txt, and by every later request until it is over."""
    busy = answer(status, b"", b"Retry-After: 60")
    sent = [robots(0), page(2, wire=busy), page(30, "/x"), page(50, "/y"), page(62.1, "/z")]
    report = judged(tmp_path / "page", sent)
    assert [(finding.kind, finding.subject[-2:]) for finding in report.findings] == [
        ("retry_after_ignored", "/x"),
        ("retry_after_ignored", "/y"),
    ]
    sent = [robots(0), Sent(url="http://a.test:81/robots.txt", at=2, wire=busy), page(30)]
    assert kinds(judged(tmp_path / "robots", sent)) == {"retry_after_ignored", "own_wait_ignored"}


def test_a_retry_after_in_the_form_of_a_date_counts(tmp_path: Path) -> None:
    """RFC 9110 knows two forms."""
    date = datetime.fromtimestamp(EPOCH_US / 1e6 + 90, UTC)
    busy = answer(503, b"", b"Retry-After: " + format_datetime(date, usegmt=True).encode())
    report = judged(tmp_path, [robots(0), page(2, wire=busy), page(80, "/x"), page(91, "/y")])
    assert [(finding.kind, finding.subject[-2:]) for finding in report.findings] == [("retry_after_ignored", "/x")]


def test_the_date_of_a_retry_after_is_one_of_the_sites_clock(tmp_path: Path) -> None:
    """It is taken against the answer's own Date: a clock that is an hour fast asks for a minute, not for an hour."""
    fast = [datetime.fromtimestamp(EPOCH_US / 1e6 + seconds, UTC) for seconds in (3_602, 3_662)]
    said, until = (format_datetime(date, usegmt=True).encode() for date in fast)
    busy = answer(503, b"", b"Date: " + said, b"Retry-After: " + until)
    report = judged(tmp_path, [robots(0), page(2, wire=busy), page(60, "/x"), page(62.1, "/y")])
    assert [(finding.kind, finding.subject[-2:]) for finding in report.findings] == [("retry_after_ignored", "/x")]


def test_of_two_retry_after_fields_the_longer_is_looked_for(tmp_path: Path) -> None:
    """Who asks twice is left alone until both are over."""
    busy = answer(503, b"", b"Retry-After: 5", b"Retry-After: 60")
    report = judged(tmp_path, [robots(0), page(2, wire=busy), page(30, "/x"), page(62.1, "/y")])
    assert [(finding.kind, finding.subject[-2:]) for finding in report.findings] == [("retry_after_ignored", "/x")]


def test_a_retry_after_outlives_the_process(tmp_path: Path) -> None:
    """A new incarnation is bound by it: an archived answer's wait was persisted before its body was read."""
    busy = answer(503, b"", b"Retry-After: 60")
    report = judged(tmp_path, [robots(0), page(2, wire=busy), page(30, "/x", incarnation="two")])
    assert kinds(report) == {"retry_after_ignored"}


def test_a_retry_after_on_other_statuses_is_no_wait_of_the_host(tmp_path: Path) -> None:
    """The crawler obeys it all the same; only 429 and 503 speak for the whole host."""
    moved = answer(302, b"", b"Retry-After: 60", b"Location: /x")
    assert judged(tmp_path, [robots(0), page(2, wire=moved), page(4, "/x")]).findings == []


# -- requests ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("request_bytes", "kind"),
    [
        (asked(agent=b"Mozilla/5.0"), "wrong_agent"),
        (asked(agent=b"limpet"), "wrong_agent"),
        (asked(b"User-Agent: limpet/0.1.0"), "wrong_agent"),
        (b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", "wrong_agent"),
        (asked(b"Referer: http://b.test/"), "forbidden_header"),
        (asked(b"Cookie: a=b"), "forbidden_header"),
        (asked(method=b"HEAD"), "not_get"),
        (asked(path=b"/other"), "wrong_request"),
        (asked().replace(b"a.test", b"b.test"), "wrong_request"),
    ],
)
def test_requests_that_say_too_much_or_too_little_are_found(tmp_path: Path, request_bytes: bytes, kind: str) -> None:
    """Who we are in every request, GET only, and nothing about anybody else."""
    assert kinds(judged(tmp_path, [robots(0), page(2, request=request_bytes)])) == {kind}


def test_the_contact_is_part_of_who_we_are(tmp_path: Path) -> None:
    """A crawl that has one gives it in every request."""
    facts = make_facts(contact="me@example.org")
    told = [asked(path=path, agent=AGENT + b" (+me@example.org)") for path in (b"/robots.txt", b"/")]
    first = Sent(url="http://a.test/robots.txt", at=0, wire=answer(200, OPEN), request=told[0])
    assert judged(tmp_path / "told", [first, page(2, request=told[1])], facts=facts).findings == []
    assert kinds(judged(tmp_path / "not", [first, page(2)], facts=facts)) == {"wrong_agent"}


# -- damage ------------------------------------------------------------------------------------------------------------
def test_a_part_that_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    """What cannot be judged is a finding, the rest is judged; another replica's copy serves as well."""
    facts = make_facts(replicas=2)
    folder = make_crawl(tmp_path / "crawl", CRAWL, facts=facts)
    segment = segments_in(folder)[0]
    offset, length = place_of(folder, "http://a.test/")
    segment.write_bytes(flip(offset + length // 2)(segment.read_bytes()))
    report = audit(folder)
    assert (report.findings, report.checked["pages"]) == ([], 5)
    segments_in(folder, 1)[0].write_bytes(segment.read_bytes())
    report = audit(folder)
    assert (kinds(report), report.checked["pages"]) == ({"unreadable", "unjudged"}, 4)


def test_what_is_gone_from_the_archive_is_not_passed_over(tmp_path: Path) -> None:
    """Rows say what was fetched; whatever of it no segment shows was judged by nobody, and that is said."""
    folder = make_crawl(tmp_path / "crawl", CRAWL)
    for path in segments_in(folder):
        path.unlink()
    report = audit(folder)
    (unjudged,) = [finding for finding in report.findings if finding.kind == "unjudged"]
    assert unjudged.detail.startswith("http://a.test/")
    assert "and 4 more" in unjudged.detail


def test_a_shard_without_its_file_is_not_passed_over(tmp_path: Path) -> None:
    """What its rows say of fetches and licences is unknown, so nobody can call them polite."""
    folder = make_crawl(tmp_path / "crawl", CRAWL)
    folder.shard_file(0).unlink()
    assert ("unreadable", "00.sqlite") in [(found.kind, found.subject) for found in audit(folder).findings]


def test_a_response_without_metadata_counts_by_its_time(tmp_path: Path) -> None:
    """The end of a capture that a death tore: the request was sent, whatever licensed it."""
    folder = make_crawl(tmp_path / "crawl", [robots(0), page(2), page(2.5, "/x")])
    segment = segments_in(folder)[0]
    offset, length = place_of(folder, "http://a.test/x")
    segment.write_bytes(segment.read_bytes()[: offset + length])
    report = audit(folder)
    assert (kinds(report), noted(report)) == ({"gap_too_short"}, {"incomplete"})

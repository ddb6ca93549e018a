"""Reports G13 to G17 and RFC 9309 §2.3 to §2.5 in the field: what each robots.txt means, through the command line.

Answers that the rude web gives too (404, 403, an HTML page, 500, 429, no answer, refused connections, chains of
redirects, 2 MB) are judged in tests/e2e/test_rude_robots.py and not again here. A copy older than 24 hours and thirty
days of silence take virtual time: tests/conformance/test_robots_http_cases.py, h06 and h08.
"""

import gzip
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from e2e.bug_reports.shared_inputs import CONFIG, PATIENCE, B
from e2e.raw_site import ROBOTS, Answer, RawCrawl, RawSites, Site, answer, moved, ok
from limpet.testing.web import Step

FORBID = b"User-agent: *\nDisallow: /\n"
MARK = b"\xef\xbb\xbf"
CERTS = Path(__file__).parents[2] / "unit" / "fetch" / "certs"


def text(body: bytes) -> bytes:
    """A robots.txt."""
    return answer(b"200 OK", body, b"Content-Type: text/plain")


def endless(start: bytes) -> tuple[Step, ...]:
    """A robots.txt that goes on for 64 MB."""
    return (text(start), *[b"# endless\n" * 6_500] * 1_000)


def thrice(body: bytes) -> bytes:
    """Coded more often than anybody undoes."""
    return gzip.compress(gzip.compress(gzip.compress(body)))


CLOSED = {  # G13: files that forbid everything, and say so oddly
    "mark-lf": text(MARK + FORBID),
    "mark-crlf": text(MARK + FORBID.replace(b"\n", b"\r\n")),
    "mark-cr": text(MARK + FORBID.replace(b"\n", b"\r")),
    "mark-named": text(MARK + b"user-agent: limpet\ndisallow: /\n"),
    "no-end": text(b"User-agent: *\nDisallow: /"),
    "html-type": answer(b"200 OK", FORBID, b"Content-Type: text/html"),
    "no-coding": answer(b"200 OK", "# \u00e9\n".encode() + FORBID, b"Content-Encoding: utf-8"),
    "not-200": answer(b"203 Non-Authoritative", FORBID),
    "error-lines": text(b"<html>\0\xff\n:::\nUser-agent: *\n???\nDisallow: /\n\xfe"),  # h07
    "capitals": text(b"USER-AGENT: LIMPET\nDISALLOW: /\n"),
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(FORBID), FORBID),
}
OPEN = {  # G14, h03: files that allow
    "empty": text(b""),
    "allow-all": text(b"User-agent: *\nDisallow:\n"),
    "other-agent": text(b"User-agent: other\nDisallow: /\n"),
    "longer-agent": text(b"User-agent: limpetbot\nDisallow: /\n"),
    "204": answer(b"204 No Content"),
    **{str(status): answer(b"%d No" % status) for status in (400, 401, 402, 404, 405, 410, 418, 451, 499)},
    "utf-16": text(("\ufeff" + FORBID.decode()).encode("utf-16-le")),
}
UNREACHABLE: dict[str, tuple[Answer, str]] = {  # G14, h04, h05
    **{str(status): (answer(b"%d Later" % status), f"robots_http_{status}") for status in (501, 502, 504, 599)},
    "503": (answer(b"503 Later", b"", b"Retry-After: 2"), "robots_http_503"),
    "reset": ([b"HTTP/1.1 200 OK\r\n", "reset"], "robots_reset"),
    "hang-up": (["close"], "robots_reset"),
    "cut": (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nUser-agent: *\nAllow: /\n", "robots_reset"),
    "not-http": (b"User-agent: *\nAllow: /\n", "robots_protocol"),
    "nowhere": (moved(b""), "robots_redirect_without_location"),
    "loop": (moved(b"/robots.txt"), "robots_too_many_redirects"),
    "ftp": (moved(b"ftp://127.0.0.1/robots.txt"), "robots_gate"),
    "brotli": (answer(b"200 OK", b"\x0b\x0c\x80" + FORBID + b"\x03", b"Content-Encoding: br"), "robots_reset"),
    "members": (
        answer(b"200 OK", gzip.compress(b"") * 1_000 + gzip.compress(FORBID), b"Content-Encoding: gzip"),
        "robots_reset",
    ),
    "codings": (answer(b"200 OK", thrice(FORBID), b"Content-Encoding: gzip, gzip, gzip"), "robots_reset"),
    "far": (moved(b"/robots.txt?" + b"\xff" * 30_000), "robots_gate"),  # as long as a WARC header may be, and longer
}
RULES = [  # G15: rule, URL, whether it may be fetched
    ("/*%2F*", "/a/b", True),
    ("/*%2F*", "/a%2Fb", False),
    ("/path/file-with-a-%2A.html", "/path/file-with-a-*.html", False),
    ("/path/foo-%24", "/path/foo-$", False),
    ("/ツ", "/%E3%83%84", False),
    ("/%e3%83%84", "/%E3%83%84", False),
    ("/%E3%83%84", "/%e3%83%84", False),
    ("/%62%61%7A", "/baz", False),
    ("/baz", "/%62%61%7A", False),
    ("/*s=", "/?s=asd", False),
    ("/hide?", "/hide?id=1", False),
    ("/hide?", "/hide", True),
    ("/f/", "//f/x", True),
    ("/*.php$", "/a.php", False),
    ("/*.php$", "/a.php?x", True),
    ("/a b", "/a%20b", False),
    ("/Case", "/case", True),
]


def padding(lines: int) -> bytes:
    """Rules that bind nothing here."""
    return b"User-agent: *\n" + b"".join(b"Disallow: /pad%05d/\n" % number for number in range(lines))


EARLY = padding(22_000)
CUT_RULE = EARLY + b"#" * (512_000 - len(EARLY) - 12) + b"\nDisallow: /zzzzzzzzzzzz\n" + padding(80_000)
LARGE: dict[str, tuple[Answer, set[str]]] = {  # G17: what may be fetched of /x, /secret/x and /pad00001/x
    "late-rule": (text(EARLY + b"Disallow: /secret/\n"), {"/x"}),
    "cut-rule": (text(CUT_RULE), {"/x", "/secret/x"}),
    "stars": (text(b"User-agent: *\nDisallow: /" + b"*a" * 24 + b"b$\n"), {"/x", "/secret/x", "/pad00001/x"}),
    "agents": (text(b"User-agent: x\n" * 5_000 + FORBID), set()),
    "one-line": (text(b"User-agent: *\nDisallow: /secret/" + b"a" * 600_000), {"/x", "/secret/x", "/pad00001/x"}),
    "endless": (endless(b"User-agent: *\nDisallow: /secret/\n"), {"/x", "/pad00001/x"}),
}
ASKED = ["/x", "/secret/x", "/pad00001/x"]


def site(robots: Answer, *seeds: str) -> Site:
    """A site with this robots.txt."""
    return Site({ROBOTS: robots}, seeds or ("/x",), default=ok(B))


def chain(hops: int, end: Answer) -> Mapping[str, Answer]:
    """A robots.txt behind so many redirects."""
    names = [ROBOTS, *[f"/hop-{number}" for number in range(1, hops + 1)]]
    return {**{name: moved(then.encode()) for name, then in itertools.pairwise(names)}, names[-1]: end}


SITES = {
    **{f"closed-{name}": site(robots) for name, robots in CLOSED.items()},
    **{f"open-{name}": site(robots) for name, robots in OPEN.items()},
    **{f"unreachable-{name}": site(robots) for name, (robots, _) in UNREACHABLE.items()},
    **{f"rule-{n}": site(text(f"User-agent: *\nDisallow: {r}\n".encode()), url) for n, (r, url, _) in enumerate(RULES)},
    **{f"large-{name}": site(robots, *ASKED) for name, (robots, _) in LARGE.items()},
    "chain-5": Site(chain(5, text(b"User-agent: *\nDisallow: /secret/\n")), ["/x", "/secret/x"], default=ok(B)),  # h01
    # G16: three services of one address, and one of another family
    "port-closed": Site({ROBOTS: text(FORBID)}, ["/x"], host="127.0.9.200", default=ok(B)),
    "port-open": Site({}, ["/x"], host="127.0.9.200", default=ok(B)),
    "port-some": Site({ROBOTS: text(b"User-agent: *\nDisallow: /p\n")}, ["/p", "/q"], host="::1", default=ok(B)),
}


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawCrawl]:
    """One crawl of all of it, with a user and a password in one seed, and a name that does not exist."""
    with RawSites(SITES) as sites:
        named = sites.url("port-open", "/y").replace("http://", "http://user:pw@")
        yield RawCrawl(
            tmp_path_factory.mktemp("robots"),
            sites,
            *PATIENCE,
            "--workers",
            "2",
            config=CONFIG,
            owned=("127.0.0.0/8", "::1/128", "no-such-host.invalid"),
            seeds=(named, "http://no-such-host.invalid/x"),
        )


@pytest.mark.parametrize("name", CLOSED)
def test_g13_a_site_that_forbids_everything_is_left_alone(crawl: RawCrawl, name: str) -> None:
    """Byte order mark, line ends, junk, capitals: the rule counts, and nothing is asked for."""
    assert crawl.state(f"closed-{name}", "/x") == ("denied", "Disallow: /")
    assert (crawl.sites.asked_robots(f"closed-{name}"), crawl.sites.asked(f"closed-{name}")) == (1, [])


@pytest.mark.parametrize("name", OPEN)
def test_g14_a_site_that_allows_is_crawled(crawl: RawCrawl, name: str) -> None:
    """Empty files, rules for others, and every 4xx but 429: fetched, licensed by a copy that is in the archive."""
    assert crawl.state(f"open-{name}", "/x") == ("fetched", "")
    assert crawl.sites.asked_robots(f"open-{name}") == 1
    assert crawl.show(f"open-{name}", "/x")["outcomes"][0]["robots_digest"]
    assert crawl.one(f"open-{name}", ROBOTS).block == OPEN[name]


def test_g14_forbidden_rules_are_told(crawl: RawCrawl) -> None:
    """401 and 403 allow by the RFC; the operator's log says so."""
    assert "robots.txt is forbidden, which allows" in crawl.log


def test_g13_rules_that_nobody_can_read_are_told(crawl: RawCrawl) -> None:
    """UTF-16 has no valid rule; that must not look like a site without rules."""
    assert any("unparseable" in line and "no text" in line for line in crawl.log.splitlines())


@pytest.mark.parametrize("name", UNREACHABLE)
def test_g14_a_site_that_cannot_be_asked_is_left_alone(crawl: RawCrawl, name: str) -> None:
    """5xx, resets, cut files, junk, redirects to nowhere: complete disallow, kept and waited for, with the reason."""
    site_name = f"unreachable-{name}"
    assert crawl.state(site_name, "/x") == ("due", "")
    assert "/x" not in crawl.sites.asked(site_name)
    assert crawl.waits[crawl.sites.url(site_name, "")] == UNREACHABLE[name][1]


def test_g14_a_name_that_does_not_exist_is_left_alone(crawl: RawCrawl) -> None:
    """h05: DNS failure is unreachable too."""
    assert crawl.show_url("http://no-such-host.invalid/x")["state"] == "due"
    assert crawl.waits["http://no-such-host.invalid"] in {"robots_nxdomain", "robots_dns"}


def test_g14_every_answer_to_robots_txt_is_archived(crawl: RawCrawl) -> None:
    """Errors and redirects included, as they came."""
    for name in ("501", "503", "599", "nowhere", "ftp"):
        robots = UNREACHABLE[name][0]
        assert crawl.one(f"unreachable-{name}", ROBOTS).block == robots, name


@pytest.mark.parametrize("number", range(len(RULES)), ids=[f"{rule}|{url}" for rule, url, _ in RULES])
def test_g15_rules_mean_what_they_say_of_the_string_on_the_wire(crawl: RawCrawl, number: int) -> None:
    """Escapes, stars, ends and queries."""
    _, url, allowed = RULES[number]
    assert crawl.sites.asked(f"rule-{number}") == ([url] if allowed else [])
    assert crawl.state(f"rule-{number}", url)[0] == ("fetched" if allowed else "denied")


def test_g16_each_service_has_its_own_rules(crawl: RawCrawl) -> None:
    """One robots.txt for each scheme, host and port, asked for at that very port; no user, no password anywhere."""
    assert crawl.sites.asked("port-closed") == []
    assert sorted(crawl.sites.asked("port-open")) == ["/x", "/y"]
    assert crawl.sites.asked("port-some") == ["/q"]
    for name in ("port-closed", "port-open", "port-some"):
        assert crawl.sites.asked_robots(name) == 1
        host = f"\r\nHost: {crawl.sites.authority(name)}\r\n".encode()
        assert all(host in head for head in crawl.sites.heads(name))
    assert not [url for url in crawl.archive if "@" in url]
    assert not [segment for segment in crawl.segments if b"user:pw" in segment.read_bytes()]
    assert not [head for head in crawl.sites.heads("port-open") if b"pw" in head or b"Authorization" in head]


def test_h01_rules_behind_five_redirects_are_rules(crawl: RawCrawl) -> None:
    """RFC 9309 §2.3.1.2, in the context of the authority first asked."""
    assert crawl.state("chain-5", "/secret/x")[0] == "denied"
    assert crawl.state("chain-5", "/x") == ("fetched", "")


@pytest.mark.parametrize("name", LARGE)
def test_g17_large_files_are_read_to_the_limit_and_no_rule_is_made_up(crawl: RawCrawl, name: str) -> None:
    """500 KiB count; a rule cut by the limit is dropped; stars and endless streams freeze nobody."""
    allowed = LARGE[name][1]
    assert set(crawl.sites.asked(f"large-{name}")) == allowed
    states = {url: crawl.state(f"large-{name}", url)[0] for url in ASKED}
    assert states == {url: "fetched" if url in allowed else "denied" for url in ASKED}


def test_g17_an_endless_file_is_cut_and_marked(crawl: RawCrawl) -> None:
    """Stopped at the size limit."""
    record = crawl.one("large-endless", ROBOTS)
    assert record.truncated == "length"
    assert 500 << 10 <= len(record.payload) < 2 << 20


def test_nobody_was_asked_without_a_licence(crawl: RawCrawl) -> None:
    """`audit` judges the whole crawl again from the archive."""
    assert crawl.result.json["unparsed"] == 0
    assert crawl.audit() == []

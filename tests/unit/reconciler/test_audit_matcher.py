"""The auditor's readers of robots.txt: right where everybody agrees, never stricter than the matcher that decides."""

import base64
import gzip
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.model.urls import InvalidUrl, canonicalize, split
from limpet.reconciler.audit_google import Google, is_installed
from limpet.reconciler.audit_matcher import BODY_BYTES_MAX, COPIES_KEPT_MAX, PlainRules, Readers, read_part
from limpet.reconciler.audit_protego import UNEXPLAINED
from limpet.robots import parse

CASES = Path(os.environ.get("LIMPET_CASES") or Path(__file__).parents[3] / ".." / "shared" / "cases")

PIECES = ("/", "a", "b", "ab", "*", "$", "%61", "%2F", "%2f", "%C3%A9", "é", "<", "%3C", "?", "=", "%24", "%2A", ".")
ODDITIES = ("%", "%zz", ":", "%3A", "index.html", "~", "%7E", "A", "%41", "2", "%32", "C3", "F")
PATHS = st.lists(st.sampled_from((*PIECES, *ODDITIES)), max_size=6).map("".join)
AGENTS = ("limpet", "*", "Limpet/1.0", "other", "lim", "limpetx", "limpet foo", "foo, limpet", "")
LINES = st.one_of(
    st.builds("User-agent: {}".format, st.sampled_from(AGENTS)),
    st.builds(
        "{} /{}".format,
        st.sampled_from(("Allow:", "Disallow:", "disallow :", "Disalow:", "Disallow", "Noindex:", "# ")),
        PATHS,
    ),
    st.builds("Crawl-delay: {}".format, st.sampled_from(("1", "2.5", "x", "1,5", "1e2", "-1", "nan", "inf"))),
    st.just(""),
)
BODIES = st.builds(
    lambda end, lines: end.join(lines).encode(), st.sampled_from(("\n", "\r\n", "\r")), st.lists(LINES, max_size=10)
)


def _plain(body: bytes, agent: str, url: str) -> bool:
    return PlainRules(body, agent).decide(split(url).path_query.encode())[0]


@given(body=BODIES, path=PATHS)
def test_what_the_matcher_allows_the_plain_reader_allows(body: bytes, path: str) -> None:
    """The matcher takes the stricter of two readings, so a false accusation would be a fault of the auditor."""
    url = canonicalize(f"http://a.test/{path}")
    if parse(body).allows("limpet", url):
        assert _plain(body, "limpet", url)


@given(body=BODIES)
def test_the_plain_reader_demands_no_longer_crawl_delay(body: bytes) -> None:
    """The gap in force is the longest that any reading asks for."""
    assert PlainRules(body, "limpet").delay_seconds <= (parse(body).crawl_delay("limpet") or 0.0)


@given(body=st.binary(max_size=300), target=st.binary(max_size=60))
def test_any_bytes_will_do(body: bytes, target: bytes) -> None:
    """No reader raises, whatever a site sends."""
    assert isinstance(PlainRules(body, "limpet").decide(b"/" + target)[0], bool)
    opinion = Readers("limpet", lambda _digest: body).opinion("d", "http://a.test/" + target.hex())
    assert isinstance(opinion.protego, bool)
    assert opinion.google in {True, False, None}


def test_undisputed_cases_come_out_right() -> None:
    """Where suites and the text of RFC 9309 agree, so does the plain reader: no case is allowed that must not be."""
    file = CASES / "robots.json"
    if not file.is_file():
        pytest.skip("The case folder does not hold robots.json; set LIMPET_CASES to the folder that does.")
    cases = [case for case in json.loads(file.read_text("utf-8"))["cases"] if _is_undisputed(case)]
    assert len(cases) > 500
    wrong = [case["id"] for case in cases if _case_verdict(case) != case["expected"]]
    assert wrong == []


def _is_undisputed(case: dict[str, Any]) -> bool:
    """Canonical URLs only: an auditor never sees another one."""
    try:
        return case["level"] in {"core", "rfc-text-only"} and canonicalize(case["url"]) == case["url"]
    except InvalidUrl:
        return False


def _case_verdict(case: dict[str, Any]) -> str:
    packed = case.get("robots_gz_b64")
    body = gzip.decompress(base64.b64decode(packed)) if packed else case["robots"].encode()
    return "allow" if _plain(body, case["user_agent"], case["url"]) else "disallow"


@pytest.mark.parametrize(
    ("rules", "path", "allowed"),
    [
        ("Disallow: /a", "/abc", False),
        ("Disallow: /a$", "/abc", True),
        ("Disallow: /*.gif$", "/x/y.gif", False),
        ("Disallow: /*.gif$", "/x/y.gif?z", True),
        ("Disallow: /a*b*c", "/a1b2c3", False),
        ("Disallow: /a*b*c", "/a1c2b3", True),
        ("Disallow: /*a$", "/aa", False),
        ("Disallow: /a*a$", "/a", True),
        ("Disallow: /\nAllow: /p", "/page", True),
        ("Allow: /page\nDisallow: /*.htm", "/page.htm", False),
        ("Allow: /p\nDisallow: /p", "/p", True),
        ("Disallow: /%7Ea", "/~a", False),
        ("Disallow: /é", "/%C3%A9", False),
        ("Disallow: /a%3cd", "/a%3Cd", False),
        ("Disallow: /a%2Fb", "/a/b", True),
        ("Disallow:", "/", True),
        ("Disallow: /", "/robots.txt", True),
        ("Disallow: /x?", "/x?y", False),
        ("Disallow: /file-%2A.html", "/file-*.html", False),
        ("Disallow: /*%41", "/%2A", True),
        ("Disallow: /*%41", "/x%2Ax", True),
        ("Disallow: /*%41$", "/%2A", True),
        ("Disallow: /*%32*%41", "/%2A", True),
        ("Disallow: /*%41", "/%2AA", False),
        ("Disallow: /*%41", "/xA", False),
        ("Disallow: /*%43%33", "/%C3%A9", True),
        ("Disallow: /*%A9", "/%C3%A9", False),
        ("Disallow: /*%2a", "/x*y", False),
        ("Disallow: /%2", "/%2A", True),
    ],
)
def test_the_plain_reader_follows_the_rfc(rules: str, path: str, allowed: bool) -> None:
    """Longest match, allow on a tie, wildcards, the end mark, escapes (RFC 9309 §2.2.2 and §2.2.3)."""
    body = f"User-agent: *\n{rules}\n".encode()
    assert PlainRules(body, "limpet").decide(path.encode())[0] is allowed


def test_groups_of_one_name_are_merged_and_others_left_out() -> None:
    """RFC 9309 §2.2.1; a byte order mark and CR line ends change nothing."""
    groups = (b"User-agent: limpet\rDisallow: /a", b"User-agent: *\rDisallow: /", b"User-agent: LIMPET\rDisallow: /b")
    body = b"\xef\xbb\xbf" + b"\r\r".join(groups)
    rules = PlainRules(body, "limpet")
    assert [rules.decide(path)[0] for path in (b"/a", b"/b", b"/c")] == [False, False, True]
    assert PlainRules(body, "other").decide(b"/c") == (False, "Disallow: /")


def test_readers_keep_a_bounded_number_of_copies() -> None:
    """Hosts come one after the other; a copy is read again rather than kept for ever."""
    asked: list[str] = []

    def body_of(digest: str) -> bytes:
        asked.append(digest)
        return b"User-agent: *\nDisallow: /a\nCrawl-delay: 2\n"

    readers = Readers("limpet", body_of)
    for number in range(COPIES_KEPT_MAX + 1):
        readers.opinion(str(number), "http://a.test/")
        readers.opinion(str(number), "http://a.test/")
    assert len(asked) == COPIES_KEPT_MAX + 1
    assert readers.delay_us("0") == 2_000_000
    assert len(asked) == COPIES_KEPT_MAX + 2


def test_all_readers_speak() -> None:
    """Their verdicts are kept apart, and what protego alone forbids has a name."""
    readers = Readers("limpet", lambda _digest: b"User-agent: *\nDisallow: /a$\n")
    assert readers.opinion("d", "http://a.test/a").forbids
    differing = readers.opinion("d", "http://a.test/a$b")
    assert (differing.plain, differing.google, differing.protego) == (True, True, False)
    assert (differing.forbids, differing.rule, differing.reason) == (False, "", "literal_dollar")


@pytest.mark.parametrize(
    ("body", "agent", "path", "name"),
    [
        ("User-agent: lim\nDisallow: /", "limpet", "/x", "name_inside_name"),
        ("User-agent: *\nDisallow: /a$", "limpet", "/a$b", "literal_dollar"),
        ("User-agent: *\nAllow: /abc\nDisallow: /é*", "limpet", "/abc", UNEXPLAINED),
        ("User-agent: *\nDisallow: /a%3Ab", "limpet", "/a:b", "reserved_escapes"),
        ("User-agent: *\nDisallow: /*%41", "limpet", "/%2A", "inside_escape"),
        ("User-agent: *\nDisallow: /*%43", "limpet", "/%C3%A9", "inside_escape"),
        ("User-agent: *\nNoise: 1\x0cDisallow: /x", "limpet", "/x", "odd_lines"),
    ],
)
def test_what_protego_alone_forbids_has_a_name(body: str, agent: str, path: str, name: str) -> None:
    """Each known difference is recognised on the file at hand."""
    opinion = Readers(agent, lambda _digest: body.encode()).opinion("d", f"http://a.test{path}")
    if name == UNEXPLAINED:
        assert opinion.reason == ""
    else:
        assert (opinion.plain, opinion.google, opinion.protego, opinion.reason) == (True, True, False, name)


@pytest.mark.parametrize(
    ("body", "path", "allowed"),
    [
        (b"User-agent: *\nDisallow: /robots.txt", "/robots.txt", True),
        (b"User-agent: *\nDisallow: /a%3cb", "/a%3cb", False),
        (b"User-agent: *\nDisallow: /*a*b$", "/xxaxxb", False),
        (b"\xff\x00\xfe", "/", True),
        (b"User-agent: *\nDisallow: /\nAllow: /%7Ejoe/", "/~joe/x", True),
        (b"User-agent: *\rDisallow: /\r allow : /%7ejoe/", "/~joe/x", True),
        (b"User-agent: *\nDisallow: /\nAllow: /~joe/", "/%7ejoe/x", True),
        (b"User-agent: *\nDisallow: /\nAllow: /a%2fb", "/a/b", False),
        (b"User-agent: *\nDisallow: /~joe/\nAllow: /%7E", "/~joe/x", False),
    ],
)
def test_googles_parser_is_asked_so_that_it_understands(body: bytes, path: str, allowed: bool) -> None:
    """Escapes in upper case, needless ones undone for an Allow, `/robots.txt` exempt, any bytes."""
    if not is_installed():
        pytest.skip("Google's parser has no wheel for this machine")
    assert Google(body, "limpet").allows(f"http://a.test{path}") is allowed


def test_what_google_cannot_judge_at_a_bearable_price_is_counted() -> None:
    """A file full of stars, asked for again and again: the rest is left to the others, and told."""
    if not is_installed():
        pytest.skip("Google's parser has no wheel for this machine")
    body = b"User-agent: *\n" + b"Disallow: /*a*b\n" * 100
    readers = Readers("limpet", lambda _digest: body, google_cost_max=5_000_000)
    verdicts = [readers.opinion("d", "http://a.test/" + "z" * 9_000 + str(n)).google for n in range(5)]
    assert (verdicts[0], verdicts[-1]) == (True, None)
    assert sum(readers.unread.values()) == verdicts.count(None)


def test_only_the_first_500_kib_are_read() -> None:
    """RFC 9309 §2.5; the line that the bound cuts is not read at all."""
    head = b"User-agent: *\n#" + b"x" * (BODY_BYTES_MAX - 30) + b"\n"
    assert read_part(head + b"Disallow: /zoo\n") == head + b"Disallow: /zoo\n"[: BODY_BYTES_MAX - len(head)]
    cut = read_part(head + b"Disallow: /zookeeper\n")
    assert cut == head
    assert PlainRules(cut, "limpet").decide(b"/zookeeper")[0]


@given(body=BODIES, path=PATHS)
def test_what_the_matcher_allows_google_allows(body: bytes, path: str) -> None:
    """The crawler fetches nothing that Google's parser would call a violation."""
    if not is_installed():
        pytest.skip("Google's parser has no wheel for this machine")
    url = canonicalize(f"http://a.test/{path}")
    if parse(body).allows("limpet", url):
        assert Google(body, "limpet").allows(url)


@pytest.mark.parametrize(
    "body",
    [
        b"User-agent: *\n" + b"Disallow: /*a*a*a*a*a*a*a*a*b\n" * 1_000,
        b"".join(b"User-agent: a%d\n" % number for number in range(25_000)) + b"Disallow: /\n" * 10_000,
        b"User-agent: *\n" + b"Crawl-delay: 1\nUser-agent: limpet\n" * 10_000,
    ],
    ids=["stars", "agents", "delays"],
)
def test_hostile_files_do_not_stop_an_audit(body: bytes) -> None:
    """Half a megabyte made to be slow is read in seconds; protego is spared what it cannot bear."""
    begun = time.perf_counter()
    readers = Readers("limpet", lambda _digest: body[:512_000])
    readers.opinion("d", "http://a.test/" + "a" * 2_000)
    assert time.perf_counter() - begun < 10

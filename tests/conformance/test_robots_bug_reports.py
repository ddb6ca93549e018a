"""What broke other crawlers' robots handling, by public reports: marks, escapes, and files built to hurt."""

import time

import pytest

from limpet.robots import HttpAnswer, RobotsJudge, RobotsState, Settled, advance, next_step, parse

FORBID_ALL = "User-agent: *\nDisallow: /\n"


def _allows(body: bytes, path: str) -> bool:
    return parse(body).allows("limpet", f"http://example.com{path}")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_g13_a_byte_order_mark_does_not_open_the_site(end: str) -> None:
    """With a UTF-8 mark before the first line the first group still counts."""
    assert not _allows(b"\xef\xbb\xbf" + FORBID_ALL.replace("\n", end).encode(), "/x")


@pytest.mark.parametrize("coding", ["utf-16-le", "utf-16-be"])
def test_g13_utf_16_is_survived_and_said(coding: str) -> None:
    """A file with no valid rule, and a reason the operator can see; never an exception."""
    body = ("\ufeff" + FORBID_ALL).encode(coding)
    step = next_step(0, HttpAnswer(200, body=body))
    assert isinstance(step, Settled)
    assert step.reason == "unparseable"
    assert _allows(body, "/x")


@pytest.mark.parametrize(
    ("rule", "path", "allowed"),
    [
        ("/*%2F*", "/a/b", True),
        ("/*%2F*", "/a%2Fb", False),
        ("/path/file-with-a-%2A.html", "/path/file-with-a-*.html", False),
        ("/path/foo-%24", "/path/foo-$", False),
        ("/ツ", "/%E3%83%84", False),
        ("/%e3%83%84", "/%E3%83%84", False),
        ("/%62%61%7A", "/baz", False),
        ("/*s=", "/?s=asd", False),
        ("/hide?", "/hide?id=1", False),
        ("/hide?", "/hide", True),
        ("/f/", "//f/x", True),
    ],
)
def test_g15_escapes_and_special_characters(rule: str, path: str, allowed: bool) -> None:
    """Too much and too little are both wrong; the string asked about is the one that goes on the wire."""
    assert _allows(f"User-agent: *\nDisallow: {rule}\n".encode(), path) is allowed


@pytest.mark.parametrize(
    ("allow", "path", "allowed"),
    [
        ("/%7Ejoe/", "/~joe/x", True),
        ("/%7ejoe/", "/~joe/x", True),
        ("/~joe/", "/%7Ejoe/x", True),
        ("/foo%62", "/foob", True),
        ("/%66%6F%6f$", "/foo", True),
        ("/foo%62", "/fooc", False),
        ("/a%2Fb", "/a/b", False),
        ("/a/b", "/a%2Fb", False),
        ("/%257Ejoe/", "/~joe/x", False),
    ],
)
def test_an_allow_with_needless_escapes_allows_what_it_names(allow: str, path: str, allowed: bool) -> None:
    """RFC 9309 section 2.2.2: unreserved octets are compared decoded, and no others are."""
    body = f"User-agent: *\nDisallow: /\nAllow: {allow}\n".encode()
    assert _allows(body, path) is allowed
    assert not _allows(body + f"Disallow: {path}z\n".encode(), path + "z"), "a longer Disallow wins"


def _padding(lines: int) -> bytes:
    return b"User-agent: *\n" + b"".join(b"Disallow: /pad%05d/\n" % number for number in range(lines))


def test_g17_late_rules_of_a_large_file_count() -> None:
    """462,033 bytes lie inside the limit of 500 KiB."""
    body = _padding(22_000) + b"Disallow: /secret/\n"
    assert len(body) == 462_033
    assert not _allows(body, "/secret/x")


def test_g17_the_line_cut_by_the_limit_is_dropped() -> None:
    """2 MB: rules before the limit count, and "Disallow: /zzz…" is not read as "Disallow: /"."""
    cut = b"Disallow: /"
    early = _padding(22_000)
    filler = b"#" * (512_000 - len(early) - len(cut) - 1) + b"\n"
    body = early + filler + b"Disallow: /" + b"z" * 40 + b"\n" + _padding(80_000)
    assert body[:512_000].endswith(cut)
    assert len(body) > 2_000_000
    assert not _allows(body, "/pad21999/x")
    assert _allows(body, "/x")


def test_g17_stars_do_not_freeze_the_crawler() -> None:
    """The pattern that hangs backtracking matchers is answered in under 10 ms."""
    rules = parse(b"User-agent: *\nDisallow: /" + b"*a*" * 24 + b"b$\n")
    url = "http://example.com/" + "a" * 48
    times = []
    for _ in range(3):
        start = time.perf_counter()
        assert rules.allows("limpet", url)
        times.append(time.perf_counter() - start)
    assert min(times[1:]) < 0.010


@pytest.mark.parametrize(
    "body",
    [
        b"User-agent: x\n" * 40_000,
        b"User-agent: *\nDisallow: /" + b"a" * 600_000,
        b"\n" * 600_000,
        b"a\n" * 300_000,
        b"\xef\xbb\xbf" * 200_000,
        b"User-agent: *," + b"a," * 300_000,
        b"user agent a b\nDisallow: /y\n" * 20_000,
        b"User-agent: *\nCrawl-delay: 1\n" * 20_000,
    ],
    ids=["agents", "one-line", "blank", "words", "marks", "commas", "loose", "delays"],
)
def test_g17_files_built_to_hurt_are_parsed_in_well_under_a_second(body: bytes) -> None:
    """Whatever a line costs, the file costs no more than all its lines."""
    start = time.process_time()
    rules = parse(body)
    assert rules.allows("limpet", "http://example.com/x")
    assert rules.crawl_delay("limpet") in (None, 1.0)
    assert time.process_time() - start < 1


def test_g17_an_endless_stream_is_read_as_its_first_500_kib() -> None:
    """The reader stops above the limit; what it hands over is obeyed up to the last whole line."""
    stream = (b"User-agent: *\nDisallow: /x\n" + b"# endless\n" * 60_000)[:512_001]
    step = next_step(0, HttpAnswer(200, body=stream))
    assert isinstance(step, Settled)
    state = advance(RobotsState(), step, 0, 0.0)
    rules = RobotsJudge().rules(state, 0)
    assert rules is not None
    assert not rules.allows("limpet", "http://example.com/x")
    assert len(step.body) <= 512_000

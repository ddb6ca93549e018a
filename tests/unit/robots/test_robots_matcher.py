"""Paths and patterns: which rule wins for a URL."""

import time
from collections.abc import Callable

import pytest

from limpet.robots import Decision, parse
from limpet.robots.octets import target
from limpet.robots.patterns import WORK_BYTES_MAX
from limpet.robots.rules import AGENTS_CACHED_MAX


def _decide(lines: str, path: str) -> Decision:
    return parse(f"User-agent: *\n{lines}".encode()).decide("limpet", f"http://example.com{path}")


def _forbids(pattern: str, path: str) -> bool:
    return not _decide(f"Disallow: {pattern}\n", path).allowed


def _fastest(work: Callable[[], object], tries: int = 5) -> float:
    times = []
    for _ in range(tries):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.parametrize(
    ("pattern", "path", "forbidden"),
    [
        ("/", "", True),
        ("/", "?x", True),
        ("/x?", "/x?", True),
        ("/x?", "/x", False),
        ("/*?", "/a?", True),
        ("/hide?", "/hide?id=1", True),
        ("/*s=", "/?s=asd", True),
        ("/f/", "//f/x", False),
        ("/a", "/A", False),
        ("/a", "/ab", True),
        ("/a$", "/a", True),
        ("/a$", "/a?", False),
        ("/a$b", "/a$bc", True),
        ("/$", "/", True),
        ("/$", "/a", False),
        ("$", "/", False),
        ("*", "/a", True),
        ("*$", "/a", True),
        ("/*$", "/a", True),
        ("/a*", "/a", True),
        ("/a*$", "/ab", True),
        ("/a**b", "/acb", True),
        ("/*a*b", "/xbxa", False),
        ("/*a*b", "/xaxbx", True),
        ("/*ab$", "/abab", True),
        ("/ab*ab$", "/ab", False),
        ("/ab*b$", "/ab", False),
        ("/ab*b$", "/abb", True),
        ("*.gif$", "/x.gif", True),
        ("*.gif$", "/x.gif?", False),
        ("a", "/a", False),
        ("/a#b", "/a", True),
    ],
)
def test_patterns(pattern: str, path: str, forbidden: bool) -> None:
    """RFC 9309 sections 2.2.2 and 2.2.3: prefix match, `*` for any octets, a final `$` for the end."""
    assert _forbids(pattern, path) is forbidden


@pytest.mark.parametrize(
    ("pattern", "path", "forbidden"),
    [
        ("/%62%61%7A", "/baz", True),
        ("/baz", "/%62%61%7A", True),
        ("/ツ", "/%E3%83%84", True),
        ("/ツ", "/ツ", True),
        ("/%e3%83%84", "/%E3%83%84", True),
        ("/%E3%83%84", "/%e3%83%84", True),
        ("/*%2F*", "/a/b", False),
        ("/*%2F*", "/a%2fb", True),
        ("/a/b", "/a%2Fb", False),
        ("/f-%2A.html", "/f-*.html", True),
        ("/f-%2A.html", "/f-foo.html", False),
        ("/foo-%24", "/foo-$", True),
        ("/foo-%24", "/foo-%24", True),
        ("/foo-%24", "/foo-", False),
        ("/x$/a", "/x%24/ab", True),
        ("/a b", "/a%20b", True),
        ('/<">', "/%3C%22%3E", True),
        ("/%7Ejim", "/~jim", True),
        ("/*%", "/%41", True),
        ("/*%4", "/%41", True),
        ("/%zz", "/%zz", True),
        ("/%zz", "/%25zz", True),
        ("/100%", "/100%", True),
    ],
)
def test_percent_encoding(pattern: str, path: str, forbidden: bool) -> None:
    """RFC 9309 section 2.2.2, and escapes as written: a path that either reading forbids is forbidden."""
    assert _forbids(pattern, path) is forbidden


@pytest.mark.parametrize(
    ("rules", "path", "allowed"),
    [
        ("Disallow: /\nAllow: /%7Ejoe/", "/~joe/x", True),
        ("Disallow: /\nAllow: /~joe/", "/%7Ejoe/x", True),
        ("Disallow: /\nAllow: /%7ejoe/", "/%7Ejoe/x", True),
        ("Disallow: /\nAllow: /foo%62", "/foob", True),
        ("Disallow: /\nAllow: /*%62$", "/foob", True),
        ("Disallow: /\nAllow: /foo%62", "/fooa", False),
        ("Disallow: /foo\nAllow: /fo%6F", "/foo", True),
        ("Disallow: /foob\nAllow: /%66oo", "/foob", False),
        ("Disallow: /%7Ejoe/\nAllow: /~joe/", "/~joe/x", True),
        ("Disallow: /%66oob\nAllow: /foo", "/foob", False),
        ("Disallow: /*%\nAllow: /~", "/%7Ea", False),
        ("Disallow: /*%\nAllow: /", "/%7Ea", False),
        ("Disallow: /\nAllow: /a%2Fb", "/a/b", False),
        ("Disallow: /\nAllow: /a/b", "/a%2Fb", False),
        ("Disallow: /\nAllow: /%2A", "/x", False),
        ("Disallow: /\nAllow: /%252e", "/.", False),
        ("Disallow: /", "/~joe/x", False),
    ],
)
def test_an_allow_is_the_same_however_unreserved_octets_are_spelt(rules: str, path: str, allowed: bool) -> None:
    """RFC 9309 section 2.2.2: they are compared decoded; reserved ones never, and no Disallow loses by it."""
    assert _decide(rules + "\n", path).allowed is allowed


def test_an_allow_must_hold_in_both_readings_of_other_escapes() -> None:
    """Where the spelling of what is not unreserved decides whether a URL is allowed, it is not."""
    assert not _decide("Disallow: /\nAllow: /%24\n", "/$").allowed
    assert _decide("Disallow: /\nAllow: /caf\u00e9\n", "/caf%C3%A9").allowed


@pytest.mark.parametrize(
    ("lines", "path", "rule"),
    [
        ("Allow: /\nDisallow: /x\n", "/x", "Disallow: /x"),
        ("Disallow: /x\nAllow: /x/y\n", "/x/y/z", "Allow: /x/y"),
        ("Disallow: /x\nAllow: /x\n", "/x", "Allow: /x"),
        ("Disallow: /*/b\nAllow: /a\n", "/a/b", "Disallow: /*/b"),
        ("Disallow: /a$\nAllow: /a\n", "/a", "Disallow: /a$"),
        ("Disallow: /a*\nAllow: /a/\n", "/a/b", "Allow: /a/"),
        ("Disallow: /a*\nAllow: /a\n", "/ab", "Disallow: /a*"),
        ("Disallow: /a/b\nAllow: /*.html\n", "/a/b.html", "Allow: /*.html"),
        ("Disallow:\nAllow:\n", "/x", None),
        ("Disallow: /y\n", "/x", None),
    ],
)
def test_the_most_octets_win_and_allow_wins_a_tie(lines: str, path: str, rule: str | None) -> None:
    """RFC 9309 section 2.2.2; order in the file does not matter, no match allows."""
    decision = _decide(lines, path)
    assert decision.rule == rule
    assert decision.allowed is (rule is None or rule.startswith("Allow"))
    backwards = "".join(f"{line}\n" for line in reversed(lines.splitlines()))
    assert _decide(backwards, path) == decision


def test_robots_txt_itself_is_always_allowed() -> None:
    """RFC 9309 section 2.2.2; no other spelling of it is."""
    assert _decide("Disallow: /\n", "/robots.txt") == Decision(allowed=True, rule=None)
    assert parse(b"User-agent: *\nDisallow: /\n").allows("limpet", "http://example.com/robots.txt")
    assert not _decide("Disallow: /\n", "/robots.txt?x").allowed
    assert not _decide("Disallow: /\n", "/a/robots.txt").allowed


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("http://h", b"/"),
        ("http://h?q", b"/?q"),
        ("http://h/?q=/#f", b"/?q=/"),
        ("https://h:8/a/b;c?d=http://x/", b"/a/b;c?d=http://x/"),
        ("http://h#/f", b"/"),
        ("http://[::1]:8083/p", b"/p"),
        ("/a?b", b"/a?b"),
        ("a", b"/a"),
        ("", b"/"),
        ("http://h/\udcff", b"/\xed\xb3\xbf"),
    ],
)
def test_the_target_is_path_and_query(url: str, path: bytes) -> None:
    """What is matched is what goes on the request line; text that is no URL does not raise."""
    assert target(url) == path


@pytest.mark.parametrize("stars", [6, 24, 2_000, 100_000])
def test_stars_cost_no_more_than_a_walk_along_the_path(stars: int) -> None:
    """A pattern full of stars against an 8 KB URL is answered in under 10 ms, even cut off at the longest line."""
    rules = parse(b"User-agent: *\nDisallow: /" + b"*a" * stars + b"b\n")
    url = "http://example.com/" + "a" * 8_192
    rules.allows("limpet", url)
    assert _fastest(lambda: rules.allows("limpet", url)) < 0.010


def test_a_file_of_nothing_but_stars_is_bounded_and_fails_closed() -> None:
    """Many starred rules times a long URL: past the bound the answer is no, quickly, and says why."""
    body = b"User-agent: *\n" + b"".join(b"Disallow: /*ab%05x\n" % number for number in range(25_000))
    rules = parse(body)
    url = "http://example.com/" + "a" * 8_192
    assert 25_000 * len(url) > WORK_BYTES_MAX
    assert rules.decide("limpet", url) == Decision(allowed=False, rule="Disallow: (too many wildcards to search)")
    assert rules.allows("limpet", "http://example.com/short")
    assert _fastest(lambda: rules.allows("limpet", url)) < 0.2


def test_a_large_file_is_parsed_quickly_and_asked_in_microseconds() -> None:
    """22,000 plain rules cost one look-up per length of prefix, not one comparison per rule."""
    body = b"User-agent: *\n" + b"".join(b"Disallow: /pad%05d/\n" % number for number in range(22_000))
    assert _fastest(lambda: parse(body), tries=2) < 1
    rules = parse(body)
    assert not rules.allows("limpet", "http://example.com/pad21999/x")
    assert _fastest(lambda: [rules.allows("limpet", "http://example.com/x/y") for _ in range(1_000)]) < 0.05


def test_the_cache_of_compiled_groups_is_bounded() -> None:
    """Asking for many agents does not grow a Rules without end, and answers stay right."""
    rules = parse(b"User-agent: *\nDisallow: /x\n")
    for number in range(AGENTS_CACHED_MAX * 3):
        assert not rules.allows(f"bot-{number}", "http://example.com/x")
    assert len(rules._groups) <= AGENTS_CACHED_MAX

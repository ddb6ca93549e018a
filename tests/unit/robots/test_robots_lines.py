"""Lines, groups and mistakes: how a body becomes rules."""

import hashlib

import pytest

from limpet.robots import BODY_BYTES_MAX, digest, parse
from limpet.robots.lines import capped
from limpet.robots.rules import RULE_TEXT_CHARS_MAX, SITEMAPS_MAX

URL = "http://example.com/x"


def _forbids(body: bytes, url: str = URL, agent: str = "limpet") -> bool:
    return not parse(body).allows(agent, url)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf", b"\xef\xbb", b"\xef", b"\xef\xbb\xbf\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_byte_order_mark_hides_no_rule(mark: bytes, end: bytes) -> None:
    """A whole, cut or doubled UTF-8 mark is skipped, whatever the line ends are."""
    assert _forbids(mark + end.join((b"User-agent: *", b"Disallow: /", b"")))


def test_a_mark_inside_the_file_is_no_mark() -> None:
    """Only the start of the file can hold a byte order mark."""
    assert not _forbids(b"User-agent: *\n\xef\xbb\xbfDisallow: /\n")


@pytest.mark.parametrize("coding", ["utf-16-le", "utf-16-be"])
def test_utf_16_holds_no_rules(coding: str) -> None:
    """RFC 9309 section 2.3: the file is UTF-8; anything else is survived, not guessed."""
    body = "\ufeffUser-agent: *\nDisallow: /\n".encode(coding)
    assert not _forbids(body)
    assert not parse(body).names("limpet")


@pytest.mark.parametrize("separator", ["\u2028", "\u0085", "\u000b", "\u000c", "\u001c"])
def test_only_cr_and_lf_end_a_line(separator: str) -> None:
    """A comment goes on past what other texts call a line separator."""
    assert _forbids(f"User-agent: *\n# note{separator}Allow: /x\nDisallow: /\n".encode())


def test_comments_end_where_the_line_ends() -> None:
    """`#` begins a comment anywhere in a line, right after a value too."""
    assert _forbids(b"User-agent: * # all\nDisallow: /x#y\n# Allow: /x\n")


def test_blank_lines_do_not_end_a_group() -> None:
    """RFC 9309 groups are not separated by blank lines."""
    assert _forbids(b"User-agent: *\n\n\nDisallow: /y\n\nDisallow: /x\n")


@pytest.mark.parametrize("line", [b"Harry: Potter", b"Crawl-delay: 5", b"Sitemap: http://e/s", b"???", b"Host: e"])
def test_other_lines_do_not_end_a_group(line: bytes) -> None:
    """RFC 9309 section 2.2.4: other records must not interfere, between agents or between rules."""
    body = b"User-agent: limpet\n%s\nUser-agent: other\n%s\nDisallow: /x\n" % (line, line)
    assert _forbids(body)
    assert _forbids(body, agent="other")


def test_an_empty_disallow_still_ends_the_agent_lines() -> None:
    """`Disallow:` forbids nothing, but the next User-agent line begins another group."""
    body = b"User-agent: limpet\nDisallow:\nUser-agent: *\nDisallow: /\n"
    assert not _forbids(body)
    assert _forbids(body, agent="other")


def test_rules_before_the_first_agent_bind_nobody() -> None:
    """RFC 9309 section 2.2.1: a group begins with a User-agent line."""
    assert not _forbids(b"Disallow: /\nUser-agent: *\nDisallow: /y\n")


def test_groups_that_name_the_same_agent_are_merged() -> None:
    """RFC 9309 section 2.2.1, and the groups for everyone do not count beside them."""
    body = b"User-agent: limpet\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\n\nUser-agent: LIMPET\nDisallow: /c\n"
    verdicts = [_forbids(body, f"http://example.com/{path}") for path in "abc"]
    assert verdicts == [True, False, True]


@pytest.mark.parametrize("value", [b"Limpet", b"limpet/1.2", b"LIMPET bar", b"limpet*", b"limpet 2 (x; y)"])
def test_an_agent_line_names_the_token_it_begins_with(value: bytes) -> None:
    """Versions and further words after the token are ignored; case does not matter."""
    rules = parse(b"User-agent: %s\nDisallow: /x\nUser-agent: *\nDisallow:\n" % value)
    assert rules.names("limpet")
    assert not rules.allows("limpet", URL)
    assert not rules.allows("Limpet/9.9", URL)


@pytest.mark.parametrize("value", [b"limpetbot", b"limp", b"my-limpet", b"x limpet"])
def test_a_token_is_matched_whole(value: bytes) -> None:
    """Group `Foo` captures neither `FooBot` nor the other way round."""
    rules = parse(b"User-agent: %s\nAllow: /x\nUser-agent: *\nDisallow: /\n" % value)
    assert not rules.names("limpet")
    assert not rules.allows("limpet", URL)


def test_a_star_followed_by_words_means_everyone() -> None:
    """As Google's parser reads it."""
    assert _forbids(b"User-agent: * all of you\nDisallow: /\n")


ODD_STARS = [
    *(b"*" + tail for tail in (b"\0", b"\0x", b"\xc2\xa0", b"\xa0", b"\xe2\x80\x8b", b"\xc2\x85", b"\xef\xbb\xbf")),
    *(b"*" + tail for tail in (b";", b"*", b"/*", b"$", b"%00", b"/2", b", x", b"bot")),
    *(head + b"*" for head in (b"\0", b"\xc2\xa0", b"\xa0", b"\xe2\x80\x8b", b"\xef\xbb\xbf", b"x, \xc2\xa0")),
]


@pytest.mark.parametrize("value", ODD_STARS)
def test_a_star_beside_odd_bytes_may_forbid_but_frees_nobody(value: bytes) -> None:
    """RFC 9309 has no such agent; some parsers read the star, others nothing: the stricter of the two counts."""
    assert _forbids(b"User-agent: %s\nDisallow: /\n" % value)
    assert _forbids(b"User-agent: *\nDisallow: /\n\nUser-agent: %s\nAllow: /x\n" % value)
    assert _forbids(b"User-agent: %s\nDisallow: /x\n\nUser-agent: *\nAllow: /y\n" % value)


@pytest.mark.parametrize("value", ODD_STARS)
def test_a_star_beside_odd_bytes_does_not_bind_whom_a_group_names(value: bytes) -> None:
    """A group of one's own goes before those for everyone, and an odd star still ends the group above it."""
    assert not _forbids(b"User-agent: limpet\nDisallow: /y\n\nUser-agent: %s\nDisallow: /\n" % value)


def test_groups_under_odd_stars_are_merged_with_those_for_everyone() -> None:
    """Who reads the star merges: an Allow for everyone holds against a shorter Disallow under an odd star."""
    body = b"User-agent: *\nAllow: /x/y\n\nUser-agent: *;\nDisallow: /x\nCrawl-delay: 7\n"
    assert not _forbids(body, "http://example.com/x/y")
    assert _forbids(body)
    assert parse(body).crawl_delay("limpet") == 7


def test_one_odd_star_does_not_undo_another() -> None:
    """An Allow under a less certain name does not open what a more certain one forbids, whatever the key looks like."""
    assert _forbids(b"User_agent: *;\nDisallow: /\n")
    assert _forbids(b"User-agent: x, *\nDisallow: /\n\nUser-agent: x, \xc2\xa0*\nAllow: /x\n")
    assert _forbids(b"User-agent: *;\nDisallow: /\n\nUser-agent: \xc2\xa0*\nAllow: /x\n")


@pytest.mark.parametrize(
    "unseen", [b"\0", b"\xc2\xa0", b"\xa0", b"\xc2\x85", b"\x85", b"\xe2\x80\x8b", b"\xef\xbb\xbf", b"\x1f"]
)
def test_unseen_bytes_around_a_value_may_forbid_but_free_nothing(unseen: bytes) -> None:
    """A Disallow counts with them and without them, an Allow as it stands; a name behind them is bound, not freed."""
    assert _forbids(b"User-agent: *\nDisallow: /x%s\n" % unseen)
    assert _forbids(b"User-agent: *\nDisallow: %s/x\n" % unseen)
    assert _forbids(b"User-agent: *\nDisallow: /\nAllow: %s/x\n" % unseen)
    assert _forbids(b"User-agent: *\nDisallow: /\nAllow: /x%s\n" % unseen)
    assert _forbids(b"User-agent: *\nAllow: /\n\nUser-agent: %slimpet\nDisallow: /\n" % unseen)
    assert _forbids(b"User-agent: *\nDisallow: /\n\nUser-agent: %slimpet\nAllow: /\n" % unseen)


def test_letters_that_end_in_the_byte_of_a_blank_stay_whole() -> None:
    """The second byte of a-grave in UTF-8 alone is a Latin-1 blank: cut off, the rule would forbid its kin."""
    body = "User-agent: *\nDisallow: /\u00e0\n".encode()
    assert _forbids(body, "http://example.com/%C3%A0")
    assert not _forbids(body, "http://example.com/%C3%A9")


def test_a_line_counts_up_to_a_nul_and_past_it() -> None:
    """Google's parser stops at a NUL, others do not: groups are cut both ways and both must allow."""
    assert _forbids(b"User-agent: *\nDisallow: /x\0y\n")
    assert _forbids(b"User-agent: *\nDisallow: /x\0y\n", "http://example.com/x%00y")
    assert _forbids(b"User-agent: limpet\nAllow\0: /x\nUser-agent: *\nDisallow: /\n")
    assert _forbids(b"User-agent: limpet\0: x\nDisallow: /\nUser-agent\0: x\n")
    assert not parse(b"User-agent\0: limpet\nDisallow:\n").names("limpet")


def test_many_odd_lines_take_linear_work() -> None:
    """Half a megabyte of blanks around values is read, and only its bytes count."""
    blanks = b"\xe2\x80\x8b" * 5_000
    body = b"".join(b"User-agent: %s*\nDisallow: %s/x\0\n" % (blanks, blanks) for _ in range(16))
    assert _forbids(body)
    assert not _forbids(body, "http://example.com/y")


def test_a_comma_list_binds_all_its_members_and_frees_none() -> None:
    """A list is no valid line, but its wish is plain: it may forbid more than the other groups do, never allow more."""
    body = b"User-agent: googlebot, limpet/2.0, *\nDisallow: /x\nAllow: /y\nUser-agent: *\nDisallow: /y\n"
    assert _forbids(body)
    assert _forbids(body, "http://example.com/y")
    assert not _forbids(body, "http://example.com/z")
    assert not parse(body).names("limpet")


@pytest.mark.parametrize(
    "line",
    [
        b"Disallow : /x",
        b"  DISALLOW:/x  ",
        b"disallow /x",
        b"Disalow: /x",
        b"Dissallow: /x",
        b"Desallow: /x",
        b"Disallow /x extra",
        b"Disallowed: /x",
        b"Dont allow: /x",
        b"Dissallaw: /x",
    ],
)
def test_a_misspelt_disallow_counts(line: bytes) -> None:
    """Typos, missing colons and stray spaces do not open what the owner closed."""
    assert _forbids(b"User-agent: *\n%s\n" % line, "http://example.com/x%20extra")


def test_a_colon_inside_the_value_does_not_hide_the_rule() -> None:
    """Without its own colon the line is cut at the first word, not in the middle of the path."""
    assert _forbids(b"User-agent: *\nDisallow /a:b\n", "http://example.com/a:b/c")


@pytest.mark.parametrize("line", [b"Allaw: /x", b"Alow: /x", b"Allow /x y"])
def test_a_misspelt_allow_does_not_count(line: bytes) -> None:
    """In doubt the stricter reading is taken."""
    body = b"User-agent: *\nDisallow: /\n%s\n" % line
    assert _forbids(body)
    assert _forbids(body, "http://example.com/x%20y")
    assert _forbids(body, "http://example.com/x y")


@pytest.mark.parametrize("key", [b"User agent:", b"Useragent:", b"user-agent", b"USER-AGENT :"])
def test_a_misspelt_user_agent_counts(key: bytes) -> None:
    """The spellings that Google's parser takes begin a group."""
    assert _forbids(b"User-agent: *\nDisallow:\n%s limpet\nDisallow: /x\n" % key)


@pytest.mark.parametrize("line", [b"user agent limpet if you please", b"useg-agent: limpet", b"User_agent: *"])
def test_a_loosely_written_agent_line_adds_and_takes_nothing_away(line: bytes) -> None:
    """What follows binds the agent it seems to name and goes on binding those of the group above."""
    body = b"User-agent: other\nDisallow: /y\n%s\nDisallow: /x\n" % line
    assert _forbids(body)
    assert _forbids(body, agent="other")
    assert not _forbids(body, "http://example.com/y")


def test_a_misspelt_disallow_does_not_end_the_agent_lines() -> None:
    """A line that other parsers skip must not cut a group in two: the rest of it would be lost to its first agents."""
    assert _forbids(b"User-agent: limpet\nDesallow: /z\nUser-agent: *\nDisallow: /x\n")


def test_the_cap_drops_the_line_it_cuts() -> None:
    """RFC 9309 section 2.5: rules before 500 KiB count; half a line is not read as a shorter one."""
    head = b"User-agent: *\nDisallow: /early/\n"
    filler = b"#" * (BODY_BYTES_MAX - len(head) - len(b"\nDisallow: /")) + b"\n"
    body = head + filler + b"Disallow: /zzz\n" * 100
    assert body[:BODY_BYTES_MAX].endswith(b"\nDisallow: /")
    assert _forbids(body, "http://example.com/early/")
    assert not _forbids(body)


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_line_that_ends_at_the_cap_is_whole(end: bytes) -> None:
    """The line end may be the last byte inside or the first outside."""
    rule = b"Disallow: /x"
    for inside in (0, len(end)):
        head = b"User-agent: *\n"
        body = head + b"#" * (BODY_BYTES_MAX - len(head) - 1 - len(rule) - inside) + b"\n" + rule + end + b"#more\n"
        assert _forbids(body), (end, inside)
        assert len(capped(body)) == BODY_BYTES_MAX


def test_one_endless_line_holds_no_rule() -> None:
    """A file that is one line longer than the cap has no whole line."""
    assert capped(b"Disallow: /" * 60_000) == b""


def test_the_digest_is_of_the_parsed_bytes() -> None:
    """Two bodies that differ only behind the cap license the same and have one digest."""
    body = b"#\n" * (BODY_BYTES_MAX // 2)
    assert digest(body + b"Disallow: /1\n") == digest(body) == hashlib.sha256(body).hexdigest()
    assert digest(b"a") != digest(b"b")


def test_an_overlong_disallow_is_cut_and_an_overlong_allow_is_not() -> None:
    """A cut Disallow forbids more, so it is the safe side; a cut Allow would allow more."""
    long = "a" * 20_000
    body = f"User-agent: *\nDisallow: /{long}\n".encode()
    assert _forbids(body, f"http://example.com/{long[:17_000]}")
    body = f"User-agent: *\nDisallow: /\nAllow: /{long}\n".encode()
    assert _forbids(body, f"http://example.com/{long[:17_000]}")
    assert not _forbids(body, f"http://example.com/{long}")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"10", 10.0),
        (b"0.5", 0.5),
        (b"1,5", 1.5),
        (b"10s", 10.0),
        (b"5 seconds # please", 5.0),
        (b"1e3", 1000.0),
        (b"1e300", 315_360_000.0),  # ten years
        (b"9" * 60, 315_360_000.0),
        (b"31536000", 31_536_000.0),
        (b"0", 0.0),
        (b"-1", None),
        (b"1e999", None),
        (b"inf", None),
        (b"nan", None),
        (b"1_0", 1.0),
        (b"", None),
        (b"soon", None),
    ],
)
def test_crawl_delay_takes_any_finite_number(value: bytes, seconds: float | None) -> None:
    """Sizes are not judged here; what does not begin with a finite number from zero up is no delay."""
    assert parse(b"User-agent: *\nCrawl-delay: %s\n" % value).crawl_delay("limpet") == seconds


def test_crawl_delay_follows_the_group_and_takes_the_longest() -> None:
    """The named groups count, merged, else those for everyone; a delay speaks for the agent lines above it."""
    body = b"User-agent: limpet\nCrawl-delay: 2\nUser-agent: other\nDisallow: /x\nUser-agent: *\nCrawl-delay: 9\n"
    rules = parse(body + b"User-agent: limpet\nCrawl-delay: 7\n")
    assert rules.crawl_delay("limpet") == 7
    assert rules.crawl_delay("other") is None
    assert rules.crawl_delay("third") == 9
    assert not rules.allows("limpet", URL)


def test_names_tells_whether_our_token_is_named() -> None:
    """`*` names nobody."""
    rules = parse(b"User-agent: *\nDisallow: /\nUser-agent: Limpet\nDisallow:\n")
    assert rules.names("limpet")
    assert not rules.names("other")
    assert not rules.names("*")


def test_sitemaps_are_listed_once_and_bounded() -> None:
    """Sitemaps stand outside the groups; a file can list only so many, each only so long."""
    lines = [b"Sitemap: https://e/%d" % number for number in range(SITEMAPS_MAX + 10)]
    rules = parse(
        b"\n".join([b"sitemap https://e/0", b"Site-map: https://e/\xff", b"Sitemap: " + b"x" * 9_000, *lines])
    )
    assert rules.sitemaps[:3] == ("https://e/0", "https://e/\ufffd", "https://e/1")
    assert len(rules.sitemaps) == SITEMAPS_MAX


def test_the_rule_text_is_one_bounded_printable_line() -> None:
    """It goes into records and logs: nothing in it may end a line or grow without bound."""
    rules = parse(b"User-agent: *\nDisallow: /a b\x0b\xe2\x80\xa8\x00" + b"c" * 5_000 + b"\n")
    assert rules.decide("limpet", "http://example.com/").rule is None
    rules = parse(b"User-agent: *\nDisallow: /a\x0b\xe2\x80\xa8*" + b"?" * 600 + b"\nDisallow: /a*\x00\n")
    assert rules.decide("limpet", "http://example.com/a%00").rule == "Disallow: /a*%00"
    text = rules.decide("limpet", "http://example.com/a%0B%E2%80%A8" + "?" * 600).rule
    assert text is not None
    assert text.startswith("Disallow: /a%0B%E2%80%A8*??")
    assert len(text) == RULE_TEXT_CHARS_MAX

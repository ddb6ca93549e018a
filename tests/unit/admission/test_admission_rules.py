"""The rules that decide which links become rows."""

import time

import pytest

from limpet.admission.patterns import Patterns
from limpet.admission.rules import (
    ADMIT,
    HOST_CAP_REJECT_FACTOR,
    Admit,
    Candidate,
    Context,
    Limits,
    Park,
    Reject,
    Rule,
    Verdict,
    capped,
    judge,
)
from limpet.admission.scope import Scope, ScopeKind
from limpet.model.links import LinkKind

SCOPE = Scope(ScopeKind.HOST, ("http://h.test/",))


def verdict(
    path: str = "/",
    *,
    url: str | None = None,
    host: str = "h.test",
    depth: int = 1,
    nofollow: bool = False,
    seed: bool = False,
    limits: Limits | None = None,
    patterns: Patterns | None = None,
    kind: LinkKind = LinkKind.NAVIGATION,
    requisite: bool = False,
) -> Verdict:
    candidate = Candidate(
        url=url or f"http://{host}{path}",
        host=host,
        depth=depth,
        kind=kind,
        nofollow=nofollow,
        seed=seed,
        requisite=requisite,
    )
    return judge(candidate, Context(scope=SCOPE, limits=limits or Limits(), patterns=patterns))


def test_an_ordinary_link_is_admitted() -> None:
    """Inside the scope, of ordinary shape, on a host with room."""
    assert verdict("/a/b/c.html?d=e") == ADMIT == Admit()


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("", ""),
        ("ftp://h.test/", "h.test"),
        ("http://h.test", "h.test"),
        ("/x", "h.test"),
        ('http://!"$&/', '!"$&'),
        ("http://a..b/", "a..b"),
        ("http://" + "a" * 64 + "/", "a" * 64),
    ],
)
@pytest.mark.parametrize("seed", [False, True])
def test_what_cannot_be_fetched_is_invalid(url: str, host: str, seed: bool) -> None:
    """Other schemes and hosts that cannot exist; seeds are no exception."""
    assert verdict(url=url, host=host, seed=seed) == Reject(Rule.INVALID_URL)


@pytest.mark.parametrize("seed", [False, True])
def test_length_is_bounded(seed: bool) -> None:
    """2,048 bytes at most, seeds included."""
    start = len("http://h.test/")
    assert verdict("/" + "x" * (2_048 - start), seed=seed) == ADMIT
    assert verdict("/" + "x" * (2_049 - start), seed=seed) == Reject(Rule.URL_TOO_LONG)


def test_scope() -> None:
    """Links that leave the region are counted."""
    assert verdict(host="other.test") == Reject(Rule.SCOPE)


def test_nofollow() -> None:
    """Not followed unless the user says so."""
    assert verdict(nofollow=True) == Reject(Rule.NOFOLLOW)
    assert verdict(nofollow=True, limits=Limits(follow_nofollow=True)) == ADMIT


def test_depth_wanted_and_depth_of_a_trap() -> None:
    """The user's depth and the depth no real site has; both inclusive; unlimited means up to the trap."""
    shallow = Limits(depth_max=2)
    assert verdict(depth=2, limits=shallow) == ADMIT
    assert verdict(depth=3, limits=shallow) == Reject(Rule.DEPTH)
    assert verdict(depth=1, limits=Limits(depth_max=0)) == Reject(Rule.DEPTH)
    assert verdict(depth=20) == ADMIT
    assert verdict(depth=21) == Reject(Rule.DEPTH_TRAP)
    assert verdict(depth=21, limits=Limits(depth_max=30)) == Reject(Rule.DEPTH_TRAP)


@pytest.mark.parametrize(
    ("path", "trapped"),
    [
        ("/a/a/a/", False),
        ("/a/a/a", False),
        ("/a/a/a/a", True),
        ("/a/a/a/a/", True),
        ("/a/b/a/c/a/d/a/e", True),
        ("/x/y/x/y/x/y/x/y/", True),
        ("/a/A/a/A/a", False),
        ("/aa/a/aa/a/aa/a", False),
        ("/a/b/c/d/e/f/g", False),
        ("/?a/a/a/a/a", False),
        ("/a?/a/a/a/a", False),
        ("////x", False),
        ("//////x", True),
        ("/", False),
    ],
)
def test_repeated_segments(path: str, trapped: bool) -> None:
    """A path segment more than three times is a trap; the query is no path."""
    assert verdict(path) == (Reject(Rule.REPEATED_SEGMENT) if trapped else ADMIT)


def test_a_full_host_parks_then_counts() -> None:
    """At its cap a host's links wait, visibly; at ten times the cap they are only counted."""
    limits = Limits(host_urls_max=5)
    for count, expected in (
        (4, ADMIT),
        (5, Park(Rule.HOST_CAP)),
        (5 * HOST_CAP_REJECT_FACTOR - 1, Park(Rule.HOST_CAP)),
        (5 * HOST_CAP_REJECT_FACTOR, Reject(Rule.HOST_CAP)),
    ):
        assert capped(count, limits) == expected


def test_an_exclude_wins() -> None:
    """Over scope, includes, seeds and what pages need; it is found anywhere in the URL."""
    patterns = Patterns(include=(r"/docs/",), exclude=(r"\.pdf$", r"(?i)/LOGIN"))
    for path in ("/docs/a.pdf", "/docs/login?x"):
        for seed in (False, True):
            assert verdict(path, patterns=patterns, seed=seed) == Reject(Rule.EXCLUDED)
        assert verdict(path, patterns=patterns, requisite=True) == Reject(Rule.EXCLUDED)
    assert verdict("/docs/a.pdf?x", patterns=patterns) == ADMIT
    assert verdict("/a.pdf", host="other.test", patterns=patterns) == Reject(Rule.EXCLUDED)


def test_an_include_narrows_the_scope() -> None:
    """It opens nothing; seeds and what pages need go on without it."""
    patterns = Patterns(include=("/docs/", "/blog/"))
    assert verdict("/docs/a", patterns=patterns) == verdict("/blog/a", patterns=patterns) == ADMIT
    assert verdict("/a", patterns=patterns) == Reject(Rule.NOT_INCLUDED)
    assert verdict("/docs/a", host="other.test", patterns=patterns) == Reject(Rule.SCOPE)
    assert verdict("/a", patterns=patterns, seed=True) == verdict("/a.png", patterns=patterns, requisite=True) == ADMIT
    assert verdict("/a", patterns=patterns, kind=LinkKind.SITEMAP) == Reject(Rule.NOT_INCLUDED)


def test_a_sitemap_is_not_read_where_its_entries_would_be_too_deep() -> None:
    """It has the depth of its page, and what it names is one deeper: at the greatest depth it is of no use."""
    for depth, expected in ((1, ADMIT), (2, Reject(Rule.DEPTH))):
        assert verdict(depth=depth, kind=LinkKind.SITEMAP, limits=Limits(depth_max=2)) == expected
    assert verdict(depth=2, limits=Limits(depth_max=2)) == ADMIT


def test_seeds_pass_every_rule_but_validity_length_and_excludes() -> None:
    """What the user names is fetched, wherever it is."""
    assert verdict("/a/a/a/a/a", host="other.test", depth=99, nofollow=True, seed=True) == ADMIT


def test_the_first_rule_that_objects_is_named() -> None:
    """Counts add up: one link, one reason, in the order of the registry."""
    shallow = Limits(depth_max=1)
    assert verdict("/a/a/a/a", host="other.test", depth=99, nofollow=True, limits=shallow) == Reject(Rule.SCOPE)
    assert verdict("/a/a/a/a", depth=99, nofollow=True, limits=shallow) == Reject(Rule.NOFOLLOW)
    assert verdict("/a/a/a/a", depth=99, limits=shallow) == Reject(Rule.DEPTH)
    assert verdict("/a/a/a/a", depth=99) == Reject(Rule.DEPTH_TRAP)
    never, docs = Patterns(exclude=("a",)), Patterns(include=("/docs/",))
    assert verdict("/a/a/a/a", host="other.test", patterns=never) == Reject(Rule.EXCLUDED)
    assert verdict("/a/a/a/a", nofollow=True, patterns=docs) == Reject(Rule.NOT_INCLUDED)


@pytest.mark.parametrize("kind", list(LinkKind))
def test_every_kind_of_link_is_judged(kind: LinkKind) -> None:
    """No kind opens the scope by itself."""
    assert verdict(host="o.test", kind=kind) == Reject(Rule.SCOPE)


def test_hostile_urls_cost_their_length() -> None:
    """A megabyte of segments is judged at once, whatever the limit on length."""
    limits = Limits(url_bytes_max=10**8)
    start = time.process_time()
    assert verdict("/" + "a/b" * 300_000, limits=limits) == Reject(Rule.REPEATED_SEGMENT)
    assert verdict("/" + "/" * 10**6, limits=limits) == Reject(Rule.REPEATED_SEGMENT)
    assert time.process_time() - start < 2


def test_rule_names_are_frozen() -> None:
    """They are stored with crawls."""
    assert [rule.value for rule in Rule] == [
        "invalid_url",
        "url_too_long",
        "excluded",
        "scope",
        "not_included",
        "nofollow",
        "depth",
        "depth_trap",
        "repeated_segment",
        "no_contact",
        "not_owned",
        "requisite_page",
        "redirect_chain",
        "sitemap_chain",
        "links_per_page",
        "host_cap",
    ]

"""From links to candidates: identity, rules in order, seeds that redirect, caps."""

from limpet.admission.candidates import Desk, Strangers
from limpet.admission.rules import Limits, Rule
from limpet.admission.scope import Scope, ScopeKind
from limpet.model.events import Link, PageLinks
from limpet.model.identity import Fingerprinter, IdentityRules
from limpet.model.links import LinkKind
from limpet.urlstore import Candidate

SEED = "http://site.test/"


def _desk(*, host_urls_max: int = 1_000, url_bytes_max: int = 2_048) -> Desk:
    return Desk(
        scope=Scope(ScopeKind.HOST, (SEED,)),
        limits=Limits(host_urls_max=host_urls_max, url_bytes_max=url_bytes_max),
        identity=IdentityRules(),
        fingerprinter=Fingerprinter(b"0123456789abcdef"),
    )


def _page(*links: Link, depth: int = 0, hops: str = "", seed: bool = False) -> PageLinks:
    return PageLinks(fp=b"p" * 16, fetched_us=1, url=SEED, depth=depth, hops=hops, seed=seed, links=links)


def test_a_link_is_one_deeper_and_a_redirect_is_not() -> None:
    """Hop paths tell how a URL was found; a redirect keeps the depth of what it stands for."""
    judged = _desk().judge(
        [_page(Link(SEED + "a", LinkKind.NAVIGATION), Link(SEED + "b", LinkKind.REDIRECT), depth=3, hops="LLL")], 1
    )
    assert [(candidate.depth, candidate.hops) for candidate in judged.candidates] == [(4, "LLLL"), (3, "LLLR")]


def test_one_candidate_an_identity() -> None:
    """Tracking parameters and the case of escapes make no other page; the first spelling is the one fetched."""
    urls = (SEED + "a%2fb", SEED + "a%2Fb", SEED + "a%2Fb?utm_source=x")
    judged = _desk().judge([_page(*(Link(url, LinkKind.NAVIGATION) for url in urls))], 1)
    assert [candidate.url for candidate in judged.candidates] == [SEED + "a%2fb"]


def test_rejects_are_counted_per_host_and_rule_with_a_sample() -> None:
    """No row, but never silent."""
    links = [Link(f"http://other.test/{number}", LinkKind.NAVIGATION) for number in range(3)]
    judged = _desk().judge([_page(*links)], 1)
    assert judged.candidates == []
    assert [(one.host, one.rule, one.count, one.sample) for one in judged.rejects] == [
        ("other.test", "scope", 3, "http://other.test/0")
    ]


def test_where_a_seed_redirects_to_is_a_seed() -> None:
    """Up to five redirects in a row from a seed, in scope or not; a link from it is no seed."""
    for hops, expected in (("", True), ("RRRR", True), ("RRRRR", False)):
        page = _page(Link("http://moved.test/", LinkKind.REDIRECT), hops=hops, seed=True)
        candidates = _desk().judge([page], 1).candidates
        assert [candidate.seed for candidate in candidates] == ([True] if expected else [])
    link = _page(Link("http://moved.test/", LinkKind.NAVIGATION), seed=True)
    assert _desk().judge([link], 1).candidates == []


def test_the_scope_grows_with_a_seed() -> None:
    """After a seed has moved, its new home is in scope."""
    desk = _desk()
    desk.add_seed("http://moved.test/")
    assert len(desk.judge([_page(Link("http://moved.test/x", LinkKind.NAVIGATION))], 1).candidates) == 1


def test_a_redirect_chain_has_an_end() -> None:
    """Eleven in a row is a trap, at whatever depth."""
    page = _page(Link(SEED + "next", LinkKind.REDIRECT), hops="L" + "R" * 10)
    assert [one.rule for one in _desk().judge([page], 1).rejects] == [Rule.REDIRECT_CHAIN.value]


def _candidates(desk: Desk, count: int) -> list[Candidate]:
    links = [Link(f"{SEED}{number}", LinkKind.NAVIGATION) for number in range(count)]
    return desk.judge([_page(*links)], 1).candidates


def test_beyond_the_cap_urls_are_parked_in_the_batch_too() -> None:
    """The cap holds within one batch: what the store knows plus what this batch adds."""
    desk = _desk(host_urls_max=10)
    kept = desk.cap(_candidates(desk, 5), {"site.test": 8}).candidates
    assert [candidate.parked for candidate in kept] == ["", "", "host_cap", "host_cap", "host_cap"]


def test_seeds_have_room_on_a_full_host() -> None:
    """The cap bounds what a host brings, not what the user named."""
    desk = _desk(host_urls_max=10)
    seed = desk.seed(SEED, 1)
    assert isinstance(seed, Candidate)
    judged = desk.cap([seed], {"site.test": 10_000})
    assert ([one.parked for one in judged.candidates], judged.rejects) == ([""], [])


def test_beyond_ten_times_the_cap_they_are_counted_only() -> None:
    """A host cannot fill the store."""
    desk = _desk(host_urls_max=10)
    judged = desk.cap(_candidates(desk, 3), {"site.test": 99})
    assert [candidate.parked for candidate in judged.candidates] == ["host_cap"]
    assert [(one.rule, one.count) for one in judged.rejects] == [("host_cap", 2)]


def test_somebody_elses_host_stays_out_where_only_owned_ones_count() -> None:
    """Scope `any` follows every link between hosts of one's own, and none beyond."""
    desk = Desk(
        scope=Scope(ScopeKind.ANY, (SEED,)),
        limits=Limits(),
        identity=IdentityRules(),
        fingerprinter=Fingerprinter(b"0123456789abcdef"),
        strangers=Strangers(lambda host: host == "mine.test", owned_only=True),
    )
    links = [Link(f"http://{host}/", LinkKind.NAVIGATION) for host in ("mine.test", "theirs.test")]
    judged = desk.judge([_page(*links)], 1)
    assert [candidate.host for candidate in judged.candidates] == ["mine.test"]
    assert [(one.host, one.rule) for one in judged.rejects] == [("theirs.test", "not_owned")]


def test_a_seed_is_bound_by_validity_and_length_alone() -> None:
    """What the user named is crawled, however deep or odd."""
    desk = _desk(url_bytes_max=60)
    assert isinstance(desk.seed("http://else.test/a/a/a/a/a", 1), Candidate)
    assert desk.seed("http://else.test/" + "x" * 60, 1) is Rule.URL_TOO_LONG

"""Requisites, sitemaps and the rest: how far hop paths let them go."""

import msgspec
import pytest

from limpet.admission.candidates import Desk, Strangers
from limpet.admission.hops import is_near_requisite, run_of, step
from limpet.admission.rules import Limits
from limpet.admission.scope import Scope, ScopeKind
from limpet.model.events import Link, PageLinks
from limpet.model.identity import Fingerprinter, IdentityRules
from limpet.model.links import LinkKind
from limpet.urlstore import Candidate

SEED = "http://site.test/"
INSIDE = "http://site.test/x"
OUTSIDE = "http://cdn.test/x"
REQUISITE, NAVIGATION, REDIRECT = LinkKind.REQUISITE, LinkKind.NAVIGATION, LinkKind.REDIRECT


def _desk(*, depth_max: int | None = None, only: str | None = None) -> Desk:
    return Desk(
        scope=Scope(ScopeKind.HOST, (SEED,)),
        limits=Limits(depth_max=depth_max, host_urls_max=10),
        identity=IdentityRules(),
        fingerprinter=Fingerprinter(b"0123456789abcdef"),
        strangers=None if only is None else Strangers(lambda host: host == only, owned_only=True),
    )


def _judged(
    kind: LinkKind,
    url: str,
    hops: str,
    *,
    page: str = SEED,
    depth: int = 3,
    depth_max: int | None = None,
    nofollow: bool = False,
    only: str | None = None,
) -> Candidate | str:
    """The candidate that one link becomes, or the rule that rejects it."""
    desk = _desk(depth_max=depth_max, only=only)
    stray = desk.is_stray(page, hops) or msgspec.UNSET
    link = Link(url, kind, nofollow)
    links = PageLinks(fp=bytes(16), fetched_us=1, url=page, depth=depth, hops=hops, stray=stray, links=(link,))
    judged = desk.judge([links], 1)
    return judged.candidates[0] if judged.candidates else judged.rejects[0].rule


def _path(kind: LinkKind, url: str, hops: str, *, page: str = SEED) -> tuple[str, int] | str:
    found = _judged(kind, url, hops, page=page)
    return found if isinstance(found, str) else (found.hops, found.depth)


@pytest.mark.parametrize(
    ("kind", "url", "hops", "page", "expected"),
    [
        # what a page needs, in scope or not, at the depth of the page
        (REQUISITE, INSIDE, "LLL", SEED, ("LLLE", 3)),
        (REQUISITE, OUTSIDE, "LLL", SEED, ("LLLE", 3)),
        (REQUISITE, OUTSIDE, "", SEED, ("E", 3)),
        # what a style sheet needs in its turn
        (REQUISITE, OUTSIDE, "LLLE", INSIDE, ("LLLEE", 3)),
        (REQUISITE, OUTSIDE, "LLLE", OUTSIDE, ("LLLEE", 3)),
        (REQUISITE, INSIDE, "LLLE", OUTSIDE, ("LLLEE", 3)),
        # where a requisite has moved to
        (REDIRECT, OUTSIDE, "LE", INSIDE, ("LER", 3)),
        (REDIRECT, OUTSIDE, "LE", OUTSIDE, ("LER", 3)),
        (REDIRECT, OUTSIDE, "LEER", OUTSIDE, ("LEERR", 3)),
        (REQUISITE, OUTSIDE, "LER", OUTSIDE, ("LERE", 3)),
        (REQUISITE, OUTSIDE, "LERRER", OUTSIDE, "scope"),
        # farther: inside only, one deeper each
        (REQUISITE, OUTSIDE, "LEE", INSIDE, "scope"),
        (REQUISITE, INSIDE, "LEE", INSIDE, ("LEEE", 4)),
        (REQUISITE, INSIDE, "LEEE", INSIDE, ("LEEEE", 4)),
        (REQUISITE, INSIDE, "LEE", OUTSIDE, "requisite_page"),
        (REDIRECT, OUTSIDE, "LEEE", INSIDE, "scope"),
        # links on a requisite: off scope none is followed, in scope it is a page like any other
        (NAVIGATION, INSIDE, "LE", OUTSIDE, "requisite_page"),
        (NAVIGATION, OUTSIDE, "LE", OUTSIDE, "scope"),
        (NAVIGATION, INSIDE, "LERR", OUTSIDE, "requisite_page"),
        (NAVIGATION, INSIDE, "LEE", OUTSIDE, "requisite_page"),
        (LinkKind.ALTERNATE, INSIDE, "LE", OUTSIDE, "requisite_page"),
        (LinkKind.FEED, INSIDE, "LE", OUTSIDE, "requisite_page"),
        (LinkKind.SITEMAP, INSIDE, "LE", OUTSIDE, "requisite_page"),
        (NAVIGATION, INSIDE, "LE", INSIDE, ("LEL", 4)),
        (NAVIGATION, OUTSIDE, "LE", INSIDE, "scope"),
        # a page beyond a requisite begins anew
        (REQUISITE, OUTSIDE, "LELL", INSIDE, ("LELLE", 3)),
        # the other kinds keep to the scope
        (REDIRECT, OUTSIDE, "LL", INSIDE, "scope"),
        (LinkKind.ALTERNATE, INSIDE, "L", SEED, ("LL", 4)),
        (LinkKind.ALTERNATE, OUTSIDE, "L", SEED, "scope"),
        (LinkKind.FEED, INSIDE, "L", SEED, ("LL", 4)),
        (LinkKind.FEED, OUTSIDE, "L", SEED, "scope"),
        (LinkKind.SITEMAP, INSIDE, "L", SEED, ("LM", 3)),
        (LinkKind.SITEMAP, OUTSIDE, "L", SEED, "scope"),
        (LinkKind.SITEMAP, INSIDE, "M", SEED, ("MM", 3)),
        (LinkKind.SITEMAP, INSIDE, "MRM", SEED, "sitemap_chain"),
        (LinkKind.SITEMAP, INSIDE, "MM", SEED, "sitemap_chain"),
        (NAVIGATION, INSIDE, "MM", SEED, ("MML", 4)),
        # requisites and sitemaps by turns are no way to go on for ever at one depth
        (LinkKind.SITEMAP, INSIDE, "EME", INSIDE, ("EMEM", 3)),
        (REQUISITE, INSIDE, "EMEM", INSIDE, ("EMEME", 4)),
        (LinkKind.SITEMAP, INSIDE, "LEMREME", INSIDE, ("LEMREMEM", 4)),
        # chains of redirects end for requisites too
        (REDIRECT, OUTSIDE, "LE" + "R" * 9, OUTSIDE, ("LE" + "R" * 10, 3)),
        (REDIRECT, OUTSIDE, "LE" + "R" * 10, OUTSIDE, "redirect_chain"),
    ],
)
def test_how_far(kind: LinkKind, url: str, hops: str, page: str, expected: tuple[str, int] | str) -> None:
    """Hop path and depth of what is admitted, or the rule that turns it away."""
    assert _path(kind, url, hops, page=page) == expected


def test_the_deepest_page_is_whole() -> None:
    """--depth bounds where readers go, not what the last page needs."""
    assert _judged(NAVIGATION, INSIDE, "LLL", depth_max=3) == "depth"
    assert isinstance(_judged(REQUISITE, OUTSIDE, "LLL", depth_max=3), Candidate)
    assert _judged(REQUISITE, INSIDE, "LLLEE", depth_max=3) == "depth"


def test_other_peoples_hosts_stay_out() -> None:
    """Where only owned hosts may be asked, a requisite is no way around it."""
    assert _judged(REQUISITE, OUTSIDE, "L", only="site.test") == "not_owned"
    assert isinstance(_judged(REQUISITE, INSIDE, "L", only="site.test"), Candidate)


def test_requisites_are_capped_by_their_own_host_and_not_by_the_scope() -> None:
    """The second judgement, at the cap, remembers that they may leave the scope; so do their redirects."""
    for kind, hops in ((REQUISITE, "L"), (REDIRECT, "LE")):
        found = _judged(kind, OUTSIDE, hops, page=SEED)
        assert isinstance(found, Candidate)
        assert [one.parked for one in _desk().cap([found], {}).candidates] == [""]
        assert [one.parked for one in _desk().cap([found], {found.host: 10}).candidates] == ["host_cap"]
        assert [one.rule for one in _desk().cap([found], {found.host: 100}).rejects] == ["host_cap"]


def test_malformed_and_trapped_requisites_are_rejected_as_links_are() -> None:
    """Leaving the scope is all that a requisite may do more."""
    assert _judged(REQUISITE, "http://a..b/", "L") == "invalid_url"
    assert _judged(REQUISITE, "http://cdn.test/" + "x" * 3_000, "L") == "url_too_long"
    assert _judged(REQUISITE, "http://cdn.test/a/a/a/a/a", "L") == "repeated_segment"
    assert _judged(REQUISITE, OUTSIDE, "L", depth=21) == "depth_trap"


def test_a_link_of_the_page_wins_over_its_own_image() -> None:
    """Of one URL as link and as requisite, in one page, the link counts: what it leads to is followed."""
    links = (Link(INSIDE, NAVIGATION), Link(INSIDE, REQUISITE), Link(OUTSIDE, NAVIGATION), Link(OUTSIDE, REQUISITE))
    page = PageLinks(fp=bytes(16), fetched_us=1, url=SEED, depth=0, hops="", links=links)
    judged = _desk().judge([page], 1)
    assert [(one.url, one.hops, one.kind) for one in judged.candidates] == [
        (INSIDE, "L", "navigation"),
        (OUTSIDE, "E", "requisite"),
    ]


def test_where_a_seed_moved_to_is_still_a_seed_and_a_requisite_never_is() -> None:
    """Redirects of seeds widen the scope; redirects of requisites do not."""
    for hops, seed in (("", True), ("R", True), ("E", False)):
        page = PageLinks(
            fp=bytes(16), fetched_us=1, url=SEED, depth=0, hops=hops, seed=True, links=(Link(OUTSIDE, REDIRECT),)
        )
        assert [one.seed for one in _desk().judge([page], 1).candidates] == [seed]


@pytest.mark.parametrize(
    ("hops", "letter", "count"),
    [
        ("", "E", 0),
        ("LE", "E", 1),
        ("LERE", "E", 2),
        ("LERER", "E", 2),
        ("EL", "E", 0),
        ("EL", "L", 1),
        ("RRR", "E", 0),
    ],
)
def test_runs(hops: str, letter: str, count: int) -> None:
    """Redirects neither end nor lengthen a run."""
    assert run_of(hops, letter) == count


def test_every_kind_has_a_letter() -> None:
    """One step a link."""
    assert {kind: step("", kind) for kind in LinkKind} == {
        NAVIGATION: "L",
        REDIRECT: "R",
        REQUISITE: "E",
        LinkKind.SITEMAP: "M",
        LinkKind.FEED: "L",
        LinkKind.ALTERNATE: "L",
    }
    assert is_near_requisite("E")
    assert is_near_requisite("LEER")
    assert not is_near_requisite("EEE")
    assert not is_near_requisite("ELR")

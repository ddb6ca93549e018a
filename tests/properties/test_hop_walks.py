"""Wherever links lead, a crawl of a bounded scope stays where its rules say: random walks from a seed."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.admission.candidates import Desk, Strangers
from limpet.admission.patterns import Patterns
from limpet.admission.rules import Limits, Rule
from limpet.admission.scope import Scope, ScopeKind
from limpet.model.events import Link, PageLinks
from limpet.model.identity import Fingerprinter, IdentityRules
from limpet.model.links import LinkKind
from limpet.urlstore import Candidate

REDIRECTS_MAX, REQUISITES_MAX, SITEMAPS_MAX = 10, 2, 2  # the contract's numbers
HOME, DEPTH_MAX = "http://site.test/", 6
HOSTS = ("site.test", "www.site.test", "cdn.test", "sub.site.test", "alien.test")
STEPS = st.lists(
    st.tuples(st.sampled_from(LinkKind), st.sampled_from(HOSTS), st.sampled_from(("a", "docs/b", "never/c"))),
    max_size=40,
)
KINDS = st.sampled_from((ScopeKind.PAGE, ScopeKind.HOST, ScopeKind.PREFIX, ScopeKind.DOMAIN))
WHOSE = st.sampled_from((None, True, False))


def desk_of(scope: Scope, owned_only: bool | None) -> Desk:
    """The judge of a crawl with everything on."""
    return Desk(
        scope=scope,
        limits=Limits(depth_max=DEPTH_MAX),
        identity=IdentityRules(),
        fingerprinter=Fingerprinter(b"0123456789abcdef"),
        patterns=Patterns(exclude=("/never/",)),
        strangers=None if owned_only is None else Strangers(lambda host: host != "alien.test", owned_only),
    )


def walk(desk: Desk, steps: list[tuple[LinkKind, str, str]]) -> list[Candidate]:
    """Every URL that is admitted on the way: what a rule rejects leads nowhere, and the walk goes on from before it."""
    url, depth, hops, admitted = HOME, 0, "", []
    for number, (kind, host, path) in enumerate(steps):
        page = PageLinks(
            fp=bytes(16),
            fetched_us=1,
            url=url,
            depth=depth,
            hops=hops,
            stray=desk.is_stray(url, hops) or msgspec.UNSET,
            links=(Link(f"http://{host}/{path}{number}", kind),),
        )
        judged = desk.judge([page], 1)
        assert len(judged.candidates) + sum(one.count for one in judged.rejects) == 1  # never silent
        assert {one.rule for one in judged.rejects} <= {rule.value for rule in Rule}
        for candidate in judged.candidates:
            admitted.append(candidate)
            url, depth, hops = candidate.url, candidate.depth, candidate.hops
    return admitted


@settings(max_examples=300)
@given(STEPS, KINDS, WHOSE)
def test_a_walk_stays_near_its_scope(
    steps: list[tuple[LinkKind, str, str]], kind: ScopeKind, owned_only: bool | None
) -> None:
    """Off scope lies only what a page in scope needs, at most two steps on; chains end; excludes hold."""
    scope = Scope(kind, (HOME,))
    for found in walk(desk_of(scope, owned_only), steps):
        way = found.hops.replace("R", "")
        assert found.depth <= DEPTH_MAX
        assert len(found.hops) - len(found.hops.rstrip("R")) <= REDIRECTS_MAX
        assert len(way) - len(way.rstrip("M")) <= SITEMAPS_MAX
        assert "/never/" not in found.url
        if not scope.admits(found.url):
            assert 0 < len(way) - len(way.rstrip("E")) <= REQUISITES_MAX
            assert owned_only is not True or found.host != "alien.test"
        if owned_only is False:
            assert found.host != "alien.test"


@settings(max_examples=200)
@given(STEPS, KINDS)
def test_a_walk_gets_deeper_with_every_link(steps: list[tuple[LinkKind, str, str]], kind: ScopeKind) -> None:
    """Depth counts the links a reader would follow, and needs of needs of needs; so every walk has an end."""
    for found in walk(desk_of(Scope(kind, (HOME,)), None), steps):
        links = found.hops.count("L")
        beside = found.hops.count("E") + found.hops.count("M")
        assert links <= found.depth <= links + beside
        way = found.hops.replace("R", "").rpartition("L")[2]  # since the last link
        assert found.depth >= links + len(way) - REQUISITES_MAX - SITEMAPS_MAX

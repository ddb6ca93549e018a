"""From links to candidates: who they are, what the rules say. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from limpet.admission.hops import (
    REDIRECTS_MAX,
    SEED_REDIRECTS_MAX,
    SITEMAPS_MAX,
    is_near_requisite,
    keeps_depth,
    redirects,
    run_of,
    step,
)
from limpet.admission.patterns import Patterns
from limpet.admission.rules import ADMIT, Context, Limits, Park, Reject, Rule, capped, judge
from limpet.admission.rules import Candidate as Sighting
from limpet.admission.scope import Scope, ScopeKind
from limpet.model.events import Link, PageLinks
from limpet.model.identity import Fingerprinter, IdentityRules, identity_key
from limpet.model.links import LinkKind
from limpet.model.urls import InvalidUrl, server_of
from limpet.urlstore import Candidate
from limpet.urlstore import Reject as CountedReject
from limpet.urlstore.types import leads_on

SAMPLE_CHARS_MAX = 500
_WAYS_CACHED_MAX = 4_096


class Judged(msgspec.Struct):
    """What the rules made of a batch: distinct candidates, and counts of what was turned away."""

    candidates: list[Candidate]
    rejects: list[CountedReject]


class Strangers(msgspec.Struct, frozen=True):
    """Hosts that are not ours and that this crawl may not ask, though its scope or a page's needs lead there.

    `owned` knows hosts of one's own by name. `owned_only`: no other host is asked, the crawl being one of such hosts
    only; else no other public host but the seeds' is, since nobody could reach us.
    """

    owned: Callable[[str], bool]
    owned_only: bool


class Desk:
    """Judges links for one shard. The scope grows by where the redirects of seeds end."""

    def __init__(
        self,
        *,
        scope: Scope,
        limits: Limits,
        identity: IdentityRules,
        fingerprinter: Fingerprinter,
        patterns: Patterns | None = None,
        strangers: Strangers | None = None,
    ) -> None:
        self._scope = scope
        self._strangers = strangers
        self._limits = limits
        self._patterns = patterns or None
        self._identity = identity
        self._fingerprinter = fingerprinter

    def in_scope(self, url: str) -> bool:
        """Whether `url` lies in the scope, as far as it has grown."""
        return self._scope.admits(url)

    def is_seed(self, url: str) -> bool:
        """Whether the scope knows `url` as a seed."""
        return self._scope.with_seed(url) is self._scope

    def add_seed(self, url: str) -> None:
        """Widen the scope."""
        self._scope = self._scope.with_seed(url)

    def judge(self, pages: Iterable[PageLinks], now_us: int) -> Judged:
        """Identity and rules for every link; the host cap comes later, for what is not known yet (see `cap`)."""
        context = self._context()
        found: dict[bytes, Candidate] = {}
        rejects: Rejects = {}
        for page in pages:
            stray = page.stray is True
            for link in page.links:
                way = _way(page.hops, page.depth, page.seed, stray, link.kind)
                self._one(page, link, way, context, found, rejects, now_us)
        return Judged(list(found.values()), _counted(rejects))

    def is_stray(self, url: str, hops: str) -> bool:
        """Whether a page is off scope, fetched only to show another: its needs are met, nothing else on it counts.

        To be asked where the page's own seeds are known; see `PageLinks.stray`.
        """
        return run_of(hops, "E") > 0 and not self._scope.admits(url)

    def cap(self, candidates: Sequence[Candidate], urls: Mapping[str, int]) -> Judged:
        """Park what exceeds its host's cap, reject what exceeds ten times that. Seeds are exempt.

        `urls`: how many rows a host has already, 0 where it does not say.
        """
        added: Counter[str] = Counter()
        kept: list[Candidate] = []
        rejects: Rejects = {}
        for candidate in candidates:
            host = candidate.host
            verdict = ADMIT if candidate.seed else capped(urls.get(host, 0) + added[host], self._limits)
            if isinstance(verdict, Reject):
                _reject(rejects, host, verdict.rule, candidate.url)
                continue
            added[host] += 1
            parked = verdict.rule.value if isinstance(verdict, Park) else ""
            kept.append(msgspec.structs.replace(candidate, parked=parked) if parked else candidate)
        return Judged(kept, _counted(rejects))

    def _one(
        self,
        page: PageLinks,
        link: Link,
        way: "_Way",
        context: Context,
        found: dict[bytes, Candidate],
        rejects: "Rejects",
        now_us: int,
    ) -> None:
        try:
            host, authority = server_of(link.url)
        except InvalidUrl:
            return _reject(rejects, "", Rule.INVALID_URL, link.url)
        sighting = Sighting(
            url=link.url,
            host=host,
            depth=way.depth,
            kind=link.kind,
            nofollow=link.nofollow,
            seed=way.seed,
            requisite=way.requisite,
        )
        verdict = judge(sighting, context)
        if isinstance(verdict, Reject):
            return _reject(rejects, host, verdict.rule, link.url)
        if rule := way.too_far or self._stranger(sighting):
            return _reject(rejects, host, rule, link.url)
        candidate = self._candidate(sighting, authority, page.fp, way.hops, now_us)
        known = found.get(candidate.fp)
        if known is None or (candidate.depth < known.depth and leads_on(candidate.hops) and leads_on(known.hops)):
            found[candidate.fp] = candidate
        return None

    def _context(self) -> Context:
        return Context(scope=self._scope, limits=self._limits, patterns=self._patterns)

    def _stranger(self, sighting: Sighting) -> Rule | None:
        """The rule that keeps a host out whose owner is not ours to bother. A seed that moves takes the crawl along."""
        strangers = self._strangers
        if strangers is None:
            return None
        if not strangers.owned_only:
            free = sighting.seed or self._scope.has_seed_host(sighting.host) or strangers.owned(sighting.host)
            return None if free else Rule.NO_CONTACT
        if self._scope.kind is not ScopeKind.ANY:
            leaves = sighting.seed or sighting.requisite
            if not leaves or self._scope.admits(sighting.url):
                return None  # owned through its addresses, or refused by the gate
        return None if strangers.owned(sighting.host) else Rule.NOT_OWNED

    def _candidate(self, sighting: Sighting, authority: str, via: bytes, hops: str, now_us: int) -> Candidate:
        key = identity_key(sighting.url, self._identity)
        return Candidate(
            fp=self._fingerprinter.fingerprint(key),
            key=key,
            url=sighting.url,
            host=sighting.host,
            authority=authority,
            depth=sighting.depth,
            hops=hops,
            kind=sighting.kind.value,
            seed=sighting.seed,
            via=via,
            due_us=now_us,
        )

    def seed(self, url: str, now_us: int) -> Candidate | Rule:
        """A seed given by the user: only validity and length bind it."""
        host, authority = server_of(url)
        sighting = Sighting(url=url, host=host, depth=0, seed=True)
        verdict = judge(sighting, self._context())
        if isinstance(verdict, Reject):
            return verdict.rule
        return self._candidate(sighting, authority, b"", "", now_us)


class _Way(NamedTuple):
    """What all links of one kind on one page have in common."""

    hops: str
    depth: int
    seed: bool
    requisite: bool
    too_far: Rule | None


@lru_cache(maxsize=_WAYS_CACHED_MAX)
def _way(page_hops: str, page_depth: int, page_seed: bool, stray: bool, kind: LinkKind) -> _Way:
    hops = step(page_hops, kind)
    requisite = _is_requisite(hops, kind)
    return _Way(
        hops=hops,
        depth=page_depth if keeps_depth(hops, kind) else page_depth + 1,
        seed=kind is LinkKind.REDIRECT and page_seed and len(hops) <= SEED_REDIRECTS_MAX and not hops.strip("R"),
        requisite=requisite,
        too_far=_too_far(hops, stray=stray and not requisite),
    )


def _is_requisite(hops: str, kind: LinkKind) -> bool:
    """Whether the link at the end of `hops` may leave the scope: it is needed, or where what is needed has moved."""
    return kind in (LinkKind.REQUISITE, LinkKind.REDIRECT) and is_near_requisite(hops)


def _too_far(hops: str, *, stray: bool) -> Rule | None:
    """What hop paths rule out. `stray`: a link on a stray page that is none of its needs."""
    if stray:
        return Rule.REQUISITE_PAGE
    if redirects(hops) > REDIRECTS_MAX:
        return Rule.REDIRECT_CHAIN
    return Rule.SITEMAP_CHAIN if run_of(hops, "M") > SITEMAPS_MAX else None


class _Tally:
    """Links that one rule turned away on one host: how many, and the first of them."""

    __slots__ = ("count", "first")

    def __init__(self, first: str) -> None:
        self.count = 0
        self.first = first


Rejects = dict[tuple[str, Rule], _Tally]


def _reject(rejects: Rejects, host: str, rule: Rule, url: str) -> None:
    tally = rejects.get((host, rule))
    if tally is None:
        tally = rejects[host, rule] = _Tally(url)
    tally.count += 1


def _counted(rejects: Rejects) -> list[CountedReject]:
    return [
        CountedReject(host=host, rule=rule.value, count=tally.count, sample=tally.first[:SAMPLE_CHARS_MAX])
        for (host, rule), tally in rejects.items()
    ]

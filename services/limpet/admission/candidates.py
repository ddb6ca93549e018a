"""From links to candidates: who they are, what the rules say. Pure but for the host counts it is given."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

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
from limpet.admission.rules import Candidate as Sighting
from limpet.admission.rules import Context, Limits, Park, Reject, Rule, judge
from limpet.admission.scope import Scope
from limpet.model.events import Link, PageLinks
from limpet.model.identity import Fingerprinter, IdentityRules, identity_key
from limpet.model.links import LinkKind
from limpet.model.urls import InvalidUrl, SplitUrl, split
from limpet.urlstore import Candidate
from limpet.urlstore import Reject as CountedReject

SAMPLE_CHARS_MAX = 500


class Judged(msgspec.Struct):
    """What the rules made of a batch: distinct candidates, and counts of what was turned away."""

    candidates: list[Candidate]
    rejects: list[CountedReject]


class Desk:
    """Judges links for one shard. The scope grows by where the redirects of seeds end."""

    def __init__(
        self,
        *,
        scope: Scope,
        limits: Limits,
        identity: IdentityRules,
        fingerprinter: Fingerprinter,
        host_urls: Callable[[str], int],
        host_allowed: Callable[[str], bool] | None = None,
    ) -> None:
        self._scope = scope
        self._host_allowed = host_allowed
        self._limits = limits
        self._identity = identity
        self._fingerprinter = fingerprinter
        self._host_urls = host_urls

    def is_seed(self, url: str) -> bool:
        """Whether the scope knows `url` as a seed."""
        return self._scope.with_seed(url) is self._scope

    def add_seed(self, url: str) -> None:
        """Widen the scope."""
        self._scope = self._scope.with_seed(url)

    def judge(self, pages: Iterable[PageLinks], now_us: int) -> Judged:
        """Identity and rules for every link; the host cap comes later, for what is not known yet (see `cap`)."""
        context = Context(scope=self._scope, limits=self._limits, host_urls=_no_urls)
        found: dict[bytes, Candidate] = {}
        rejects: dict[tuple[str, str], CountedReject] = {}
        for page in pages:
            stray = self._is_stray(page)
            for link in page.links:
                self._one(page, link, stray, context, found, rejects, now_us)
        return Judged(list(found.values()), list(rejects.values()))

    def _is_stray(self, page: PageLinks) -> bool:
        """Whether a page is off scope, fetched only to show another: its needs are met, nothing else on it counts."""
        return run_of(page.hops, "E") > 0 and not self._scope.admits(page.url)

    def cap(self, candidates: Sequence[Candidate]) -> Judged:
        """Park what exceeds its host's cap, reject what exceeds ten times that. Seeds are exempt."""
        added: Counter[str] = Counter()
        counts: dict[str, int] = {}
        kept: list[Candidate] = []
        rejects: dict[tuple[str, str], CountedReject] = {}
        for candidate in candidates:
            host = candidate.host
            if host not in counts:
                counts[host] = self._host_urls(host)
            context = Context(scope=self._scope, limits=self._limits, host_urls=lambda name: counts[name] + added[name])
            verdict = judge(_sighting(candidate), context)
            if isinstance(verdict, Reject):
                _reject(rejects, host, verdict.rule, candidate.url)
                continue
            added[host] += 1
            parked = verdict.rule.value if isinstance(verdict, Park) else ""
            kept.append(msgspec.structs.replace(candidate, parked=parked) if parked else candidate)
        return Judged(kept, list(rejects.values()))

    def _one(
        self,
        page: PageLinks,
        link: Link,
        stray: bool,
        context: Context,
        found: dict[bytes, Candidate],
        rejects: dict[tuple[str, str], CountedReject],
        now_us: int,
    ) -> None:
        try:
            parts = split(link.url)
        except InvalidUrl:
            return _reject(rejects, "", Rule.INVALID_URL, link.url)
        hops = step(page.hops, link.kind)
        seed = link.kind is LinkKind.REDIRECT and page.seed and len(hops) <= SEED_REDIRECTS_MAX and not hops.strip("R")
        sighting = Sighting(
            url=link.url,
            host=parts.host,
            depth=page.depth if keeps_depth(hops, link.kind) else page.depth + 1,
            kind=link.kind,
            nofollow=link.nofollow,
            seed=seed,
            requisite=_is_requisite(hops, link.kind),
        )
        verdict = judge(sighting, context)
        if isinstance(verdict, Reject):
            return _reject(rejects, parts.host, verdict.rule, link.url)
        if rule := _too_far(sighting, hops, stray):
            return _reject(rejects, parts.host, rule, link.url)
        if self._host_allowed is not None and not self._host_allowed(parts.host):
            return _reject(rejects, parts.host, Rule.SCOPE, link.url)
        candidate = self._candidate(sighting, parts, page.fp, hops, now_us)
        found.setdefault(candidate.fp, candidate)
        return None

    def _candidate(self, sighting: Sighting, parts: SplitUrl, via: bytes, hops: str, now_us: int) -> Candidate:
        key = identity_key(sighting.url, self._identity)
        return Candidate(
            fp=self._fingerprinter.fingerprint(key),
            key=key,
            url=sighting.url,
            host=parts.host,
            authority=parts.authority,
            depth=sighting.depth,
            hops=hops,
            kind=sighting.kind.value,
            seed=sighting.seed,
            via=via,
            due_us=now_us,
        )

    def seed(self, url: str, now_us: int) -> Candidate | Rule:
        """A seed given by the user: only validity and length bind it."""
        parts = split(url)
        sighting = Sighting(url=url, host=parts.host, depth=0, seed=True)
        verdict = judge(sighting, Context(scope=self._scope, limits=self._limits, host_urls=_no_urls))
        if isinstance(verdict, Reject):
            return verdict.rule
        return self._candidate(sighting, parts, b"", "", now_us)


def _is_requisite(hops: str, kind: LinkKind) -> bool:
    """Whether the link at the end of `hops` may leave the scope: it is needed, or where what is needed has moved."""
    return kind in (LinkKind.REQUISITE, LinkKind.REDIRECT) and is_near_requisite(hops)


def _too_far(sighting: Sighting, hops: str, stray: bool) -> Rule | None:
    """What hop paths rule out."""
    if stray and not sighting.requisite:
        return Rule.REQUISITE_PAGE
    if redirects(hops) > REDIRECTS_MAX:
        return Rule.REDIRECT_CHAIN
    return Rule.SITEMAP_CHAIN if run_of(hops, "M") > SITEMAPS_MAX else None


def _no_urls(_host: str) -> int:
    return 0


def _sighting(candidate: Candidate) -> Sighting:
    return Sighting(
        url=candidate.url,
        host=candidate.host,
        depth=candidate.depth,
        kind=LinkKind(candidate.kind),
        seed=candidate.seed,
        requisite=_is_requisite(candidate.hops, LinkKind(candidate.kind)),
    )


def _reject(rejects: dict[tuple[str, str], CountedReject], host: str, rule: Rule, url: str) -> None:
    key = (host, rule.value)
    old = rejects.get(key)
    rejects[key] = CountedReject(
        host=host,
        rule=rule.value,
        count=1 + (old.count if old is not None else 0),
        sample=old.sample if old is not None else url[:SAMPLE_CHARS_MAX],
    )

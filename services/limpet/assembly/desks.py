"""Admission's judge and the parser's wants, under the facts and settings of a crawl; seeds become rows through them."""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from limpet.admission.candidates import Desk, Strangers
from limpet.admission.patterns import Patterns
from limpet.admission.rules import Limits, Rule
from limpet.admission.scope import Scope, ScopeKind
from limpet.clock import Clock
from limpet.config import Facts, Settings
from limpet.fetch import Owned
from limpet.model.identity import Fingerprinter
from limpet.parser.wants import Wants
from limpet.urlstore import AdmitResult, UrlStore
from limpet.urlstore.facts import nearer_jobs

_LOCAL_DOMAINS: Final = frozenset(
    {"corp", "home", "internal", "intranet", "lan", "local", "localhost", "private", "test"}
)
"""RFC 6761 §6, RFC 6762 §3 and appendix G, and ICANN's ``internal``; RFC 8375 adds ``home.arpa``."""


def wants_of(facts: Facts) -> Wants:
    """Which links the crawl takes from a page."""
    return Wants(requisites=facts.scope.requisites, extras=facts.scope.extras, agent=facts.agent)


def make_desk(
    facts: Facts,
    settings: Settings,
    seeds_known: tuple[str, ...],
    strangers: Strangers | None = None,
) -> Desk:
    """Admission's judge under the facts and settings of a crawl."""
    return Desk(
        scope=Scope(ScopeKind(facts.scope.kind), seeds_known),
        limits=Limits(
            depth_max=facts.scope.depth_max,
            depth_trap=settings.rules.depth_trap,
            url_bytes_max=settings.rules.url_bytes_max,
            segment_repeats_max=settings.rules.segment_repeats_max,
            host_urls_max=settings.rules.host_urls_max,
            follow_nofollow=facts.scope.follow_nofollow,
        ),
        identity=facts.identity,
        fingerprinter=Fingerprinter(facts.hash_seed),
        patterns=Patterns(facts.scope.include, facts.scope.exclude),
        strangers=strangers or strangers_of(settings),
    )


def strangers_of(settings: Settings) -> Strangers | None:
    """Whose hosts this crawl may not ask though its scope leads there; None = it may ask all."""
    rules = settings.rules
    if not rules.owned_hosts_only and not rules.seed_hosts_only:
        return None
    owned = Owned.parse(settings.owned)
    if not rules.owned_hosts_only:
        return Strangers(owned.covers_host, owned_only=False)
    return Strangers(lambda host: owned.covers_host(host) or is_local_name(host), owned_only=True)


def is_local_name(host: str) -> bool:
    """Whether a name cannot be one of the public web's. Whose it is, its addresses tell: to the connect gate."""
    label = host.rpartition(".")[2]
    if ":" in host:
        return False
    return label == host or label in _LOCAL_DOMAINS or host.endswith(".home.arpa")


class SeedReport(msgspec.Struct, frozen=True):
    """What became of the URLs that were given: (url, rule) for those that a rule turned away."""

    new: int
    known: int
    rejected: tuple[tuple[str, str], ...]


async def desk_of(facts: Facts, settings: Settings, store: UrlStore) -> Desk:
    """Admission's judge for one shard. Seeds of other shards cannot bring anything of this one into scope."""
    return make_desk(facts, settings, tuple(await store.seeds()))


async def seed_shard(
    store: UrlStore, facts: Facts, settings: Settings, clock: Clock, urls: Sequence[str], *, one_commit: bool = False
) -> SeedReport:
    """Canonical URLs of one shard become seeds and rows: the scope first, then the rows.

    `one_commit`: the store makes writes that are given to it at once durable in order, together.
    """
    desk = await desk_of(facts, settings, store)
    judged = {url: desk.seed(url, clock.wall_us()) for url in urls}
    candidates = [candidate for candidate in judged.values() if not isinstance(candidate, Rule)]
    rejected = tuple((url, rule.value) for url, rule in judged.items() if isinstance(rule, Rule))
    scope = [asyncio.ensure_future(store.add_seed(candidate.url)) for candidate in candidates]
    if not one_commit:
        await asyncio.gather(*scope)
    rows = asyncio.ensure_future(store.admit(candidates, clock.wall_us()))
    await asyncio.gather(*scope, rows)
    results = rows.result()
    for candidate, result in zip(candidates, results, strict=True):
        if result is AdmitResult.NEARER:
            jobs = await nearer_jobs(store, candidate.fp, facts.crawl, clock.wall_us())
            await asyncio.gather(*(store.put_job(job) for job in jobs))
    new = sum(result is AdmitResult.NEW for result in results)
    return SeedReport(new, len(results) - new, rejected)


def sum_of(reports: Sequence[SeedReport]) -> SeedReport:
    """What became of the URLs of several shards."""
    rejected = tuple(pair for report in reports for pair in report.rejected)
    return SeedReport(sum(report.new for report in reports), sum(report.known for report in reports), rejected)

"""Seeds given by the user become rows of their shards, while nobody owns these."""

import asyncio
from collections.abc import Sequence

import msgspec

from limpet.admission.candidates import Desk
from limpet.admission.rules import Rule
from limpet.clock import DurableClock
from limpet.config import Facts, Settings
from limpet.embedded.admissible import make_desk
from limpet.embedded.finder import shard_of_host
from limpet.embedded.folder import Folder
from limpet.embedded.ports import Ports
from limpet.embedded.shards import Shard, Shards
from limpet.model.urls import split
from limpet.urlstore import AdmitResult
from limpet.urlstore.facts import nearer_jobs


class SeedReport(msgspec.Struct, frozen=True):
    """What became of the URLs that were given: (url, rule) for those that a rule turned away."""

    new: int
    known: int
    rejected: tuple[tuple[str, str], ...]


async def admit_seeds(folder: Folder, settings: Settings, ports: Ports, urls: Sequence[str]) -> SeedReport:
    """Admit canonical `urls` as seeds; creates shard files that do not exist. Must not run while a worker does."""
    clock = DurableClock(ports.clock)
    commits = ports.make_runner("commits")
    shards = Shards(folder, settings, ports, clock, commits)
    by_shard: dict[int, list[str]] = {}
    for url in urls:
        by_shard.setdefault(shard_of_host(split(url).host, folder.facts), []).append(url)
    try:
        await shards.open(by_shard)
        work = [
            _admit_seeds(shards.owned[number], folder.facts, settings, clock, found)
            for number, found in by_shard.items()
        ]
        reports = await asyncio.gather(*work)
    finally:
        await shards.close()
        commits.close()
    rejected = tuple(pair for report in reports for pair in report.rejected)
    return SeedReport(sum(report.new for report in reports), sum(report.known for report in reports), rejected)


async def _admit_seeds(
    shard: Shard, facts: Facts, settings: Settings, clock: DurableClock, urls: Sequence[str]
) -> SeedReport:
    """Seeds of one shard: the scope first, then the rows, in one commit."""
    desk = await desk_of(facts, settings, shard)
    judged = {url: desk.seed(url, clock.wall_us()) for url in urls}
    candidates = [candidate for candidate in judged.values() if not isinstance(candidate, Rule)]
    rejected = tuple((url, rule.value) for url, rule in judged.items() if isinstance(rule, Rule))
    scope = [asyncio.ensure_future(shard.store.add_seed(candidate.url)) for candidate in candidates]
    rows = asyncio.ensure_future(shard.store.admit(candidates, clock.wall_us()))
    await asyncio.gather(*scope, rows)
    results = rows.result()
    for candidate, result in zip(candidates, results, strict=True):
        if result is AdmitResult.NEARER:
            jobs = await nearer_jobs(shard.store, candidate.fp, facts.crawl, clock.wall_us())
            await asyncio.gather(*(shard.store.put_job(job) for job in jobs))
    new = sum(result is AdmitResult.NEW for result in results)
    return SeedReport(new, len(results) - new, rejected)


async def desk_of(facts: Facts, settings: Settings, shard: Shard) -> Desk:
    """Admission's judge for one shard. Seeds of other shards cannot bring anything of this one into scope."""
    return make_desk(facts, settings, tuple(await shard.store.seeds()))

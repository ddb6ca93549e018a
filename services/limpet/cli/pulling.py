"""Rows of a cluster's crawl, copied into the shards of a folder in one walk over the keyspace.

The folder has shards of its own, as many as folders have: a cluster may have more of them. Memory is a page of rows.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from limpet.assembly.places import shard_of_host, shard_of_url
from limpet.clock import Clock
from limpet.cluster.remote import RemoteCrawl
from limpet.config import Facts, Settings
from limpet.embedded.folder import SETTINGS_NAME, Folder
from limpet.model.events import decode_fetched
from limpet.runtime import Runner
from limpet.runtime.sqlitefile import SqliteFile
from limpet.schemas.sqlite import shard_schema
from limpet.urlstore.cassandra.guarded import each
from limpet.urlstore.cassandra.walk import Fetched
from limpet.urlstore.sqlite.transfer import Rest, Target, Url, rest_of

SHARDS_MAX: Final = 32

T = TypeVar("T")


def facts_of_copy(facts: Facts) -> Facts:
    """Facts of the folder that a cluster's crawl is copied into."""
    return msgspec.structs.replace(facts, replicas=1, shards=min(facts.shards, SHARDS_MAX))


def keep_settings(folder: Folder, settings: Settings, config: Path) -> None:
    """Store what the processes read from `config`. An audit takes it to be in force since that file was written."""
    folder.store_settings(settings)
    at_ns = max(config.stat().st_mtime_ns, folder.facts.created_us * 1000)
    os.utime(folder.path / SETTINGS_NAME, ns=(at_ns, at_ns))


async def copy_rows(crawl: RemoteCrawl, folder: Folder, clock: Clock, runner: Runner) -> int:
    """Everything that the URL store knows, into `folder`, which holds nothing yet; the number of URLs."""
    async with _targets(folder, clock, runner) as targets:
        count = 0
        async for page in crawl.fetched():
            for shard, urls in _grouped(page, lambda one: shard_of_host(one.row.host, folder.facts)).items():
                await targets[shard].put_urls(await each(urls, lambda one: _url(crawl, one)))
            count += len(page)
        async for hosts in crawl.hosts():
            for shard, some in _grouped(hosts, lambda one: shard_of_host(one[0].host, folder.facts)).items():
                await targets[shard].put_hosts([row for row, _ in some], [name for _, names in some for name in names])
        for shard in range(crawl.facts.shards):
            found = await crawl.store(shard).robots_fetches()
            for target, fetches in _grouped(found, lambda one: shard_of_url(one.outcome.url, folder.facts)).items():
                await targets[target].put_robots_fetches(fetches)
        await _copy_days(crawl, targets)
        for shard in range(crawl.facts.shards):
            for target, rest in _divided(await rest_of(crawl.store(shard)), folder.facts).items():
                await targets[target].put_rest(rest)
    return count


@contextlib.asynccontextmanager
async def _targets(folder: Folder, clock: Clock, runner: Runner) -> AsyncIterator[list[Target]]:
    """The shards of a folder, open for writing."""
    files = [
        SqliteFile(
            folder.shard_file(shard), schema=shard_schema(), runner=runner, clock=clock, commit_interval_seconds=0.0
        )
        for shard in range(folder.facts.shards)
    ]
    try:
        yield [Target(file) for file in files]
    finally:
        await asyncio.gather(*(file.close() for file in files))


def _grouped(items: Iterable[T], shard_of: Callable[[T], int]) -> dict[int, list[T]]:
    found: dict[int, list[T]] = {}
    for item in items:
        found.setdefault(shard_of(item), []).append(item)
    return found


async def _url(crawl: RemoteCrawl, one: Fetched) -> Url:
    outputs = await crawl.outputs(one.row) if one.outcomes else []
    return Url(one.row, [outcome for outcome, _ in one.outcomes], outputs)


async def _copy_days(crawl: RemoteCrawl, targets: Sequence[Target]) -> None:
    """Only sums over all shards are ever told: what nothing that was copied counted goes to the first."""
    for day in sorted({day for target in targets for day in target.days}):
        counted = sum(target.counted(day) for target in targets)
        await targets[0].count_requests(day, await crawl.requests(day) - counted)


def _divided(rest: Rest, facts: Facts) -> dict[int, Rest]:
    """What belongs to a host or a URL goes to its shard, all else to the first."""
    seeds = _grouped(rest.seeds, lambda url: shard_of_url(url, facts))
    rejects = _grouped(rest.rejects, lambda reject: shard_of_host(reject.host, facts))
    jobs = _grouped(rest.jobs, lambda job: shard_of_url(decode_fetched(job.event).url, facts))
    found = {
        shard: Rest(seeds.get(shard, ()), rejects.get(shard, ()), jobs.get(shard, ()))
        for shard in {0} | seeds.keys() | rejects.keys() | jobs.keys()
    }
    found[0] = found[0]._replace(repairs=rest.repairs, notices=rest.notices)
    return found

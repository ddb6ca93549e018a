"""Verbs that write to a crawl that does not run: `add` and `failures --retry`. They own the folder while they do."""

import argparse
import asyncio
from collections.abc import Iterable
from typing import Final

import msgspec

from limpet.cli.diskfaults import NOTHING_ADDED, told_of_the_disk, what_was_added
from limpet.cli.opening import open_crawl
from limpet.cli.permission import check_any, judge, parse_owned, system_resolve
from limpet.cli.plan import check_facts
from limpet.cli.printing import print_json, print_lines
from limpet.cli.reading import stored_seeds
from limpet.cli.seeds import check_entries, check_patterns, read_entries
from limpet.cli.units import show_count
from limpet.clock import SystemClock
from limpet.config import Settings
from limpet.embedded.door import RingDoor, SeedReport
from limpet.embedded.folder import Folder
from limpet.embedded.lock import FolderLock, wait_for_dying_workers
from limpet.embedded.views import was_left_unclean
from limpet.model.errors import UsageError
from limpet.model.lifecycle import State
from limpet.runtime import SystemRandom, ThreadRunner
from limpet.runtime.sqlitefile import SqliteFile
from limpet.schemas.sqlite import shard_schema
from limpet.urlstore.sqlite import SqliteUrlStore

EXIT_FINDINGS: Final = 1
_REARM_MAX: Final = 1_000


def add(arguments: argparse.Namespace) -> int:
    """Admit URLs as seeds; the next `crawl` fetches them."""
    if arguments.config is not None:
        from limpet.cli.cluster import add as add_to_cluster  # noqa: PLC0415 - loads the drivers

        return add_to_cluster(arguments)
    folder = open_crawl(arguments.folder)
    check_facts(folder)
    settings = folder.load_settings() or Settings()
    owned_entries = tuple(dict.fromkeys((*settings.owned, *arguments.owned)))
    owned = parse_owned(owned_entries)
    settings = msgspec.structs.replace(settings, owned=owned_entries)
    seeds = check_entries(read_entries(arguments.urls, arguments.input), settings.rules.url_bytes_max)
    if not seeds:
        raise UsageError("no URL to add: give at least one, or -i FILE")
    many = bool(folder.facts.contact)
    with told_of_the_disk(folder, lambda: NOTHING_ADDED):
        known = stored_seeds(folder)
    permission = judge(seeds, known, owned, system_resolve, many_public=many)
    if folder.facts.scope.kind == "any":
        check_any(permission, ends=True, contact=many)  # the next `crawl` asks for its end
    check_patterns(seeds, folder.facts.scope)
    report = asyncio.run(_admit(folder, settings, [seed.url for seed in seeds]))
    if arguments.json:
        rejected = [{"url": url, "rule": rule} for url, rule in report.rejected]
        print_json({"new": report.new, "known": report.known, "rejected": rejected})
    else:
        print_lines([f"{show_count(report.new, 'URL')} added, {report.known:,} known already"])
        print_lines(f"left out by rule {rule}: {url}" for url, rule in report.rejected)
    return EXIT_FINDINGS if report.rejected else 0


async def _admit(folder: Folder, settings: Settings, urls: list[str]) -> SeedReport:
    with told_of_the_disk(folder, lambda: NOTHING_ADDED):
        lock = FolderLock.take(folder.path)
        try:
            folder.store_settings(settings)
            door = await _recovered(folder, settings)
            with told_of_the_disk(folder, lambda: what_was_added(folder, urls)):
                return await door.admit_seeds(urls)
        finally:
            lock.release()


async def retry(folder: Folder, states: Iterable[State]) -> int:
    """Make every row in `states` due again, and every page that could not be parsed be parsed again; their number."""
    check_facts(folder)
    with told_of_the_disk(folder, lambda: "not all of it is due again"):
        lock = FolderLock.take(folder.path)
        runner = ThreadRunner("limpet-retry")
        try:
            await _recovered(folder, folder.load_settings() or Settings())
            return sum([await _retry_shard(folder, shard, states, runner) for shard in range(folder.facts.shards)])
        finally:
            runner.close()
            lock.release()


async def _retry_shard(folder: Folder, shard: int, states: Iterable[State], runner: ThreadRunner) -> int:
    path = folder.shard_file(shard)
    if not path.exists():
        return 0
    clock = SystemClock()
    file = SqliteFile(path, schema=shard_schema(), runner=runner, clock=clock)
    try:
        store = SqliteUrlStore(file, shard, SystemRandom())
        fps = [row.fp for state in states for row in await store.rows(state)]
        now_us = clock.wall_us()
        parts = [fps[begin : begin + _REARM_MAX] for begin in range(0, len(fps), _REARM_MAX)]
        return sum([await store.rearm(part, now_us) for part in parts]) + await store.rearm_jobs(now_us)
    finally:
        await file.close()


async def _recovered(folder: Folder, settings: Settings) -> RingDoor:
    """The ring of a folder in which nobody works, after whatever died in it is recovered."""
    await wait_for_dying_workers(folder.run, SystemClock())
    door = RingDoor(folder, settings)
    if was_left_unclean(folder):
        await door.recover(frozenset(range(folder.facts.shards)), None)
    return door

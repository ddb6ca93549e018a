"""`limpet pull` copies a cluster's crawl into an ordinary folder; `limpet status --config` tells how far it is."""

import argparse
import asyncio
from pathlib import Path
from typing import Any, Final

from limpet.cli.printing import print_json, print_lines
from limpet.cli.pulling import copy_rows, facts_of_copy, keep_settings
from limpet.cli.units import show_count, show_duration
from limpet.clock import DurableClock, SystemClock
from limpet.cluster.remote import Pulled, open_remote
from limpet.cluster.settings import ClusterSettings, load_cluster_settings, process_settings
from limpet.embedded.folder import Folder, check_vacant, is_crawl
from limpet.model.errors import UsageError
from limpet.model.lifecycle import State
from limpet.runtime import SystemRandom, ThreadRunner
from limpet.urlstore import counters

DAY_US: Final = 86_400_000_000


def pull(arguments: argparse.Namespace) -> int:
    """Rows out of Cassandra, sealed segments out of HDFS. For a crawl at rest: see docs/cluster.md."""
    settings = load_cluster_settings(arguments.config)
    if is_crawl(arguments.into):
        raise UsageError(f"{arguments.into} holds a crawl already: choose a new folder with --into")
    check_vacant(arguments.into)
    urls, pulled = asyncio.run(_pull(settings, arguments.config, arguments.into))
    if arguments.json:
        print_json({"urls": urls, "segments": len(pulled.segments), "growing": list(pulled.growing)})
        return 0
    told = f"{show_count(urls, 'URL')} and {show_count(len(pulled.segments), 'segment')} are in {arguments.into}"
    print_lines([told])
    print_lines(f"left where it is, since it is not sealed: {name}" for name in pulled.growing)
    return 0


async def _pull(settings: ClusterSettings, config: Path, into: Path) -> tuple[int, Pulled]:
    clock, runner = DurableClock(SystemClock()), ThreadRunner("pull")
    try:
        async with open_remote(settings, clock, SystemRandom()) as crawl:
            folder = Folder.create(into, facts_of_copy(crawl.facts))
            pulled = await crawl.pull_segments(folder.segment_directories[0], runner)
            urls = await copy_rows(crawl, folder, clock, runner)
        keep_settings(folder, process_settings(settings), config)
    finally:
        runner.close()
    return urls, pulled


def status(arguments: argparse.Namespace) -> int:
    """Counts of a cluster's crawl, dated: gauges are as old as the last whole sweep."""
    settings = load_cluster_settings(arguments.config)
    found = asyncio.run(_status(settings))
    if arguments.json:
        print_json(found)
        return 0
    urls = ", ".join(f"{count:,} {state}" for state, count in found["urls"].items() if count) or "none"
    age = f"as counted {show_duration(found['age_seconds'])} ago" if found["as_of_us"] else "not counted yet"
    print_lines([f"URLs      {urls} ({age})"])
    print_lines([f"archive   {show_count(found['records'], 'record')}, {found['bytes']:,} bytes on the wire"])
    budget = found["today"]["budget"]
    of_budget = f" of a budget of {budget:,}" if budget else ""
    print_lines([f"today     {show_count(found['today']['fetches'], 'request')}{of_budget}"])
    print_lines(f"process   {role}: {count}" for role, count in sorted(found["processes"].items()))
    return 0


async def _status(settings: ClusterSettings) -> dict[str, Any]:
    clock = DurableClock(SystemClock())
    async with open_remote(settings, clock, SystemRandom()) as crawl:
        now_us = clock.wall_us()
        counted, fetches, beats = await asyncio.gather(crawl.counted(), crawl.requests(now_us // DAY_US), crawl.beats())
    processes: dict[str, int] = {}
    for beat in beats:
        processes[beat.role] = processes.get(beat.role, 0) + 1
    sums = counted.counts
    return {
        "urls": {state.value: sums.get(counters.of_state(state), 0) for state in State},
        "records": sums.get(counters.RECORDS, 0),
        "bytes": sums.get(counters.BYTES, 0),
        "pages": sums.get(counters.PAGES, 0),
        "today": {"fetches": fetches, "budget": settings.politeness.budget_per_day or None},
        "as_of_us": counted.at_us,
        "age_seconds": (now_us - counted.at_us) / 1e6 if counted.at_us else None,
        "processes": processes,
    }

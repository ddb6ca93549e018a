"""Verbs of the cluster form: `init`, `run ROLE`, and `add --config`. Everything they need is in the configuration."""

import argparse
import asyncio
import logging
import os
from collections.abc import Sequence
from typing import NoReturn

import msgspec

from limpet.assembly.desks import SeedReport
from limpet.cli.permission import judge, parse_owned, system_resolve
from limpet.cli.printing import print_json, print_lines
from limpet.cli.seeds import Seed, check_entries, check_patterns, read_entries
from limpet.cli.units import show_count
from limpet.clock import DurableClock, SystemClock
from limpet.cluster.settings import ClusterSettings, load_cluster_settings
from limpet.config import Facts
from limpet.model.errors import UsageError
from limpet.obs import configure_logging
from limpet.runtime import SystemRandom

EXIT_FINDINGS = 1


def init(arguments: argparse.Namespace) -> int:
    """Lay a crawl out on the servers; harmless to repeat."""
    from limpet.cluster.init import init as lay_out  # noqa: PLC0415 - loads the drivers

    settings = load_cluster_settings(arguments.config)
    report = asyncio.run(lay_out(settings, DurableClock(SystemClock()), SystemRandom()))
    if arguments.json:
        print_json(msgspec.structs.asdict(report))
        return 0
    done = [f"created topic {name}" for name in report.topics] + [f"applied {name}" for name in report.migrations]
    print_lines(done)
    state = "is laid out" if done else "was laid out already"
    print_lines([f"crawl {report.crawl} {state}: {report.shards} shards, {report.seen_shards} seen shards answer"])
    return 0


def run(arguments: argparse.Namespace) -> NoReturn:
    """Serve one role until told to stop."""
    from limpet.cluster.run import run_role  # noqa: PLC0415 - loads the drivers

    settings = load_cluster_settings(arguments.config)
    if arguments.http is not None:
        cluster = msgspec.structs.replace(settings.cluster, http=arguments.http)
        settings = msgspec.structs.replace(settings, cluster=cluster)
    configure_logging(logging.DEBUG if arguments.verbose else logging.INFO)
    for noisy in ("cassandra", "limpet.kafka"):  # drivers tell of every try; what matters comes back as an error
        logging.getLogger(noisy).setLevel(logging.ERROR if arguments.verbose else logging.CRITICAL)
    code = run_role(arguments.role, settings)
    logging.shutdown()
    os._exit(code)  # threads of drivers may wait for servers that are away; nothing is left to flush


def add(arguments: argparse.Namespace) -> int:
    """Admit URLs as seeds, while the crawl runs or not."""
    settings = load_cluster_settings(arguments.config)
    if arguments.owned:
        raise UsageError("--owned has no place beside --config: every process reads `owned` from the file")
    seeds = check_entries(read_entries(arguments.urls, arguments.input), settings.rules.url_bytes_max)
    if not seeds:
        raise UsageError("no URL to add: give at least one, or -i FILE")
    permission = judge(seeds, (), parse_owned(settings.owned), system_resolve, many_public=True)
    if permission.public and not settings.crawl.contact:
        raise UsageError(f"{permission.public[0]} is not yours: set crawl.contact, so that its owner can reach you")
    report = asyncio.run(_add(settings, seeds))
    if arguments.json:
        rejected = [{"url": url, "rule": rule} for url, rule in report.rejected]
        print_json({"new": report.new, "known": report.known, "rejected": rejected})
    else:
        print_lines([f"{show_count(report.new, 'URL')} added, {report.known:,} known already"])
        print_lines(f"left out by rule {rule}: {url}" for url, rule in report.rejected)
    return EXIT_FINDINGS if report.rejected else 0


async def _add(settings: ClusterSettings, seeds: Sequence[Seed]) -> SeedReport:
    from limpet.cluster.seeding import admit_seeds  # noqa: PLC0415 - loads the drivers

    def check(facts: Facts) -> None:
        check_patterns(seeds, facts.scope)

    clock = DurableClock(SystemClock())
    return await admit_seeds(settings, [seed.url for seed in seeds], clock, SystemRandom(), check)

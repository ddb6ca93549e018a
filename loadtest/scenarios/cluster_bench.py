"""What a crawl costs on the cluster adapters: all roles as processes, real single-node servers, everything on.

    PYTHONPATH=loadtest python -m scenarios.cluster_bench [--quick] [--servers FOLDER] [--out FILE]

Serves the `bench` web of `origin` (HTML pages of about 72 KB with 50 links, gzip, hosts that are owned), and crawls it
with two crawl nodes, a parser, an admission and a reconciler under the defaults. CPU and memory of Limpet's own
processes come from /proc; statements to Cassandra from `/tally`; sizes from the stores themselves. Servers take the
same cores, so pages a second say little; CPU of Limpet's processes says what they cost. It needs what `make servers-up`
needs.
Exit codes: 0 all targets met, 1 some missed, 2 no figures.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from limpet.bus.kafka import KafkaBus, KafkaSettings
from limpet.clock import SystemClock
from limpet.model.events import DOCUMENT_FETCHED, LINKS_DISCOVERED
from origin import OriginProcess, Policy, examine, read_events, requests_by_url
from scenarios.calibration import gzip_ms
from scenarios.cluster_figures import COMMAND, ROLES, STORES, lines, missed
from scenarios.cluster_roles import Look, RoleFailed, Roles
from scenarios.cluster_stores import Stores
from scenarios.figures import machine, make_quick
from scenarios.procfs import monotonic_seconds

EVIDENCE: Final = Path(__file__).resolve().parent.parent / "evidence" / "cluster_bench.json"
COUNTS: Final = {"crawlnode": 2, "parser": 1, "admission": 1, "reconciler": 1}
QUICK: Final = {"hosts": 40, "pages": 20, "idle": 5.0}
SETTLE_SECONDS: Final = 3.0
STALL_SECONDS_MAX: Final = 120.0
STATUS_ROUNDS: Final = 3
MIB: Final = 1 << 20
SHARDS: Final = 32


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; the exit code."""
    options = _options(arguments)
    load_before, calibration_ms = os.getloadavg()[0], gzip_ms()
    with tempfile.TemporaryDirectory(prefix="limpet-cluster-", dir=options.directory) as directory:
        stores = Stores(options.servers or Path(directory) / "servers", f"bench_{SystemClock().wall_us() // 1_000_000}")
        try:
            _say("starting the servers")
            stores.up()
            values, details = _measure(stores, Path(directory), options, calibration_ms)
        except RoleFailed as error:
            _say(f"no figures: {error}")
            return 2
        finally:
            stores.down()
    print("\n".join(lines(values)), flush=True)
    if options.out is not None:
        _write(options.out, values, details, calibration_ms, load_before)
    if missed(values):
        _say(f"targets missed: {', '.join(missed(values))}")
    return 1 if missed(values) else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m scenarios.cluster_bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help=f"a small form that writes no evidence: {QUICK}")
    parser.add_argument("--hosts", type=int, default=100, help="hosts of the web (default: %(default)s)")
    parser.add_argument("--pages", type=int, default=60, help="pages of each host (default: %(default)s)")
    parser.add_argument("--idle", type=float, default=10.0, help="seconds of each idle look (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=7, help="of the web (default: %(default)s)")
    parser.add_argument("--servers", type=Path, help="folder of servers; what runs is used (default: a new one)")
    parser.add_argument("--directory", type=Path, help="work below this directory")
    parser.add_argument("--out", type=Path, default=EVIDENCE, help="evidence file (default: %(default)s)")
    options = parser.parse_args(arguments)
    if options.quick:
        make_quick(options, QUICK, EVIDENCE)
    return options


def _measure(
    stores: Stores, directory: Path, options: argparse.Namespace, calibration_ms: float
) -> tuple[dict[str, float], dict[str, Any]]:
    log, seeds, total = directory / "origin.jsonl", directory / "seeds.txt", options.hosts * options.pages
    with OriginProcess("bench", log_path=log, seed=options.seed, hosts=options.hosts, pages=options.pages) as origin:
        seeds.write_text("\n".join(origin.seeds) + "\n")
        with Roles(stores, directory, COUNTS) as roles:
            _say(f"roles are ready: {roles.pids}")
            time.sleep(SETTLE_SECONDS)
            idle_before = _idle(roles, options.idle)
            sizes_before, begun = stores.bytes(), roles.look()
            roles.limpet("add", "-i", str(seeds))
            ended = _until_done(roles, stores, begun, total)
            time.sleep(SETTLE_SECONDS)
            idle_after = _idle(roles, options.idle)
            status = _status_seconds(roles)
            roles.stop()
        sizes, tables = stores.bytes(), stores.cassandra_tables()
    events = read_events(log)
    asked, verdict = requests_by_url(events), examine(events, Policy(owned=True))
    pages = [url for url, kind in origin.web.expected().items() if kind == "page"]
    unasked = [url for url in pages if url not in asked]
    if unasked or len(pages) != total:
        raise RoleFailed(f"{len(unasked)} of {len(pages)} pages were not asked for")
    twice = sum(1 for url in pages if asked[url] > 1)
    seconds = ended.at - begun.at
    idle_ms = {role: (idle_before[role] + idle_after[role]) / 2 for role in ROLES}
    values = {
        **_cpu(begun, ended, total, idle_ms, calibration_ms),
        "pages_per_second": total / seconds,
        "asked_twice": twice,
        "violations": len(verdict.violations),
        **{f"rss_mib_max_{role}": ended.rss_bytes_max[role] / MIB for role in ROLES},
        **{f"idle_cpu_ms_{role}": idle_ms[role] for role in ROLES},
        **{f"{store}_bytes_per_url": (sizes[store] - sizes_before[store]) / total for store in STORES},
        "status_seconds": status,
    }
    details = {
        "hosts": options.hosts,
        "pages_per_host": options.pages,
        "pages": total,
        "seed": options.seed,
        "processes": COUNTS,
        "seconds": round(seconds, 1),
        "idle_before_ms": {role: round(value, 1) for role, value in idle_before.items()},
        "idle_after_ms": {role: round(value, 1) for role, value in idle_after.items()},
        "statements_by_name": _a_page(ended.statements - begun.statements, total),
        "conditional_by_name": _a_page(ended.conditional - begun.conditional, total),
        "cassandra_bytes_per_url": {
            name: round(size / total, 1) for name, size in sorted(tables.items(), key=lambda one: -one[1]) if size
        },
        "violations": [asdict(violation) for violation in verdict.violations[:10]],
    }
    return values, details


def _cpu(begun: Look, ended: Look, pages: int, idle_ms: Mapping[str, float], calibration_ms: float) -> dict[str, float]:
    a_page = {role: (ended.cpu_seconds[role] - begun.cpu_seconds[role]) * 1000 / pages for role in ROLES}
    statements, conditional = ended.statements - begun.statements, ended.conditional - begun.conditional
    idle = sum(idle_ms.values()) * (ended.at - begun.at) / pages
    return {
        "cpu_ms_per_page": sum(a_page.values()),
        **{f"cpu_ms_per_page_{role}": cost for role, cost in a_page.items()},
        "cpu_busy_ms_per_page": sum(a_page.values()) - idle,
        "cpu_per_calibration": sum(a_page.values()) / calibration_ms,
        "conditional_per_page": conditional.total() / pages,
        "statements_per_page": statements.total() / pages,
        "requests_per_page": (ended.requests - begun.requests) / pages,
    }


def _idle(roles: Roles, seconds: float) -> dict[str, float]:
    """CPU milliseconds a second of each role while there is nothing to do."""
    before = roles.look()
    time.sleep(seconds)
    after = roles.look()
    spent = after.at - before.at
    return {role: (after.cpu_seconds[role] - before.cpu_seconds[role]) * 1000 / spent for role in ROLES}


def _until_done(roles: Roles, stores: Stores, begun: Look, total: int) -> Look:
    """Every page has its outcome, and both topics are read to their ends. Raises `RoleFailed` when nothing moves."""
    moved = told = begun.at
    done = 0
    while True:
        time.sleep(1.0)
        look = roles.look()
        completed = look.conditional["url_complete"] - begun.conditional["url_complete"]
        if completed > done:
            done, moved = completed, look.at
        elif done >= total and asyncio.run(_lag(stores)) == 0:
            return look
        if look.at - told >= 10:
            told = look.at
            _say(f"{done:,} of {total:,} pages")
        if look.at - moved > STALL_SECONDS_MAX:
            raise RoleFailed(f"nothing moved for {STALL_SECONDS_MAX:g} s at {done} of {total} pages")


async def _lag(stores: Stores) -> int:
    """Messages that nobody has finished with."""
    table = stores.tables(http="", folder=Path())["kafka"]
    settings = KafkaSettings(bootstrap=table["bootstrap"], prefix=table["prefix"])
    bus = KafkaBus(settings, SystemClock(), min_insync=1)
    try:
        lag = 0
        for topic in (DOCUMENT_FETCHED, LINKS_DISCOVERED):
            places = [(settings.topic(topic), shard) for shard in range(SHARDS)]
            committed, spans = await bus.cluster.committed(topic, places), await bus.cluster.spans(places)
            lag += sum(end - max(committed.get(place, 0), start) for place, (start, end) in spans.items())
        return lag
    finally:
        await bus.close()


def _status_seconds(roles: Roles) -> float:
    found = []
    for _ in range(STATUS_ROUNDS):
        began = monotonic_seconds()
        roles.limpet("status", "--json")
        found.append(monotonic_seconds() - began)
    return statistics.median(found)


def _a_page(counts: Counter[str], pages: int) -> dict[str, float]:
    return {name: round(count / pages, 3) for name, count in counts.most_common() if count / pages >= 0.0005}


def _write(
    path: Path, values: Mapping[str, float], details: Mapping[str, Any], calibration_ms: float, load_before: float
) -> None:
    evidence = {
        "command": COMMAND,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(),
        "load_average_before": round(load_before, 2),
        "calibration_gzip_ms": round(calibration_ms, 4),
        "figures": {name: round(value, 4) for name, value in values.items()},
        "details": details,
    }
    path.write_text(json.dumps(evidence, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


def _say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

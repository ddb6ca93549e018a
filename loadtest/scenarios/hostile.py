"""Hostile hosts beside good ones: what they cost the others, and memory.

    python -m scenarios.hostile [--quick] [--out loadtest/evidence/hostile.json]

The same crawl of the `bench` web, its hosts asked at a fixed pace, without and with a stalled host, a body of 2 GB and
a gzip bomb beside it; in turns, so that a machine that gets busier does both the same harm. Exit code 1 when a target
is missed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from origin import OriginProcess, Policy, examine, read_events
from scenarios.crawling import OWNED, LimpetProcess, LogTail
from scenarios.figures import machine

SAMPLE_SECONDS: Final = 0.2
SLOWER_SHARE_MAX: Final = 0.05
RSS_GROWTH_MIB_MAX: Final = 120.0
MIB: Final = 1 << 20
CONFIG: Final = """
[fetching]
idle_seconds_max = 8.0
wall_seconds_max = 120.0
[retries]
base_seconds = 1.0
factor = 1.0
"""


@dataclass(frozen=True, slots=True)
class Crawl:
    """One crawl: of the good hosts by the origin's log, of Limpet by /proc."""

    hostile: bool
    pages: int
    seconds: float  # first to last request to good hosts
    pages_per_second: float
    rss_mib_max: float  # of any Limpet process
    cpu_seconds: float
    whole_seconds: float
    violations: int
    wire_bytes: int
    exit_code: int


@contextmanager
def hostile_sites(body_bytes: int, bomb_bytes: int) -> Iterator[list[str]]:
    """Seeds of the hostile hosts while they serve."""
    command = [sys.executable, "-m", "scenarios.hostile_sites", str(body_bytes), str(bomb_bytes)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        try:
            yield json.loads(child.stdout.readline())
        finally:
            child.stdin.close()
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()


def crawl(directory: Path, chosen: argparse.Namespace, beside: Sequence[str]) -> Crawl:
    """Crawl the good web, and `beside` it those seeds, into an empty `directory`."""
    log, seeds, config = directory / "origin.jsonl", directory / "seeds.txt", directory / "config.toml"
    config.write_text(CONFIG)
    with OriginProcess("bench", log_path=log, seed=7, hosts=chosen.hosts, pages=chosen.pages) as origin:
        seeds.write_text("\n".join([*origin.seeds, *beside]) + "\n")
        arguments = ["crawl", "-i", str(seeds), "--into", str(directory / "crawl"), "--owned", OWNED, "--json"]
        arguments += ["--config", str(config), "--delay", f"{chosen.delay}s", "--patience", "10s"]
        with LimpetProcess(arguments, directory / "summary.json") as limpet:
            tail, rss_bytes_max = LogTail(log), 0
            while limpet.running():
                sample = limpet.sample(tail.look(), origin.pid)
                rss_bytes_max = max([rss_bytes_max, *(one.rss_bytes_max for one in sample.limpet.values())])
                time.sleep(SAMPLE_SECONDS)
            ended = limpet.end()
    events = read_events(log)
    asked_ns = [event.t_ns for event in events if event.EVENT == "requested"]
    seconds = (max(asked_ns) - min(asked_ns)) / 1e9
    summary = json.loads(ended.output)
    return Crawl(
        hostile=bool(beside),
        pages=len(asked_ns),
        seconds=seconds,
        pages_per_second=len(asked_ns) / seconds,
        rss_mib_max=rss_bytes_max / MIB,
        cpu_seconds=ended.user_seconds + ended.system_seconds,
        whole_seconds=ended.seconds,
        violations=len(examine(events, Policy(owned=True)).violations),
        wire_bytes=summary["bytes"],
        exit_code=ended.code,
    )


def compared(crawls: Sequence[Crawl]) -> dict[str, Any]:
    """Figures of all rounds, with their targets."""
    good = [one for one in crawls if not one.hostile]
    hard = [one for one in crawls if one.hostile]
    calm, beside = (median(one.pages_per_second for one in part) for part in (good, hard))
    growth = max(one.rss_mib_max for one in hard) - max(one.rss_mib_max for one in good)
    figures = {
        "pages_per_second": round(calm, 2),
        "pages_per_second_beside_hostile_hosts": round(beside, 2),
        "slower_share": round(1 - beside / calm, 4),
        "slower_share_max": SLOWER_SHARE_MAX,
        "rss_growth_mib": round(growth, 1),
        "rss_growth_mib_max": RSS_GROWTH_MIB_MAX,
        "violations": sum(one.violations for one in crawls),
        "all_pages_asked": len({one.pages for one in crawls}) == 1,
    }
    figures["holds"] = (
        figures["slower_share"] <= SLOWER_SHARE_MAX
        and growth <= RSS_GROWTH_MIB_MAX
        and not figures["violations"]
        and figures["all_pages_asked"]
    )
    return figures


def main(words: Sequence[str] | None = None) -> int:
    """Run the rounds, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small form, to see that it runs")
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--pages", type=int, default=80, help="of each host")
    parser.add_argument("--delay", type=float, default=0.5, help="seconds between two requests to a host")
    parser.add_argument("--body-bytes", type=int, default=2_000_000_000)
    parser.add_argument("--bomb-bytes", type=int, default=2_000_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args(words)
    if chosen.quick:
        chosen.hosts, chosen.pages, chosen.rounds, chosen.body_bytes = 20, 30, 1, 300_000_000
    crawls: list[Crawl] = []
    with tempfile.TemporaryDirectory() as place, hostile_sites(chosen.body_bytes, chosen.bomb_bytes) as beside:
        for number in range(chosen.rounds):
            for seeds in ([], beside):
                directory = Path(place) / f"{number}-{len(seeds)}"
                directory.mkdir()
                crawls.append(crawl(directory, chosen, seeds))
                print(json.dumps(asdict(crawls[-1])), flush=True)
    figures = compared(crawls)
    print(json.dumps(figures, indent=2))
    if chosen.out is not None:
        settings = {name: value for name, value in vars(chosen).items() if name != "out"}
        evidence = {"figures": figures, "crawls": [asdict(one) for one in crawls], "settings": settings}
        chosen.out.write_text(json.dumps({**evidence, "machine": machine()}, indent=2) + "\n")
    return 0 if figures["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())

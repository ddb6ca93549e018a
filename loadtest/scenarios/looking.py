"""How long somebody who only looks on waits for an answer, while a crawl that knows a million URLs is at work.

    PYTHONPATH=loadtest python -m scenarios.looking [--urls 1000000] [--hosts 1000] [--rounds 5] [--out FILE]

Each verb is started as a user starts it, from the launch of the command to its exit. docs/operating.md quotes
loadtest/evidence/looking.json.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from origin import OriginProcess
from scenarios import known_urls
from scenarios.crawling import OWNED, LimpetProcess, LogTail
from scenarios.procfs import monotonic_seconds
from scenarios.starting import first_request_seconds

SECONDS_MAX: Final = 120.0


def measure(directory: Path, *, urls: int, hosts: int, rounds: int) -> dict[str, Any]:
    """Seconds of each verb while the crawl runs. Raises `BenchFailed` when it does not."""
    log, into = directory / "origin.jsonl", directory / "known"
    with OriginProcess("bench", log_path=log, seed=1, hosts=hosts, pages=max(2, urls // hosts)) as origin:
        robots = origin.web.rules("").robots_text().encode()
        known_urls.build(into, origin.seeds, urls, OWNED, robots)
        host = origin.seeds[0].split("/")[2].partition(":")[0]
        verbs = {
            "--help": ["--help"],
            "hosts": ["hosts", str(into)],
            "hosts --json": ["hosts", str(into), "--json"],
            "hosts HOST": ["hosts", str(into), host],
            "hosts slow HOST": ["hosts", str(into), "slow", host, "--gap", "2s"],
            "status": ["status", str(into)],
            "report --by host": ["report", str(into), "--by", "host"],
        }
        with LimpetProcess(["crawl", "--into", str(into), "-q"], directory / "output.txt") as limpet:
            first_request_seconds(limpet, LogTail(log))
            found = {name: _seconds(words, rounds) for name, words in verbs.items()}
            at_work = limpet.running()
            limpet.interrupt()
            limpet.end()
    return {
        "python": platform.python_version(),
        "cpus": len(os.sched_getaffinity(0)),
        "load_average": os.getloadavg()[0],
        "urls": urls,
        "hosts": hosts,
        "rounds": rounds,
        "crawl_at_work": at_work,
        "seconds": found,
    }


def _seconds(words: Sequence[str], rounds: int) -> dict[str, float]:
    """Median and longest, the CPU that one call takes, and how many lines it prints."""
    found, lines = [], 0
    before = _children_cpu_seconds()
    for _ in range(rounds):
        began = monotonic_seconds()
        command = [sys.executable, "-m", "limpet.cli.entry", *words]
        done = subprocess.run(command, capture_output=True, check=True, timeout=SECONDS_MAX)
        found.append(monotonic_seconds() - began)
        lines = done.stdout.count(b"\n")
    cpu = (_children_cpu_seconds() - before) / rounds
    return {
        "median": round(statistics.median(found), 3),
        "max": round(max(found), 3),
        "cpu": round(cpu, 3),
        "lines": lines,
    }


def _children_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Measure and print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="limpet-looking-") as directory:
        found = measure(Path(directory), urls=options.urls, hosts=options.hosts, rounds=options.rounds)
    text = json.dumps(found, indent=2) + "\n"
    if options.out is not None:
        options.out.write_text(text)
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())

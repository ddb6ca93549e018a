"""Writes `docs/performance.md` out of the committed evidence, so that no figure in it is typed by hand.

The cluster's part comes from evidence of its own, because it needs servers.

PYTHONPATH=loadtest python -m scenarios.performance
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scenarios import cluster_figures
from scenarios.figures import DEFINITIONS, PARTS, Definition, number

ROOT = Path(__file__).resolve().parent.parent.parent
EVIDENCE = ROOT / "loadtest" / "evidence" / "bench.json"
CLUSTER = ROOT / "loadtest" / "evidence" / "cluster_bench.json"
PAGE = ROOT / "docs" / "performance.md"
_TITLES = {
    "crawl": "A whole crawl at full speed",
    "start": "Start",
    "resume": "Resume of a large crawl",
}
_INTRODUCTION = """\
# Performance

This page is written by `python -m scenarios.performance` from `bench.json` and `cluster_bench.json` in
`loadtest/evidence`; a test fails when they differ. `make bench` measures everything of one machine again and rewrites
its evidence, `make bench BENCH=--quick` tries it in a minute and writes nothing. A part alone: the command above its
table.

What is measured is the `limpet` command as a user starts it, with everything on: robots.txt, politeness, WARC records
synced to disk, parse, admission. The site is the `bench` web of `loadtest/origin`, a process of its own on the same
machine: HTML pages of about 72 KB with 50 links, half of them to other hosts, gzip'd. The hosts are declared as owned,
since politeness towards a thousand strangers would leave nothing to measure. The origin's judge reads its log
afterwards and must find no violation.

CPU is what the kernel counts for every Limpet process from its start to its end. Work of others on the same cores makes
it dearer by some percent (they share caches) and takes away most of what pages per second could be; the rows on busy
cores tell how much that was. To compare machines, divide CPU by what one zlib -6 of a fixed page costs there: that is
the row with ÷.
"""


def render(evidence: Mapping[str, Any], cluster: Mapping[str, Any]) -> str:
    """The page, of the parts that the evidence has."""
    parts = [part for part in PARTS if part in evidence["parts"]]
    embedded = (line for part in parts for line in _part(part, evidence["parts"][part]))
    return "\n".join([_INTRODUCTION, *embedded, *_cluster(cluster)])


def _part(part: str, found: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {_TITLES[part]}\n"
    yield _circumstances(part, found["details"])
    yield from _machine(found)
    yield ""
    yield f"```\n{found['command']}\n```\n"
    yield from _table(DEFINITIONS, found["figures"])


def _cluster(found: Mapping[str, Any]) -> Iterator[str]:
    details = found["details"]
    yield "## A crawl on the cluster adapters\n"
    processes = ", ".join(f"{count} `{role}`" for role, count in details["processes"].items())
    yield f"{details['pages']:,} pages of the same web on {details['hosts']:,} hosts; {processes}."
    yield "Kafka, Cassandra, HDFS and 32 Valkey shards, one node each, run on the same cores: what a second brings says"
    yield "little, CPU a page is what counts."
    yield from _machine(found)
    yield ""
    yield f"```\n{found['command']}\n```\n"
    yield from _table(cluster_figures.DEFINITIONS, found["figures"])
    yield from cluster_figures.tables(details)


def _table(definitions: Mapping[str, Definition], figures: Mapping[str, float]) -> Iterator[str]:
    yield "| Figure | Value | Target | |"
    yield "|---|---:|---|---|"
    for name, definition in definitions.items():
        if name not in figures:
            continue
        value = figures[name]
        shown = f"{number(value)} {definition.unit}".rstrip()
        verdict = ("met" if definition.holds(value) else "missed") if definition.target else ""
        yield f"| {definition.title} | {shown} | {definition.target} | {verdict} |"
    yield ""


def _circumstances(part: str, details: Mapping[str, Any]) -> str:
    if part == "crawl":
        return f"{details['pages']:,} pages on {details['hosts']:,} hosts, {details['processes']} Limpet processes."
    if part == "start":
        return f"{details['rounds']} new crawls of each kind, {details['seeds']:,} hosts."
    return f"{details['urls']:,} known URLs on {details['hosts']:,} hosts, {details['rounds']} resumes of each kind."


def _machine(found: Mapping[str, Any]) -> Iterator[str]:
    machine = found["machine"]
    yield f"Measured on {found['date']}: {machine['cores']} cores ({machine['cpu']}),"
    yield f"{machine['memory_mib'] / 1024:.0f} GiB of memory, Python {machine['python']}, SQLite {machine['sqlite']};"
    yield f"load average before it {number(found['load_average_before'])},"
    yield f"one zlib -6 of the calibration page {number(found['calibration_gzip_ms'])} ms."


def main() -> int:
    """Write the page."""
    PAGE.write_text(render(json.loads(EVIDENCE.read_text()), json.loads(CLUSTER.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())

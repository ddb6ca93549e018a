"""What the benchmark of the cluster form reports; see `scenarios.figures`."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from scenarios.figures import Definition, number

ROLES: Final = ("crawlnode", "parser", "admission", "reconciler")
STORES: Final = {
    "cassandra": "on disk",
    "cassandra_paxos": "on disk, the servers' own table, all of whose rows pass",
    "kafka": "in the logs of all topics",
    "seen": "of memory, all shards",
    "hdfs": "in segments, one replica",
}
COMMAND: Final = "PYTHONPATH=loadtest .venv/bin/python -m scenarios.cluster_bench"

DEFINITIONS: Final[dict[str, Definition]] = {
    "cpu_ms_per_page": Definition("crawl", "CPU of all Limpet processes per HTML page, seeds to end", "ms", 5.0),
    **{f"cpu_ms_per_page_{role}": Definition("crawl", f"of which `{role}`", "ms") for role in ROLES},
    "cpu_busy_ms_per_page": Definition("crawl", "the same without what the processes take when idle", "ms"),
    "cpu_per_calibration": Definition("crawl", "CPU per page ÷ CPU of one zlib -6 of a fixed 72 KB page", ""),
    "conditional_per_page": Definition("crawl", "conditional writes to Cassandra per page", "", 3.0),
    "statements_per_page": Definition("crawl", "statements to Cassandra per page, conditional ones included", ""),
    "requests_per_page": Definition("crawl", "requests that these travelled in", ""),
    "pages_per_second": Definition("crawl", "pages per second, servers on the same cores", "1/s"),
    "asked_twice": Definition("crawl", "URLs that were asked for more than once", "", 0),
    "violations": Definition("crawl", "violations that the origin's judge found", "", 0),
    **{
        f"rss_mib_max_{role}": Definition("crawl", f"largest resident set of a `{role}`", "MiB", 300.0)
        for role in ROLES
    },
    **{
        f"idle_cpu_ms_{role}": Definition("crawl", f"CPU of all `{role}` in a second without work", "ms")
        for role in ROLES
    },
    **{
        f"{store}_bytes_per_url": Definition("crawl", f"bytes per URL, {store}: {what}", "B")
        for store, what in STORES.items()
    },
    "status_seconds": Definition("crawl", "`limpet status`, launch to end, median", "s", 1.0),
}


def lines(values: Mapping[str, float]) -> Iterator[str]:
    """The figures for a terminal, the command first."""
    yield f"$ {COMMAND}"
    for name, definition in DEFINITIONS.items():
        value = values[name]
        verdict = f"  {'ok' if definition.holds(value) else 'MISSED'}, {definition.target}" if definition.target else ""
        yield f"  {number(value):>9} {definition.unit:<4} {definition.title}{verdict}"


def missed(values: Mapping[str, float]) -> list[str]:
    """Names of the figures that miss their target."""
    return [name for name, definition in DEFINITIONS.items() if not definition.holds(values[name])]


def tables(details: Mapping[str, Any]) -> Iterator[str]:
    """What stands behind the figures: statements by name, bytes by table."""
    yield "| Statement to Cassandra | a page | of which conditional |"
    yield "|---|---:|---:|"
    conditional = details["conditional_by_name"]
    for name, count in details["statements_by_name"].items():
        yield (
            f"| `{name}` | {count:.3f} | {conditional[name]:.3f} |"
            if name in conditional
            else f"| `{name}` | {count:.3f} | |"
        )
    yield ""
    yield "| Table of Cassandra | bytes a URL |"
    yield "|---|---:|"
    for name, size in details["cassandra_bytes_per_url"].items():
        yield f"| `{name}` | {number(size)} |"
    yield ""

"""What a process tells of itself in numbers: one typed registry, and its text form for Prometheus.

A label names something of ours that there are few of (a state, a kind of statement), never a URL, a host or a shard's
content: what the web chooses must not choose how many series there are. The registry bounds them.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SERIES_MAX: Final = 200
"""Of one metric; what is beyond is left out, and counted by `limpet_series_dropped`."""


class Kind(StrEnum):
    """How a number behaves."""

    COUNTER = "counter"  # only grows, from 0 at the start of the process
    GAUGE = "gauge"


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One number: `name` ends in its unit, then `total` if it only grows."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


READY: Final = Metric(name="limpet_ready", kind=Kind.GAUGE, help="1 when /ready says so.")
WAITS: Final = Metric(name="limpet_waits", kind=Kind.GAUGE, help="Things of ours that are waited for now.")
WAIT_AGE: Final = Metric(name="limpet_wait_age_seconds", kind=Kind.GAUGE, help="Age of the oldest of them.")
HELD: Final = Metric(name="limpet_shards_held", kind=Kind.GAUGE, help="Shards or partitions that this process serves.")
LEASE_AGE: Final = Metric(
    name="limpet_lease_age_seconds", kind=Kind.GAUGE, help="Since the last acknowledged sign of life was sent."
)
LIVES: Final = Metric(
    name="limpet_lives_total",
    kind=Kind.COUNTER,
    help="Incarnations so far: more than 1, and a lease was lost.",
)
STATEMENTS: Final = Metric(
    name="limpet_cassandra_statements_total",
    kind=Kind.COUNTER,
    help="Statements sent to Cassandra.",
    labels=("statement", "conditional"),
)
RECEIPTS: Final = Metric(
    name="limpet_receipts_total",
    kind=Kind.COUNTER,
    help="Batched writes, by what may be said of them.",
    labels=("operation", "verdict"),
)
UNCLEAN: Final = Metric(
    name="limpet_receipts_unclean_total",
    kind=Kind.COUNTER,
    help="Batched writes of which not all was answered well.",
)
COMMANDS_MAX: Final = Metric(
    name="limpet_receipt_commands_max", kind=Kind.GAUGE, help="The most commands of one batched write so far."
)
ARGUMENTS_MAX: Final = Metric(
    name="limpet_receipt_arguments_max", kind=Kind.GAUGE, help="The most arguments of one command so far."
)
REPAIRS: Final = Metric(
    name="limpet_repairs", kind=Kind.GAUGE, help="Repair items that are open in the shards of this reconciler."
)
REPAIR_AGE: Final = Metric(name="limpet_repair_age_seconds", kind=Kind.GAUGE, help="Age of the oldest of them.")
URLS: Final = Metric(
    name="limpet_urls",
    kind=Kind.GAUGE,
    help="URLs of the shards of this reconciler by state, as of the last whole sweep.",
    labels=("state",),
)
URLS_AGE: Final = Metric(name="limpet_urls_age_seconds", kind=Kind.GAUGE, help="Since the oldest part was counted.")
DROPPED: Final = Metric(name="limpet_series_dropped", kind=Kind.GAUGE, help="Series beyond the bound, not shown.")

METRICS: Final = (
    READY,
    WAITS,
    WAIT_AGE,
    HELD,
    LEASE_AGE,
    LIVES,
    STATEMENTS,
    RECEIPTS,
    UNCLEAN,
    COMMANDS_MAX,
    ARGUMENTS_MAX,
    REPAIRS,
    REPAIR_AGE,
    URLS,
    URLS_AGE,
    DROPPED,
)
"""Every number there is; docs/cluster.md lists them."""


class Sample(msgspec.Struct, frozen=True):
    """One number now; `labels` in the order of the metric's."""

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()


def counted(metric: Metric, counts: Iterable[tuple[tuple[str, ...], float]]) -> list[Sample]:
    """A sample for each pair of labels and value."""
    return [Sample(metric, value, labels) for labels, value in sorted(counts)]


def exposition(samples: Iterable[Sample]) -> str:
    """The text that Prometheus reads. Raises `ValueError` for a metric or label that the registry does not have."""
    by_metric: dict[str, list[Sample]] = {}
    for sample in samples:
        if sample.metric not in METRICS or len(sample.labels) != len(sample.metric.labels):
            raise ValueError(f"{sample.metric.name}{sample.labels} is not registered")
        by_metric.setdefault(sample.metric.name, []).append(sample)
    dropped = sum(max(0, len(found) - SERIES_MAX) for found in by_metric.values())
    by_metric[DROPPED.name] = [Sample(DROPPED, dropped)]
    lines: list[str] = []
    for metric in METRICS:
        found = by_metric.get(metric.name, [])[:SERIES_MAX]
        if found:
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind.value}"]
            lines += [f"{metric.name}{_labels(sample)} {sample.value:.15g}" for sample in found]
    return "\n".join(lines) + "\n"


def _labels(sample: Sample) -> str:
    if not sample.labels:
        return ""
    pairs = zip(sample.metric.labels, sample.labels, strict=True)
    return "{" + ",".join(f'{name}="{_quoted(value)}"' for name, value in pairs) + "}"


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

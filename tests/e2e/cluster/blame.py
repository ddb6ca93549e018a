"""Duplicates, laid at the door of the fault that caused each; what no fault explains is an anomaly.

A request is repeated by right when the site had refused it (429, 503). Any other repetition costs the site something
and must come from a fault that hit the first request's way to its outcome: one that began before that way can have
been over (the lease bounds it), and that was not over when the first request was sent.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any, Final

from e2e.cluster.progress import REFUSED
from origin.visits import NEVER_NS, Visit

BESIDE: Final = frozenset({"parser", "admission", "reconciler", "valkey"})
"""What stands beside the way of a request: its death alone makes nobody ask again."""


@dataclass
class Laid:
    """A fault: what was done to whom, from when to when, how far the crawl was."""

    kind: str
    target: str
    began_ns: int
    done: int
    ended_ns: int = NEVER_NS
    duplicates: Counter[str] = field(default_factory=Counter)
    standstill_seconds: float = 0.0  # the longest time without an answer, from it to the next

    @property
    def seconds(self) -> float:
        """How long it took until what was hit served again."""
        return (self.ended_ns - self.began_ns) / 1e9

    def explains(self, before: Visit, after: Visit, settle_ns: int) -> bool:
        """Whether `after` may be asked because of it, though `before` had been answered."""
        over_ns = min(before.end_ns, after.received_ns) + settle_ns
        return self.began_ns <= min(over_ns, after.received_ns) and before.received_ns <= self.ended_ns + settle_ns


def repetitions(visits: Iterable[Visit]) -> list[tuple[Visit, Visit]]:
    """(earlier, later) of every URL that was asked again without having been refused."""
    latest: dict[str, Visit] = {}
    found = []
    for visit in visits:
        before = latest.get(visit.url)
        latest[visit.url] = visit
        if before is not None and before.status not in REFUSED:
            found.append((before, visit))
    return found


def blame(faults: Sequence[Laid], visits: Iterable[Visit], settle_seconds: float) -> list[str]:
    """Lay every repetition at a fault's door; those that none explains, one line each.

    `settle_seconds`: how long a request may be on its way to its outcome, and what a fault did may take to show.
    """
    unexplained = []
    for before, after in repetitions(visits):
        fault = likeliest([one for one in faults if one.explains(before, after, int(settle_seconds * 1e9))], before)
        if fault is None:
            seconds = (after.received_ns - before.received_ns) / 1e9
            unexplained.append(
                f"needless fetch: {after.url} was asked again after {seconds:.1f} s, and no fault is near"
            )
        else:
            fault.duplicates[after.url] += 1
    return unexplained


def time_standstills(faults: Sequence[Laid], visits: Iterable[Visit]) -> None:
    """How long the crawl stood still because of each: between two answers, until the next fault or the last answer."""
    answers = sorted(visit.end_ns for visit in visits if visit.complete)
    over_ns = answers[-1] if answers else 0
    for fault, next_ns in zip(faults, [*(fault.began_ns for fault in faults[1:]), over_ns], strict=True):
        met = [fault.began_ns, *(end for end in answers if fault.began_ns < end < next_ns), next_ns]
        fault.standstill_seconds = max(0, *(later - earlier for earlier, later in pairwise(met))) / 1e9


def likeliest(faults: Sequence[Laid], before: Visit) -> Laid | None:
    """Of faults that explain a repetition: one of a process between request and outcome, the nearest after it."""

    def unlikely(fault: Laid) -> tuple[bool, bool, int]:
        beside = fault.target.partition("-")[0] in BESIDE
        return beside, fault.ended_ns < before.received_ns, abs(fault.began_ns - before.received_ns)

    return min(faults, key=unlikely, default=None)


def by_kind(faults: Sequence[Laid]) -> dict[str, dict[str, Any]]:
    """Figures of each kind of fault."""
    kinds = sorted({fault.kind for fault in faults})
    return {kind: _figures([fault for fault in faults if fault.kind == kind]) for kind in kinds}


def _figures(faults: Sequence[Laid]) -> dict[str, Any]:
    duplicates = [fault.duplicates.total() for fault in faults]
    return {
        "faults": len(faults),
        "seconds_max": round(max(fault.seconds for fault in faults), 1),
        "standstill_seconds_max": round(max(fault.standstill_seconds for fault in faults), 1),
        "duplicates": sum(duplicates),
        "duplicates_median": median(duplicates),
        "duplicates_max": max(duplicates),
    }

"""Laying faults on a crawl, each when the site says that it is so far: no machine is too fast or too slow for it."""

import random
from collections.abc import Callable, Sequence
from time import monotonic_ns, sleep
from typing import Final

from e2e.cluster.blame import Laid
from e2e.cluster.evidence import Left
from e2e.cluster.faults import Fault, Field
from e2e.cluster.progress import Progress
from e2e.cluster.ticking import seconds

STALL_SECONDS_MAX: Final = 300.0
POLL_SECONDS: Final = 2.0
BETWEEN_PART: Final = 0.005
"""So much is fetched before the next fault: every one hits a crawl at work."""
JITTER_SECONDS_MAX: Final = 0.7


class Siege:
    """`total`: URLs that the web gives; faults are laid between two parts of it."""

    def __init__(
        self, field: Field, progress: Progress, total: int, *, seed: int, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._field, self._progress, self._total = field, progress, total
        self._chance = random.Random(seed)
        self._say = say
        self.laid: list[Laid] = []

    def lay_all(self, faults: Sequence[Fault], first: float = 0.05, last: float = 0.85) -> None:
        """One after the other, evenly over that part of the crawl, each at a seeded instant after its mark."""
        for place, fault in enumerate(faults):
            mark = first + (last - first) * place / max(1, len(faults) - 1)
            at_work = self._progress.count() + int(BETWEEN_PART * self._total)
            self._progress.reach(max(int(mark * self._total), at_work), STALL_SECONDS_MAX, self._field.roles.check)
            sleep(self._chance.uniform(0.0, JITTER_SECONDS_MAX))
            self._lay(fault)

    def _lay(self, fault: Fault) -> None:
        laid = Laid(fault.kind, fault.target, monotonic_ns(), self._progress.count())
        self.laid.append(laid)
        assert laid.done < self._total, f"the crawl was over before {fault.kind} ({fault.target}) could be laid"
        self._say(f"{laid.done:6} of {self._total}: {fault.kind} ({fault.target})")
        fault.lay(self._field)
        laid.ended_ns = monotonic_ns()
        self._field.roles.check()


def await_end(
    look: Callable[[], Left],
    seconds_max: float,
    check: Callable[[], None] = lambda: None,
    *,
    poll_seconds: float = POLL_SECONDS,
) -> float:
    """Until the authority itself says twice in a row that nothing is left and nothing has changed; seconds it took.

    AssertionError says what is left.
    """
    begun, before = seconds(), None
    while True:
        left = look()
        if left.nothing and before is not None and left.states == before.states:
            return seconds() - begun
        before = left if left.nothing else None
        check()
        assert seconds() - begun < seconds_max, f"not over after {seconds_max:g} s: {left}"
        sleep(poll_seconds)

"""What the proofs of this run walked through, for the summary at its end."""

from collections import Counter

from crash.walk import Walk


class Ledger:
    """Adds up walks by what they were for."""

    def __init__(self) -> None:
        self._deaths: Counter[str] = Counter()
        self._points: dict[str, set[str]] = {}

    def enter(self, what: str, walk: Walk) -> None:
        """A walk was made."""
        self.add(what, walk.deaths, {point.name for point in walk.points})

    def add(self, what: str, deaths: int, steps: set[str]) -> None:
        """So many deaths or faults, at these steps."""
        self._deaths[what] += deaths
        self._points.setdefault(what, set()).update(steps)

    def lines(self) -> list[str]:
        """One line for each kind of walk."""
        lines = [f"{count:6,} {what}, {len(self._points[what])} steps" for what, count in self._deaths.items()]
        return [*lines, f"{self._deaths.total():6,} in all"] if lines else []


LEDGER = Ledger()

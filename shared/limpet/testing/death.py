"""Death on cue."""

from collections import Counter

from limpet.runtime import CRASH_POINTS, Killed


class CountingMortality:
    """Lives, and counts how often each crash point was passed."""

    def __init__(self) -> None:
        self.passed: Counter[str] = Counter()

    def crashpoint(self, name: str) -> None:
        """See `Mortality.crashpoint`."""
        if name not in CRASH_POINTS:
            raise KeyError(name)
        self.passed[name] += 1


class ScriptedDeath(CountingMortality):
    """Dies at the `occurrence`-th passing (1 = first) of crash point `name`; whoever asks afterwards dies too."""

    def __init__(self, name: str, occurrence: int) -> None:
        super().__init__()
        if name not in CRASH_POINTS:
            raise KeyError(name)
        self._name = name
        self._occurrence = occurrence
        self.dead = False

    def crashpoint(self, name: str) -> None:
        """See `Mortality.crashpoint`."""
        super().crashpoint(name)
        if name == self._name and self.passed[name] == self._occurrence:
            self.dead = True
        if self.dead:
            raise Killed(f"{self._name} #{self._occurrence}")

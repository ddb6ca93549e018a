"""How slow writing has become, for whoever has to be in time for a reader."""

from typing import Final

AHEAD_US_MAX: Final = 30_000_000
"""However slow writes are, a URL that is due is put off by no more than this."""


class Pace:
    """How far ahead of now entries are put, by how long writing entries took of late. Pure."""

    WRITES: Final = 2
    """An entry and its row together take about as long as so many entries."""
    MEMORY: Final = 8
    """A slow write is forgotten by an eighth with each faster one."""

    def __init__(self, lag_us: int) -> None:
        self._calm_us = lag_us // (2 * self.WRITES)
        self._slow_us = 0

    def took(self, us: int) -> None:
        """An entry was written, or was late by so much: many at once are as slow as the slowest."""
        self._slow_us = max(us, self._slow_us - self._slow_us // self.MEMORY)

    @property
    def ahead_us(self) -> int:
        """0 as long as everything is written well within half of the lag."""
        return 0 if self._slow_us <= self._calm_us else min(self.WRITES * self._slow_us, AHEAD_US_MAX)

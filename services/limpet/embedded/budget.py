"""What the workers' ledger says of the day's budget, read by who only looks on."""

from pathlib import Path

from limpet.clock import Clock
from limpet.config import Settings
from limpet.politeness import FileShares
from limpet.politeness.daybudget import budget_wait_us


class BudgetWatch:
    """Call it for the microseconds until the budget lets a request go. Opens the ledger anew each time: a start may
    have replaced it.
    """

    def __init__(self, ledger: Path, settings: Settings, clock: Clock) -> None:
        self._ledger = ledger
        self._policy = settings.politeness
        self._clock = clock

    def __call__(self) -> int:
        """0 = nothing is held back, or nobody can tell."""
        if self._policy.budget_per_day <= 0:
            return 0
        try:
            shares = FileShares.look(self._ledger, boot_id=self._clock.boot_id())
        except OSError:
            return 0
        if shares is None:
            return 0
        try:
            return budget_wait_us(shares, self._policy, self._clock)
        finally:
            shares.close()

"""Sorts receipts: clean ones into a bounded ring, unclean ones into the log."""

from collections import Counter, deque
from typing import Final

import msgspec

from limpet.receipts.port import ReceiptLog
from limpet.receipts.types import Receipt

CLEAN_KEPT_MAX: Final = 512


class Maxima(msgspec.Struct, frozen=True, kw_only=True):
    """The largest that were seen, against the bounds that adapters keep."""

    commands_a_pipeline: int = 0
    arguments_a_command: int = 0
    latency_us: int = 0


class Recorder:
    """One a process. `recent` holds the last clean receipts, `counts` (operation, verdict) -> how many."""

    def __init__(self, log: ReceiptLog, *, clean_kept_max: int = CLEAN_KEPT_MAX) -> None:
        self._log = log
        self._recent: deque[Receipt] = deque(maxlen=clean_kept_max)
        self.counts: Counter[tuple[str, str]] = Counter()
        self.unclean = 0
        self.maxima = Maxima()

    @property
    def recent(self) -> tuple[Receipt, ...]:
        """Clean receipts, oldest first."""
        return tuple(self._recent)

    async def record(self, receipt: Receipt) -> None:
        """Count it; an unclean one is durable afterwards. Raises `CannotGoOn` like `ReceiptLog.keep`."""
        self.counts[receipt.operation, receipt.verdict.value] += 1
        self.maxima = Maxima(
            commands_a_pipeline=max(self.maxima.commands_a_pipeline, receipt.commands),
            arguments_a_command=max(self.maxima.arguments_a_command, receipt.arguments_max),
            latency_us=max(self.maxima.latency_us, receipt.latency_us),
        )
        if receipt.clean:
            self._recent.append(receipt)
            return
        self.unclean += 1
        await self._log.keep(receipt)

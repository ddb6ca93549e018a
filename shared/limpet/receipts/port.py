"""Where unclean receipts are kept.

Contract: `keep` returns after the receipt is durable, and receipts of one process are read back in the order they were
kept; a torn tail after a death loses at most the one that was being written. The log is bounded: the oldest go first.
"""

from typing import Protocol

from limpet.receipts.types import Receipt


class ReceiptLog(Protocol):
    """Durable receipts, oldest first."""

    async def keep(self, receipt: Receipt) -> None:
        """Make it durable. Raises `CannotGoOn` when that is impossible."""
        ...

    async def kept(self) -> list[Receipt]:
        """Everything that is still kept, by whichever process."""
        ...

    async def close(self) -> None:
        """Release the log."""
        ...

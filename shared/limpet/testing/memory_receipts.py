"""Receipts in memory."""

from limpet.receipts import Receipt


class MemoryReceiptLog:
    """See `ReceiptLog`; it forgets nothing and survives nothing."""

    def __init__(self) -> None:
        self.receipts: list[Receipt] = []

    async def keep(self, receipt: Receipt) -> None:
        """See `ReceiptLog.keep`."""
        self.receipts.append(receipt)

    async def kept(self) -> list[Receipt]:
        """See `ReceiptLog.kept`."""
        return list(self.receipts)

    async def close(self) -> None:
        """See `ReceiptLog.close`."""

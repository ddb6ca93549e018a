"""How often a message killed its parser, and whether the last parser of a partition ended in order.

A parser's death leaves a *suspect span*: what it may have had in its hands, at most a batch from the first message that
is not committed. Each message of the span gets a mark before it is parsed alone (see `limpet.parser.service`).
"""

from typing import Protocol

from limpet.bus import Consumer, Position


class AttemptTable(Protocol):
    """The authority's cells about readers of partitions. Calls may be repeated after `Indefinite`.

    Two readers may overlap for a moment after a rebalance: what they do here costs a message that is parsed alone.
    """

    async def begin(self, topic: str, partition: int, holder: str) -> bool:
        """`holder` reads the partition from now on; whether the last reader ended in order (or there was none)."""
        ...

    async def end(self, topic: str, partition: int, holder: str) -> None:
        """`holder` ended in order. Changes nothing when another reader has begun."""
        ...

    async def mark(self, topic: str, partition: int, offset: int) -> int:
        """Durably count one more attempt at a message; the count."""
        ...

    async def acquit(self, topic: str, partition: int, offset: int) -> None:
        """Forget the attempts at a message."""
        ...


class PartitionMarks:
    """`Marks` of a parser, for one partition."""

    def __init__(self, table: AttemptTable, topic: str, partition: int) -> None:
        self._table = table
        self._topic = topic
        self._partition = partition

    async def mark(self, position: Position) -> int:
        """See `Marks.mark`."""
        return await self._table.mark(self._topic, self._partition, position.offset)

    async def acquit(self, position: Position) -> None:
        """See `Marks.acquit`."""
        await self._table.acquit(self._topic, self._partition, position.offset)


def suspect_span(consumer: Consumer, log_end: int, batch_max: int) -> dict[int, int]:
    """Source -> first offset beyond what a dead reader may have held; {} when the log has nothing there."""
    committed = consumer.uncommitted().get(0, 0)
    beyond = min(committed + batch_max, log_end)
    return {0: beyond} if beyond > committed else {}

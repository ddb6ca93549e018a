"""Scanning a segment through the port, chunk by chunk, without blocking anybody."""

from collections.abc import AsyncIterator
from typing import Final

from limpet.segments.port import SegmentStore
from limpet.warc import Member, Scanner

READ_BYTES: Final = 1_048_576


class SegmentScan:
    """The whole members of a segment from offset `start`, in order: `async for member in SegmentScan(store, name)`.

    Afterwards `good_bytes` is the end of the last good member and `torn` says what is wrong behind it ("" if nothing).
    KeyError while iterating if the segment is unknown.
    """

    def __init__(self, store: SegmentStore, name: str, start: int = 0) -> None:
        self._store = store
        self._name = name
        self._position = start
        self._scanner = Scanner(start)

    @property
    def good_bytes(self) -> int:
        """End of the last good member."""
        return self._scanner.good_bytes

    @property
    def torn(self) -> str:
        """What is wrong after it; "" if nothing."""
        return self._scanner.torn

    async def __aiter__(self) -> AsyncIterator[Member]:
        while not self.torn:
            data = await self._store.read_raw(self._name, self._position, READ_BYTES)
            if not data:
                break
            self._position += len(data)
            for member in self._scanner.feed(data):
                yield member
        self._scanner.finish()

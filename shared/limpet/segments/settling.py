"""Up to where every capture of a segment has its outcome: what recovery need not read again."""

from limpet.segments.port import Location


class _Progress:
    """One segment: where the captures that are not settled begin, and the end of the last one appended."""

    def __init__(self) -> None:
        self.unsettled: dict[int, None] = {}
        self.end = 0


class Settling:
    """Follows captures from their append to their outcome. A capture that never gets one holds its segment's mark.

    Shared by a writer, which says what it appended and when it is done with a segment, and by whoever completes.
    """

    def __init__(self) -> None:
        self._segments: dict[str, _Progress] = {}

    def appended(self, locations: list[Location]) -> None:
        """A capture is durable; its outcome is not."""
        first, last = locations[0], locations[-1]
        progress = self._segments.setdefault(first.segment, _Progress())
        progress.unsettled[first.offset] = None
        progress.end = max(progress.end, last.offset + last.length)

    def settled(self, location: Location) -> None:
        """The capture that begins at `location` has its outcome, durably, or will never need one."""
        progress = self._segments.get(location.segment)
        if progress is not None:
            progress.unsettled.pop(location.offset, None)

    def mark(self, segment: str) -> int:
        """Offset before which everything in `segment` is settled; 0 for one that holds no capture."""
        progress = self._segments.get(segment)
        return 0 if progress is None else min(progress.unsettled, default=progress.end)

    def marks(self) -> dict[str, int]:
        """The mark of every segment that its writer is not done with."""
        return {name: self.mark(name) for name in self._segments}

    def forget(self, segment: str) -> None:
        """Its writer is done with it: it is sealed, or recovery's."""
        self._segments.pop(segment, None)

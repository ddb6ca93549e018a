"""Up to where every capture of a segment has its outcome: what recovery need not read again."""

from collections import OrderedDict

from limpet.segments import Location

SEGMENTS_KEPT_MAX = 4


class _Progress:
    """One segment: where the captures that are not settled begin, and the end of the last one appended."""

    def __init__(self) -> None:
        self.unsettled: dict[int, None] = {}
        self.end = 0


class Settling:
    """Follows captures from their append to their outcome. A capture that never gets one holds its segment's mark."""

    def __init__(self) -> None:
        self._segments: OrderedDict[str, _Progress] = OrderedDict()

    def appended(self, locations: list[Location]) -> None:
        """A capture is durable; its outcome is not."""
        first, last = locations[0], locations[-1]
        progress = self._segments.setdefault(first.segment, _Progress())
        progress.unsettled[first.offset] = None
        progress.end = max(progress.end, last.offset + last.length)
        while len(self._segments) > SEGMENTS_KEPT_MAX:
            self._segments.popitem(last=False)

    def settled(self, location: Location) -> None:
        """The capture that begins at `location` has its outcome, durably, or will never need one."""
        progress = self._segments.get(location.segment)
        if progress is not None:
            progress.unsettled.pop(location.offset, None)

    def marks(self) -> dict[str, int]:
        """Segment -> offset before which everything is settled."""
        return {name: min(progress.unsettled, default=progress.end) for name, progress in self._segments.items()}

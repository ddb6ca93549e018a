"""The segments port."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from limpet.model.errors import Definite, Indefinite
from limpet.warc.members import MemberStream

if TYPE_CHECKING:
    from limpet.segments.settling import Settling

Appendable = bytes | MemberStream
"""One gzip member, at hand or made while it is written."""


class SegmentFailed(Indefinite):
    """The append may or may not be in the file: the segment is abandoned, the next append goes to a new one."""


class SegmentsUnavailable(Definite):
    """The servers that hold the segments do not serve just now: nothing was written or read; trying again is safe."""


class Location(msgspec.Struct, frozen=True, order=True):
    """One gzip member: name of its segment (without `.open`), offset and length in bytes."""

    segment: str
    offset: int
    length: int


class SegmentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A segment as listed. `size_bytes` is the shortest replica; `live` means its writer still holds its lock."""

    name: str
    sealed: bool
    size_bytes: int
    live: bool


class Settled(msgspec.Struct, frozen=True):
    """How far a segment is settled: `offset` in bytes, and the index lines of all records before it, in file order."""

    offset: int = 0
    lines: tuple[bytes, ...] = ()


MakeWarcinfo = Callable[[str], bytes]
"""segment file name -> the gzip member of its warcinfo record, the first of each segment."""


class SegmentWriter(Protocol):
    """The one writer of one incarnation's segments."""

    async def append(self, members: Sequence[Appendable]) -> list[Location]:
        """Write the members of one capture, contiguously and in order, into one segment.

        On return every replica is synced and the members are readable by `SegmentStore.read`. Appends of many captures
        are grouped into one sync. A segment rolls between captures, never inside one. Raises `SegmentFailed`
        (the capture may be in the file: recovery will adopt or cut it), `SegmentsUnavailable` while no new segment can
        be opened because servers are down, and `CannotGoOn` when none can be opened at all (disk full, replica
        directory gone).
        """
        ...

    async def healthy(self) -> None:
        """Confirm that an append would be accepted now, or raise as `append` would."""
        ...

    async def settle(self, segment: str, offset: int) -> None:
        """Leave a hint: every capture of `segment` before `offset` has its outcome, recovery need not look there.

        It may be lost, and may come late; never raises.
        """
        ...

    async def close(self) -> None:
        """Seal what is open. Closing is bookkeeping, not durability.

        A segment with a capture that has no outcome stays `.open`, without a writer: recovery adopts, then seals. So no
        capture is out of its sight before it has its outcome.
        """
        ...


class SegmentStore(Protocol):
    """All segments of one crawl. On servers, every verb may also raise `SegmentsUnavailable`: once more, later."""

    async def open_writer(
        self, incarnation: str, warcinfo: MakeWarcinfo, settling: "Settling | None" = None
    ) -> SegmentWriter:
        """A writer; its first segment is created at the first append.

        `settling` is told of each capture before its append returns, and says which have their outcome: a segment is
        sealed only when all of its captures have. Without, all have.
        """
        ...

    async def read(self, location: Location) -> bytes:
        """The bytes of exactly that member, from any replica that has them whole.

        KeyError if the segment is unknown; ValueError if no replica holds that many bytes there.
        """
        ...

    async def infos(self) -> list[SegmentInfo]:
        """Every segment, oldest name first."""
        ...

    async def read_raw(self, name: str, offset: int, size_bytes: int) -> bytes:
        """Raw bytes of a segment, for scanning; shorter at its end."""
        ...

    async def settled(self, name: str) -> Settled:
        """The last hint a dead writer left, `Settled()` if there is none that can be trusted."""
        ...

    async def recover(self, name: str, good_bytes: int) -> bool:
        """Cut a dead writer's segment to `good_bytes` in every replica; False when its lock is held.

        Shorter replicas are completed from the longest one that is good. Idempotent.
        """
        ...

    async def seal(self, name: str, index: bytes) -> None:
        """Store the CDXJ lines `index` beside the segment, then drop `.open`. Idempotent."""
        ...

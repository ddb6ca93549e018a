"""Where bodies become durable: append-only, replicated files of WARC records, one writer incarnation each.

The port is here; adapters are imported by name (`limpet.segments.local`), since the model itself speaks of `Location`.
"""

from limpet.segments.port import (
    Appendable,
    Location,
    MakeWarcinfo,
    SegmentFailed,
    SegmentInfo,
    SegmentStore,
    SegmentsUnavailable,
    SegmentWriter,
    Settled,
)
from limpet.segments.settling import Settling

__all__ = [
    "Appendable",
    "Location",
    "MakeWarcinfo",
    "SegmentFailed",
    "SegmentInfo",
    "SegmentStore",
    "SegmentWriter",
    "SegmentsUnavailable",
    "Settled",
    "Settling",
]

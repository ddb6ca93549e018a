"""Where bodies become durable: append-only, replicated files of WARC records, one writer incarnation each."""

from limpet.segments.port import (
    Location,
    SegmentFailed,
    SegmentInfo,
    SegmentStore,
    SegmentWriter,
)

__all__ = ["Location", "SegmentFailed", "SegmentInfo", "SegmentStore", "SegmentWriter"]

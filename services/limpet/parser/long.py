"""Long records read slice by slice, no further than they are parsed."""

from typing import Final

from limpet.clock import Clock
from limpet.segments import Location, SegmentStore
from limpet.warc import RecordStream

SLICE_BYTES: Final = 65_536


async def read_long(segments: SegmentStore, location: Location, payload_bytes_max: int, clock: Clock) -> RecordStream:
    """The record at `location` until its payload has `payload_bytes_max` bytes. Raises KeyError, ValueError."""
    stream = RecordStream(payload_bytes_max)
    offset, end = location.offset, location.offset + location.length
    while offset < end and not stream.full:
        data = await segments.read_raw(location.segment, offset, min(SLICE_BYTES, end - offset))
        if not data:
            raise ValueError("the segment ends inside it")
        offset += len(data)
        stream.feed(data, until_full=True)
        await clock.sleep(0)  # others have their turn
    return stream

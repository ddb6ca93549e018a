"""Names of segment files: `PREFIX-YYYYMMDDhhmmssSSS-SERIAL-INCARNATION.warc.gz`.

The incarnation stands where other crawlers put a host name: two processes never share one, and it tells nothing.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PREFIX: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_INCARNATION: Final = re.compile(r"[A-Za-z0-9]{1,64}", re.ASCII)
_NAME: Final = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})-(\d{17})-(\d{5,9})-([A-Za-z0-9]{1,64})\.warc\.gz", re.ASCII
)


class SegmentName(msgspec.Struct, frozen=True, kw_only=True):
    """A segment name taken apart. `opened` is `YYYYMMDDhhmmssSSS`, UTC."""

    prefix: str
    opened: str
    serial: int
    incarnation: str


def segment_name(prefix: str, opened_us: int, serial: int, incarnation: str) -> str:
    """The name of the `serial`-th segment of an incarnation, opened at `opened_us` (microseconds since the epoch).

    ValueError for a prefix or incarnation that could be misread or leave its directory.
    """
    if not _PREFIX.fullmatch(prefix):
        raise ValueError(f"not a segment prefix: {prefix!r} (letters, digits, `.`, `_` and `-`, at most 64)")
    if not _INCARNATION.fullmatch(incarnation):
        raise ValueError(f"not an incarnation id: {incarnation!r}")
    if not 0 <= serial <= 999_999_999:
        raise ValueError(f"not a serial number: {serial}")
    moment = _EPOCH + timedelta(milliseconds=opened_us // 1000)
    opened = f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03d}"
    return f"{prefix}-{opened}-{serial:05d}-{incarnation}.warc.gz"


def parse_segment_name(name: str) -> SegmentName | None:
    """The parts of a segment name (without `.open`), or None when it is none."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return SegmentName(prefix=match[1], opened=match[2], serial=int(match[3]), incarnation=match[4])

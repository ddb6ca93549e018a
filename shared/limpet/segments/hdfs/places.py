"""Where the files of a segment lie: in a folder a day, since HDFS bounds what one folder holds (1,048,576 entries)."""

import msgspec

from limpet.segments.layout import INDEX, OPEN
from limpet.segments.settled import SETTLED
from limpet.warc import parse_segment_name


class Places(msgspec.Struct, frozen=True):
    """Paths of one segment; `sealed` is also what the others begin with."""

    sealed: str

    @property
    def growing(self) -> str:
        """While it may grow or be repaired."""
        return f"{self.sealed}{OPEN}"

    @property
    def index(self) -> str:
        """Its CDXJ."""
        return f"{self.sealed}{INDEX}"

    @property
    def settled(self) -> str:
        """The hints of its writer."""
        return f"{self.sealed}{SETTLED}"


def places_of(root: str, name: str) -> Places:
    """`root/YYYYMMDD/NAME`, by the day it was opened on. KeyError for what is no name of a segment."""
    parsed = parse_segment_name(name)
    if parsed is None:
        raise KeyError(name)
    return Places(f"{root}/{parsed.opened[:8]}/{name}")

"""A disk whose reads of some records come back damaged, though the records are whole."""

import contextlib
import re
import zlib
from pathlib import Path

from limpet.runtime import Disk
from limpet.testing.fault_disks import DiskWrapper

_TARGET = re.compile(rb"WARC-Target-URI: ([^\r]+)\r\n")


class BadReads(DiskWrapper):
    """The next `left[url]` reads of exactly the response record of `url` have a flipped bit. Counts `left` down."""

    def __init__(self, inner: Disk, left: dict[str, int]) -> None:
        super().__init__(inner)
        self._left = left

    def read(self, path: Path, offset: int, size_bytes: int) -> bytes:
        """See `Disk.read`."""
        data = super().read(path, offset, size_bytes)
        url = url_of_record(data) if any(self._left.values()) else None
        if url is None or self._left.get(url, 0) <= 0:
            return data
        self._left[url] -= 1
        middle = len(data) // 2
        return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def url_of_record(data: bytes) -> str | None:
    """The URL of a response record, if `data` is exactly one."""
    record, inflater = b"", zlib.decompressobj(wbits=31)
    with contextlib.suppress(zlib.error):
        record = inflater.decompress(data)
    target = _TARGET.search(record)
    if b"WARC-Type: response" not in record or inflater.unused_data or target is None:
        return None
    return target[1].decode()

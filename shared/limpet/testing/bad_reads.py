"""A disk whose reads of some records come back damaged, though the records are whole."""

import contextlib
import zlib
from pathlib import Path

from limpet.runtime import Disk
from limpet.testing.fault_disks import DiskWrapper


class BadReads(DiskWrapper):
    """The next `left[url]` reads of exactly the response record of `url` have a flipped bit. Counts `left` down."""

    def __init__(self, inner: Disk, left: dict[str, int]) -> None:
        super().__init__(inner)
        self._left = left

    def read(self, path: Path, offset: int, size_bytes: int) -> bytes:
        """See `Disk.read`."""
        data = super().read(path, offset, size_bytes)
        url = self._spoiled(data)
        if url is None:
            return data
        self._left[url] -= 1
        middle = len(data) // 2
        return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]

    def _spoiled(self, data: bytes) -> str | None:
        if not any(self._left.values()):
            return None
        record, inflater = b"", zlib.decompressobj(wbits=31)
        with contextlib.suppress(zlib.error):
            record = inflater.decompress(data)
        if b"WARC-Type: response" not in record or inflater.unused_data:
            return None
        return next((url for url, left in self._left.items() if left > 0 and _is_of(record, url)), None)


def _is_of(record: bytes, url: str) -> bool:
    return f"WARC-Target-URI: {url}\r\n".encode() in record

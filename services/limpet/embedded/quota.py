"""How many pages a run may still send, shared between its workers, never exceeded and never leaked by a death.

A permit is taken before a send and given back when no page came of it. Each worker counts in a slot of its own, above
the pages its shards held when the worker started; when it dies, its slot is set from the authority again, so that
permits that died with it return and pages that recovery adopted are charged.
"""

import fcntl
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from limpet.assembly.quota import Unlimited

__all__ = ["FileQuota", "Quota", "Unlimited"]

_HEAD: Final = struct.Struct("<QQ")  # limit, number of slots
_SLOT: Final = struct.Struct("<Qq")  # pages at the start, permits out since


class Quota(Protocol):
    """Pages this crawl may still send."""

    def take(self) -> bool:
        """One page permit; False = none left now (one may come back)."""
        ...

    def give_back(self) -> None:
        """Return a permit of which no page came."""
        ...


class FileQuota:
    """`Quota` over a small file under flock; one instance for each process, `slot` is its own."""

    def __init__(self, path: Path, slot: int) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._slot = slot

    @classmethod
    def create(cls, path: Path, limit: int, pages: Sequence[int]) -> "FileQuota":
        """A fresh file for one run: `pages` has one entry a slot, what the worker's shards hold already."""
        data = _HEAD.pack(limit, len(pages)) + b"".join(_SLOT.pack(count, 0) for count in pages)
        draft = path.with_name(path.name + ".tmp")
        draft.write_bytes(data)
        draft.replace(path)
        return cls(path, 0)

    def take(self) -> bool:
        """See `Quota.take`."""
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            if self._left() <= 0:
                return False
            self._add(1)
            return True
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def give_back(self) -> None:
        """See `Quota.give_back`."""
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            self._add(-1)
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def settle(self, slot: int, pages: int) -> None:
        """The worker of `slot` is gone and recovered: its shards hold `pages`, and it has no permit out."""
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            os.pwrite(self._fd, _SLOT.pack(pages, 0), self._offset(slot))
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def left(self) -> int:
        """Permits that could be taken now."""
        fcntl.flock(self._fd, fcntl.LOCK_SH)
        try:
            return max(0, self._left())
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file; what this slot has out stays out."""
        os.close(self._fd)

    def _left(self) -> int:
        head = os.pread(self._fd, _HEAD.size, 0)
        limit, slots = _HEAD.unpack(head)
        table = os.pread(self._fd, slots * _SLOT.size, _HEAD.size)
        used: int = sum(pages + out for pages, out in _SLOT.iter_unpack(table))
        return int(limit) - used

    def _add(self, permits: int) -> None:
        at = self._offset(self._slot)
        pages, out = _SLOT.unpack(os.pread(self._fd, _SLOT.size, at))
        os.pwrite(self._fd, _SLOT.pack(pages, out + permits), at)

    @staticmethod
    def _offset(slot: int) -> int:
        return _HEAD.size + slot * _SLOT.size

"""One ledger for the workers of a machine: a small mapped file under flock.

It outlives its processes, so a kill -9 forgets neither the last start of a key, nor who was told to wait, nor what the
day's budget has already paid for. What a dead worker held is set free by the next owner of its slot; whoever takes a
slot must know that nobody else has it. After a reboot the boot clock began anew, and so does the ledger.

The file: a head (magic, boot, birth, day, requests), then cells found by hashing a key's name, `PROBES_MAX` places at
most. A cell whose ceiling binds nothing is taken over by the next key that needs a place. Two names with the same
64-bit hash share a cell, which is stricter than either.
"""

import fcntl
import hashlib
import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from limpet.politeness.keys import Key
from limpet.politeness.shares import CONNECTION_POLL_US, TROUBLED_HOSTS_MIN, Blocked, backed_off_until

SLOTS_MAX: Final = 32
CELLS: Final = 32_768
PROBES_MAX: Final = 32
_MAGIC: Final = b"limpet-shares-1\0"
_HEAD: Final = struct.Struct("<16s16sqqq")  # magic, boot, born_us, day, requests
_DAY: Final = struct.Struct("<qq")
_DAY_AT: Final = 40
_HEAD_BYTES: Final = 64
_CELL: Final = struct.Struct(f"<Qq{'Qq' * TROUBLED_HOSTS_MIN}")  # hash, next start due, (host, told until) x 3
_CELL_BYTES: Final = 128
_OPEN_AT: Final = _CELL.size
_FULL_POLL_US: Final = 1_000_000


class FileShares:
    """`Shares` over one file; one instance for each process, `slot` is its own."""

    def __init__(self, path: Path, slot: int) -> None:
        if not 0 <= slot < SLOTS_MAX:
            raise ValueError(f"slot {slot} is not below {SLOTS_MAX}")
        self._open_map(path, slot, os.O_RDWR)
        with self._locked():
            start = _HEAD_BYTES + _OPEN_AT + slot
            self._map[start::_CELL_BYTES] = bytes(CELLS)

    @classmethod
    def look(cls, path: Path, *, boot_id: str) -> "FileShares | None":
        """For who only looks on, and must not take or give; None for a ledger of another boot, or none at all.

        Raises OSError when it cannot be read.
        """
        if not path.exists() or path.stat().st_size != _size_bytes():
            return None
        shares = cls.__new__(cls)
        shares._open_map(path, 0, os.O_RDONLY)  # noqa: SLF001 - of this class
        if _HEAD.unpack_from(shares._map)[:2] == (_MAGIC, _boot(boot_id)):  # noqa: SLF001 - of this class
            return shares
        shares.close()
        return None

    def _open_map(self, path: Path, slot: int, mode: int) -> None:
        self._fd = os.open(path, mode | os.O_CLOEXEC)
        self._slot = slot
        access = mmap.ACCESS_WRITE if mode == os.O_RDWR else mmap.ACCESS_READ
        self._map = mmap.mmap(self._fd, _size_bytes(), access=access)
        self._born_us: int = _HEAD.unpack_from(self._map)[2]

    @classmethod
    def lay_out(cls, path: Path, *, boot_id: str, now_us: int) -> None:
        """Have a ledger for this boot at `path`; one that is there and of this boot is kept."""
        boot = _boot(boot_id)
        if path.exists() and path.stat().st_size == _size_bytes():
            with path.open("rb") as file:
                magic, stored, *_ = _HEAD.unpack(file.read(_HEAD.size))
            if (magic, stored) == (_MAGIC, boot):
                return
        draft = path.with_name(path.name + ".tmp")
        with draft.open("wb") as file:
            file.write(_HEAD.pack(_MAGIC, boot, now_us, 0, 0))
            file.truncate(_size_bytes())
        draft.replace(path)

    def close(self) -> None:
        """Unmap; what this slot holds stays taken until the slot is."""
        self._map.close()
        os.close(self._fd)

    # -- see `Shares` ------------------------------------------------------------------------------------------------
    def blocked(self, keys: Sequence[Key], now_us: int) -> Blocked | None:
        """See `Shares.blocked`."""
        with self._locked():
            return self._blocked(keys, now_us)

    def take(self, keys: Sequence[Key], now_us: int, *, day: int, budget: int) -> bool:
        """See `Shares.take`."""
        with self._locked():
            if budget > 0 and self._requests(day) >= budget:
                return False
            if self._blocked(keys, now_us) is not None:
                return False
            places: list[int] = []
            for key in keys:
                place = self._place(key, now_us, claim=True, spared=places)
                if place is None:
                    return False  # no place, no share; a cell that was claimed on the way is idle and may go again
                places.append(place)
            for key, place in zip(keys, places, strict=True):
                self._start(key, place, now_us)
            if budget > 0:
                self._put_day(day, self._requests(day) + 1)
            return True

    def give(self, keys: Sequence[Key]) -> None:
        """See `Shares.give`."""
        with self._locked():
            for key in keys:
                place = self._place(key, 0)
                if place is not None:
                    at = place + _OPEN_AT + self._slot
                    self._map[at] = max(0, self._map[at] - 1)

    def refund(self, day: int) -> None:
        """See `Shares.refund`."""
        with self._locked():
            requests = self._requests(day)
            if requests > 0:
                self._put_day(day, requests - 1)

    def requests(self, day: int) -> int:
        """See `Shares.requests`."""
        with self._locked():
            return self._requests(day)

    def restore(self, day: int, requests: int) -> None:
        """See `Shares.restore`."""
        with self._locked():
            self._put_day(day, max(requests, self._requests(day)))

    def begin(self, key: Key, now_us: int) -> None:
        """See `Shares.begin`."""
        with self._locked():
            known = self._place(key, now_us)
            place = self._place(key, now_us, claim=True) if known is None else None
            if place is not None:
                number, _, *told = _CELL.unpack_from(self._map, place)
                _CELL.pack_into(self._map, place, number, now_us + key.burst_us, *told)

    def trouble(self, key: Key, host: str, until_us: int, now_us: int) -> int:
        """See `Shares.trouble`."""
        with self._locked():
            place = self._place(key, now_us, claim=True)
            if place is None:
                return 0
            number, tat_us, *told = _CELL.unpack_from(self._map, place)
            waits = {who: us for who, us in zip(told[::2], told[1::2], strict=True) if us > now_us}
            who = _hash(host)
            waits[who] = max(until_us, waits.get(who, 0))
            longest = sorted(waits.items(), key=lambda item: -item[1])[:TROUBLED_HOSTS_MIN]
            longest += [(0, 0)] * (TROUBLED_HOSTS_MIN - len(longest))
            _CELL.pack_into(self._map, place, number, tat_us, *(value for pair in longest for value in pair))
            return backed_off_until(us for us in waits.values())

    # -- under the lock ----------------------------------------------------------------------------------------------
    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _blocked(self, keys: Sequence[Key], now_us: int) -> Blocked | None:
        worst: Blocked | None = None
        for key in keys:
            us = self._wait_us(key, now_us)
            if us > 0 and (worst is None or us > worst.us):
                worst = Blocked(key, us)
        return worst

    def _wait_us(self, key: Key, now_us: int) -> int:
        place = self._place(key, now_us)
        if place is None:
            if self._place(key, now_us, free=True) is None:
                return _FULL_POLL_US
            return self._born_us + key.interval_us - now_us
        _, tat_us, *told = _CELL.unpack_from(self._map, place)
        wait_us = tat_us - key.burst_us - now_us if key.interval_us else 0
        wait_us = max(wait_us, backed_off_until(told[1::2]) - now_us)
        if key.connections_max and sum(self._open(place)) >= key.connections_max:
            wait_us = max(wait_us, CONNECTION_POLL_US)
        return int(wait_us)

    def _start(self, key: Key, place: int, now_us: int) -> None:
        number, tat_us, *told = _CELL.unpack_from(self._map, place)
        tat_us = max(now_us, tat_us) + key.interval_us
        _CELL.pack_into(self._map, place, number, tat_us, *told)
        self._map[place + _OPEN_AT + self._slot] += 1

    def _place(
        self, key: Key, now_us: int, *, claim: bool = False, free: bool = False, spared: Sequence[int] = ()
    ) -> int | None:
        """Where a key's cell lies; with `claim` it gets one, with `free` one that it could get, never of `spared`."""
        number = _hash(key.name)
        spare: int | None = None
        for probe in range(PROBES_MAX):
            place = _HEAD_BYTES + (number + probe) % CELLS * _CELL_BYTES
            stored: int = int.from_bytes(self._map[place : place + 8], "little")
            if stored == number:
                return place
            takable = spare is None and (claim or free) and place not in spared
            if takable and (stored == 0 or self._idle(place, now_us)):
                spare = place
            if stored == 0:
                break
        if claim and spare is not None:
            tat_us = self._born_us + key.interval_us + key.burst_us
            _CELL.pack_into(self._map, spare, number, tat_us, *([0, 0] * TROUBLED_HOSTS_MIN))
        return spare

    def _idle(self, place: int, now_us: int) -> bool:
        """Whether the cell binds nothing: a key met anew would be as free."""
        _, tat_us, *told = _CELL.unpack_from(self._map, place)
        return bool(tat_us <= now_us and max(told[1::2]) <= now_us and not any(self._open(place)))

    def _open(self, place: int) -> bytes:
        return self._map[place + _OPEN_AT : place + _OPEN_AT + SLOTS_MAX]

    def _requests(self, day: int) -> int:
        stored, requests = _DAY.unpack_from(self._map, _DAY_AT)
        return int(requests) if stored == day else 0

    def _put_day(self, day: int, requests: int) -> None:
        _DAY.pack_into(self._map, _DAY_AT, day, requests)


def _boot(boot_id: str) -> bytes:
    return hashlib.blake2b(boot_id.encode(), digest_size=16).digest()


def _hash(name: str) -> int:
    """A number that is never 0, which marks an empty cell."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") | 1


def _size_bytes() -> int:
    return _HEAD_BYTES + CELLS * _CELL_BYTES

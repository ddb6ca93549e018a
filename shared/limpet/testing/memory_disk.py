"""A disk in memory that forgets what was not synced."""

import errno
import os
from pathlib import Path

from limpet.runtime import DiskFile, Killed


class _Inode:
    """Contents of one file: `data` now, and what a power cut would leave of it."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.solid_bytes = 0  # so much of `data` is durable as it is
        self.cut_off = b""  # durable bytes behind it that a truncate, not yet synced, took away
        self.locked = False

    def truncate(self, size_bytes: int) -> None:
        if size_bytes < self.solid_bytes:
            self.cut_off = bytes(self.data[size_bytes : self.solid_bytes]) + self.cut_off
            self.solid_bytes = size_bytes
        del self.data[size_bytes:]

    def sync(self) -> None:
        self.solid_bytes, self.cut_off = len(self.data), b""

    def power_cut(self, torn_bytes: int) -> None:
        """Keep what is durable; of a tail that is not, when nothing was cut off before it, `torn_bytes`."""
        torn = b"" if self.cut_off else bytes(self.data[self.solid_bytes : self.solid_bytes + torn_bytes])
        self.data[self.solid_bytes :] = self.cut_off + torn
        self.sync()


class _MemoryFile:
    """A handle. Dies with its process: whoever goes on using it is dead as well."""

    def __init__(self, disk: "MemoryDisk", inode: _Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._life = disk.life
        inode.locked = True

    def write(self, data: bytes) -> None:
        self._check()
        room = self._disk.room_bytes()
        self._inode.data += data[:room]
        if len(data) > room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self) -> None:
        self._check()
        self._inode.sync()

    def truncate(self, size_bytes: int) -> None:
        self._check()
        self._inode.truncate(size_bytes)

    def tell(self) -> int:
        return len(self._inode.data)

    def close(self) -> None:
        self._check()
        self._inode.locked = False

    def _check(self) -> None:
        if self._life != self._disk.life:
            raise Killed("this process is dead")


class MemoryDisk:
    """`Disk` in memory. Directories exist unless `lose_dir` took them away.

    It knows what is durable: bytes since the last `sync` of a file and entries since the last `sync_dir` of a directory
    are lost in a `power_cut`. `kill` ends the process alone: the page cache survives, locks do not, and old handles
    raise `Killed`.
    """

    def __init__(self, capacity_bytes: int = 2**40) -> None:
        self.capacity_bytes = capacity_bytes
        self.life = 0
        self._entries: dict[Path, _Inode] = {}
        self._durable: dict[Path, _Inode] = {}
        self._lost: set[Path] = set()

    def kill(self) -> None:
        """`kill -9`: locks are dropped, what was written stays written."""
        self.life += 1
        for inode in self._entries.values():
            inode.locked = False

    def power_cut(self, *, torn_bytes: int = 0, entries_survive: bool = False) -> None:
        """Lose what was not synced; of each file's unsynced tail `torn_bytes` bytes happen to survive.

        With `entries_survive` the directories reached the disk in time, though the bytes of their files did not.
        """
        self.kill()
        if not entries_survive:
            self._entries = dict(self._durable)
        for inode in set(self._entries.values()):
            inode.power_cut(torn_bytes)
        self._durable = dict(self._entries)

    def lose_dir(self, path: Path) -> None:
        """The directory is gone, with all that was in it."""
        self._lost.add(path)
        for entries in (self._entries, self._durable):
            for entry in [entry for entry in entries if entry.parent == path]:
                del entries[entry]

    def restore_dir(self, path: Path) -> None:
        """The directory is back, empty."""
        self._lost.discard(path)

    def snapshot(self) -> dict[Path, bytes]:
        """Every file and its bytes, as a reader sees them."""
        return {path: bytes(inode.data) for path, inode in sorted(self._entries.items())}

    def overwrite(self, path: Path, offset: int, data: bytes) -> None:
        """Bit rot: change bytes behind everybody's back, durably."""
        self._inode(path).data[offset : offset + len(data)] = data

    def room_bytes(self) -> int:
        """Bytes that still fit."""
        return max(0, self.capacity_bytes - sum(len(inode.data) for inode in set(self._entries.values())))

    def create(self, path: Path) -> DiskFile:
        """See `Disk.create`."""
        self._check_dir(path.parent)
        if path in self._entries:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        inode = self._entries[path] = _Inode()
        return _MemoryFile(self, inode)

    def reopen(self, path: Path) -> DiskFile | None:
        """See `Disk.reopen`."""
        inode = self._inode(path)
        return None if inode.locked else _MemoryFile(self, inode)

    def sync_dir(self, path: Path) -> None:
        """See `Disk.sync_dir`."""
        self._check_dir(path)
        for entry in [entry for entry in self._durable if entry.parent == path]:
            del self._durable[entry]
        self._durable |= {entry: inode for entry, inode in self._entries.items() if entry.parent == path}

    def rename(self, source: Path, target: Path) -> None:
        """See `Disk.rename`."""
        inode = self._inode(source)
        del self._entries[source]
        self._entries[target] = inode

    def read(self, path: Path, offset: int, size_bytes: int) -> bytes:
        """See `Disk.read`."""
        return bytes(self._inode(path).data[offset : offset + size_bytes])

    def size(self, path: Path) -> int:
        """See `Disk.size`."""
        return len(self._inode(path).data)

    def names(self, path: Path) -> list[str]:
        """See `Disk.names`."""
        return sorted(entry.name for entry in self._entries if entry.parent == path)

    def free_bytes(self, path: Path) -> int:
        """See `Disk.free_bytes`."""
        self._check_dir(path)
        return self.room_bytes()

    def _check_dir(self, path: Path) -> None:
        if path in self._lost:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))

    def _inode(self, path: Path) -> _Inode:
        try:
            return self._entries[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None

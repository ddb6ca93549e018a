"""A disk in memory that forgets what was not synced."""

import errno
import os
from pathlib import Path
from typing import Literal

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


_Tree = dict[str, dict[str, _Inode]]
"""directory -> name -> file"""

_Change = tuple[str, str, _Inode]
"""old name ("" if new), new name, file"""

Entries = Literal["lost", "kept", "last"]
"""What becomes of unsynced directory entries in a power cut."""


class MemoryDisk:
    """`Disk` in memory. Directories exist unless `lose_dir` took them away.

    It knows what is durable: bytes since the last `sync` of a file and entries since the last `sync_dir` of a directory
    are lost in a `power_cut`. `kill` ends the process alone: the page cache survives, locks do not, and old handles
    raise `Killed`.
    """

    def __init__(self, capacity_bytes: int = 2**40) -> None:
        self.capacity_bytes = capacity_bytes
        self.life = 0
        self._entries: _Tree = {}
        self._durable: _Tree = {}
        self._unsynced: dict[str, list[_Change]] = {}  # of each directory since its last sync, in order
        self._lost: set[str] = set()

    def kill(self) -> None:
        """`kill -9`: locks are dropped, what was written stays written."""
        self.life += 1
        for inode in self._inodes():
            inode.locked = False

    def power_cut(self, *, torn_bytes: int = 0, entries: Entries = "lost") -> None:
        """Lose what was not synced; of each file's unsynced tail `torn_bytes` bytes happen to survive.

        Changes of directories that were not synced are lost, or were written in time though the bytes of their files
        were not ("kept"), or only the last of each directory was, out of order ("last").
        """
        self.kill()
        for folder, changes in self._unsynced.items():
            for old, new, inode in {"lost": [], "kept": changes, "last": changes[-1:]}[entries]:
                durable = self._durable.setdefault(folder, {})
                durable.pop(old, None)
                durable[new] = inode
        self._unsynced = {}
        self._entries = {folder: dict(names) for folder, names in self._durable.items()}
        for inode in self._inodes():
            inode.power_cut(torn_bytes)

    def lose_dir(self, path: Path) -> None:
        """The directory is gone, with all that was in it."""
        self._lost.add(str(path))
        self._entries.pop(str(path), None)
        self._durable.pop(str(path), None)
        self._unsynced.pop(str(path), None)

    def restore_dir(self, path: Path) -> None:
        """The directory is back, empty."""
        self._lost.discard(str(path))

    def snapshot(self) -> dict[Path, bytes]:
        """Every file and its bytes, as a reader sees them."""
        return {
            Path(folder, name): bytes(inode.data)
            for folder, entries in sorted(self._entries.items())
            for name, inode in sorted(entries.items())
        }

    def overwrite(self, path: Path, offset: int, data: bytes) -> None:
        """Bit rot: change bytes behind everybody's back, durably."""
        self._inode(path).data[offset : offset + len(data)] = data

    def room_bytes(self) -> int:
        """Bytes that still fit."""
        return max(0, self.capacity_bytes - sum(len(inode.data) for inode in self._inodes()))

    def create(self, path: Path) -> DiskFile:
        """See `Disk.create`."""
        folder, name = self._split(path)
        entries = self._entries.setdefault(folder, {})
        if name in entries:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        entries[name] = _Inode()
        self._unsynced.setdefault(folder, []).append(("", name, entries[name]))
        return _MemoryFile(self, entries[name])

    def reopen(self, path: Path) -> DiskFile | None:
        """See `Disk.reopen`."""
        inode = self._inode(path)
        return None if inode.locked else _MemoryFile(self, inode)

    def sync_dir(self, path: Path) -> None:
        """See `Disk.sync_dir`."""
        self._check_dir(str(path))
        self._durable[str(path)] = dict(self._entries.get(str(path), {}))
        self._unsynced.pop(str(path), None)

    def remove(self, path: Path) -> None:
        """See `Disk.remove`."""
        self._inode(path)
        folder, name = self._split(path)
        del self._entries[folder][name]

    def rename(self, source: Path, target: Path) -> None:
        """See `Disk.rename`: within one directory."""
        inode = self._inode(source)
        folder, old = self._split(source)
        if target.parent != source.parent:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(target))
        del self._entries[folder][old]
        self._entries[folder][target.name] = inode
        self._unsynced.setdefault(folder, []).append((old, target.name, inode))

    def read(self, path: Path, offset: int, size_bytes: int) -> bytes:
        """See `Disk.read`."""
        return bytes(self._inode(path).data[offset : offset + size_bytes])

    def size(self, path: Path) -> int:
        """See `Disk.size`."""
        return len(self._inode(path).data)

    def names(self, path: Path) -> list[str]:
        """See `Disk.names`."""
        return sorted(self._entries.get(str(path), ()))

    def free_bytes(self, path: Path) -> int:
        """See `Disk.free_bytes`."""
        self._check_dir(str(path))
        return self.room_bytes()

    def _inodes(self) -> list[_Inode]:
        return [inode for entries in self._entries.values() for inode in entries.values()]

    def _split(self, path: Path) -> tuple[str, str]:
        folder, name = os.path.split(path)
        self._check_dir(folder)
        return folder, name

    def _check_dir(self, folder: str) -> None:
        if folder in self._lost:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)

    def _inode(self, path: Path) -> _Inode:
        folder, name = os.path.split(path)
        try:
            return self._entries[folder][name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None

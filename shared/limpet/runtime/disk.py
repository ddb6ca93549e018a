"""The disk as a port: what segments and fact files need, with durability said out loud."""

import fcntl
import os
from pathlib import Path
from typing import Protocol


class DiskFile(Protocol):
    """One file opened for appending by one writer."""

    def write(self, data: bytes) -> None:
        """Append all of `data`; durable only after `sync`. Raises OSError (e.g. ENOSPC); part of it may be written."""
        ...

    def sync(self) -> None:
        """Fdatasync. After an OSError nothing on this file may be trusted or retried (fsyncgate, PostgreSQL 2018)."""
        ...

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to `size_bytes`."""
        ...

    def tell(self) -> int:
        """Bytes in the file as far as this writer knows."""
        ...

    def close(self) -> None:
        """Close, releasing the lock."""
        ...


class Disk(Protocol):
    """Files and directories. Every method blocks: call it from a `Runner`."""

    def create(self, path: Path) -> DiskFile:
        """A new locked file; FileExistsError if it exists. Its directory entry is durable only after `sync_dir`."""
        ...

    def reopen(self, path: Path) -> DiskFile | None:
        """An existing file for repair, or None when another process holds its lock."""
        ...

    def sync_dir(self, path: Path) -> None:
        """Make the entries of directory `path` durable."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Rename within a directory, atomically; durable after `sync_dir`."""
        ...

    def remove(self, path: Path) -> None:
        """Take a file away. FileNotFoundError if absent."""
        ...

    def read(self, path: Path, offset: int, size_bytes: int) -> bytes:
        """Up to `size_bytes` bytes at `offset`; shorter at the end of the file. FileNotFoundError if absent."""
        ...

    def size(self, path: Path) -> int:
        """Length in bytes. FileNotFoundError if absent."""
        ...

    def names(self, path: Path) -> list[str]:
        """Sorted names in directory `path`; [] if it does not exist."""
        ...

    def free_bytes(self, path: Path) -> int:
        """Bytes an unprivileged writer can still add below `path`."""
        ...


class _LockedFile:
    """A file descriptor under an exclusive flock, which the kernel drops when the process dies."""

    def __init__(self, fd: int, size_bytes: int) -> None:
        self._fd = fd
        self._size_bytes = size_bytes

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.write(self._fd, view)
            self._size_bytes += written
            view = view[written:]

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._fd, size_bytes)
        os.lseek(self._fd, size_bytes, os.SEEK_SET)
        self._size_bytes = size_bytes

    def tell(self) -> int:
        return self._size_bytes

    def close(self) -> None:
        os.close(self._fd)


class SystemDisk:
    """`Disk` over POSIX calls."""

    def create(self, path: Path) -> DiskFile:
        """See `Disk.create`."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        fcntl.flock(fd, fcntl.LOCK_EX)
        return _LockedFile(fd, 0)

    def reopen(self, path: Path) -> DiskFile | None:
        """See `Disk.reopen`."""
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return _LockedFile(fd, os.lseek(fd, 0, os.SEEK_END))

    def sync_dir(self, path: Path) -> None:
        """See `Disk.sync_dir`."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, source: Path, target: Path) -> None:
        """See `Disk.rename`."""
        source.rename(target)

    def remove(self, path: Path) -> None:
        """See `Disk.remove`."""
        path.unlink()

    def read(self, path: Path, offset: int, size_bytes: int) -> bytes:
        """See `Disk.read`."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(fd, size_bytes, offset)
        finally:
            os.close(fd)

    def size(self, path: Path) -> int:
        """See `Disk.size`."""
        return path.stat().st_size

    def names(self, path: Path) -> list[str]:
        """See `Disk.names`."""
        return sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []

    def free_bytes(self, path: Path) -> int:
        """See `Disk.free_bytes`."""
        stat = os.statvfs(path)
        return stat.f_bavail * stat.f_frsize

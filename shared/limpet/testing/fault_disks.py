"""Disks that fail on cue. Each wraps any `Disk`, misbehaves at a call that can be named, and can be stacked."""

import errno
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar, cast

from limpet.runtime import Disk, DiskFile, Killed

T = TypeVar("T")
Operation = Literal["create", "reopen", "write", "sync", "truncate", "sync_dir", "rename", "remove"]
"""What changes the state of a disk or its locks."""


class _WrappedFile:
    """A file whose operations go through its disk's `_do`."""

    def __init__(self, disk: "DiskWrapper", path: Path, inner: DiskFile) -> None:
        self._disk = disk
        self._path = path
        self._inner = inner

    def write(self, data: bytes) -> None:
        self._disk.write_file(self._path, self._inner, data)

    def sync(self) -> None:
        self._disk.perform("sync", self._path, self._inner.sync)

    def truncate(self, size_bytes: int) -> None:
        self._disk.truncate_file(self._path, self._inner, size_bytes)

    def tell(self) -> int:
        return self._inner.tell()

    def close(self) -> None:
        self._inner.close()


class DiskWrapper:
    """Passes everything on to `inner`; a fault disk overrides the step that it spoils. `counts` numbers the calls."""

    def __init__(self, inner: Disk) -> None:
        self.inner = inner
        self.counts: Counter[Operation] = Counter()

    def create(self, path: Path) -> DiskFile:
        """See `Disk.create`."""
        return _WrappedFile(self, path, self.perform("create", path, lambda: self.inner.create(path)))

    def reopen(self, path: Path) -> DiskFile | None:
        """See `Disk.reopen`."""
        file = self.perform("reopen", path, lambda: self.inner.reopen(path))
        return None if file is None else _WrappedFile(self, path, file)

    def sync_dir(self, path: Path) -> None:
        """See `Disk.sync_dir`."""
        self.perform("sync_dir", path, lambda: self.inner.sync_dir(path))

    def rename(self, source: Path, target: Path) -> None:
        """See `Disk.rename`."""
        self.perform("rename", source, lambda: self.inner.rename(source, target))

    def remove(self, path: Path) -> None:
        """See `Disk.remove`."""
        self.perform("remove", path, lambda: self.inner.remove(path))

    def read(self, path: Path, offset: int, size_bytes: int) -> bytes:
        """See `Disk.read`."""
        return self.inner.read(path, offset, size_bytes)

    def size(self, path: Path) -> int:
        """See `Disk.size`."""
        return self.inner.size(path)

    def names(self, path: Path) -> list[str]:
        """See `Disk.names`."""
        return self.inner.names(path)

    def free_bytes(self, path: Path) -> int:
        """See `Disk.free_bytes`."""
        return self.inner.free_bytes(path)

    def perform(self, operation: Operation, path: Path, effect: Callable[[], T]) -> T:  # noqa: ARG002 - for overriding
        """Every call that changes something comes through here; a fault disk overrides it."""
        self.counts[operation] += 1
        return effect()

    def write_file(self, path: Path, file: DiskFile, data: bytes) -> None:
        """A write to `path`, for overriding where the data matter."""
        self.perform("write", path, lambda: file.write(data))

    def truncate_file(self, path: Path, file: DiskFile, size_bytes: int) -> None:
        """A truncate of `path`, for overriding where the size matters."""
        self.perform("truncate", path, lambda: file.truncate(size_bytes))


class FullDisk(DiskWrapper):
    """Takes `after_bytes` more bytes, then part of a write, then ENOSPC. Truncating and `add_room` give room back."""

    def __init__(self, inner: Disk, after_bytes: int) -> None:
        super().__init__(inner)
        self._left_bytes = after_bytes

    def add_room(self, size_bytes: int) -> None:
        """Somebody deleted something."""
        self._left_bytes += size_bytes

    def free_bytes(self, path: Path) -> int:
        """See `Disk.free_bytes`."""
        return min(self._left_bytes, self.inner.free_bytes(path))

    def write_file(self, path: Path, file: DiskFile, data: bytes) -> None:
        """See `DiskWrapper.write_file`."""
        part = data[: self._left_bytes]
        super().write_file(path, file, part)
        self._left_bytes -= len(part)
        if len(part) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def truncate_file(self, path: Path, file: DiskFile, size_bytes: int) -> None:
        """See `DiskWrapper.truncate_file`."""
        before = file.tell()
        super().truncate_file(path, file, size_bytes)
        self._left_bytes += max(0, before - size_bytes)


class FailingSync(DiskWrapper):
    """The `nth` sync (1 = first) says EIO and the bytes are gone for good.

    Later syncs of that file report success and persist nothing, as Linux does after writeback failed (fsyncgate): who
    tries again and believes the answer loses data.
    """

    def __init__(self, inner: Disk, nth: int) -> None:
        super().__init__(inner)
        self._nth = nth
        self._spoiled: set[Path] = set()

    def perform(self, operation: Operation, path: Path, effect: Callable[[], T]) -> T:
        """See `DiskWrapper.perform`."""
        if operation == "sync" and self.counts["sync"] + 1 == self._nth:
            self._spoiled.add(path)
            self.counts["sync"] += 1
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        if operation == "sync" and path in self._spoiled:
            self.counts["sync"] += 1
            return cast("T", None)  # what a sync returns
        return super().perform(operation, path, effect)


class TornAppend(DiskWrapper):
    """The `nth` write (1 = first) writes `kept_bytes` of its data, then says EIO."""

    def __init__(self, inner: Disk, nth: int, kept_bytes: int) -> None:
        super().__init__(inner)
        self._nth = nth
        self._kept_bytes = kept_bytes

    def write_file(self, path: Path, file: DiskFile, data: bytes) -> None:
        """See `DiskWrapper.write_file`."""
        torn = self.counts["write"] + 1 == self._nth
        super().write_file(path, file, data[: self._kept_bytes] if torn else data)
        if torn:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))


class LostReply(DiskWrapper):
    """The `nth` call of `operation` (1 = first) takes effect, then says EIO."""

    def __init__(self, inner: Disk, operation: Operation, nth: int) -> None:
        super().__init__(inner)
        self._operation = operation
        self._nth = nth

    def perform(self, operation: Operation, path: Path, effect: Callable[[], T]) -> T:
        """See `DiskWrapper.perform`."""
        result = super().perform(operation, path, effect)
        if operation == self._operation and self.counts[operation] == self._nth:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return result


class DyingDisk(DiskWrapper):
    """The process dies at its `nth` disk operation of any kind (1 = first), `after` it or before; dead it stays."""

    def __init__(self, inner: Disk, nth: int, *, after: bool) -> None:
        super().__init__(inner)
        self._nth = nth
        self._after = after
        self.dead = False

    @property
    def operations(self) -> int:
        """Operations asked for so far."""
        return self.counts.total()

    def perform(self, operation: Operation, path: Path, effect: Callable[[], T]) -> T:
        """See `DiskWrapper.perform`."""
        now = self.operations + 1 == self._nth
        if self.dead or (now and not self._after):
            self._die(operation, path)
        result = super().perform(operation, path, effect)
        if now:
            self._die(operation, path)
        return result

    def _die(self, operation: Operation, path: Path) -> None:
        self.dead = True
        raise Killed(f"{operation} of {path.name}")

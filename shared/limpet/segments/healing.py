"""Making the replicas of a dead writer's segment equal again. Blocking: run it from a `Runner`."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from limpet.runtime.disk import Disk, DiskFile
from limpet.segments.layout import OPEN, TEMPORARY, create_afresh, find, size_of
from limpet.warc import members

_COPY_BYTES: Final = 1_048_576
_LOCK_TRIES: Final = 5

Read = Callable[[int, int], bytes]
"""`read(offset, size_bytes)` of the bytes that a segment should have."""


class Patchwork:
    """One sound file out of several damaged replicas: each member from a replica that has it whole.

    Records lie at the same offsets in all of them, so that where one is torn another may go on. Reads every replica
    that is needed, once or more often: for the rare case that they differ. Behind `good_bytes` nobody has a whole
    member; reads there see the longest replica.
    """

    def __init__(self, disk: Disk, paths: Sequence[Path]) -> None:
        self._disk = disk
        self._longest = max(paths, key=lambda path: size_of(disk, path) or 0)
        self._pieces: list[tuple[int, Path]] = []  # (end, replica that is whole up to it)
        self.good_bytes = 0
        while True:
            end, path = max((_good_bytes(disk, path, self.good_bytes), path) for path in paths)
            if end == self.good_bytes:
                break
            self._pieces.append((end, path))
            self.good_bytes = end

    def read(self, offset: int, size_bytes: int) -> bytes:
        """Up to `size_bytes` bytes at `offset`; shorter at the end."""
        data = b""
        while len(data) < size_bytes:
            end, path = self._piece(offset + len(data))
            part = self._disk.read(path, offset + len(data), min(size_bytes - len(data), end - offset - len(data)))
            if not part:
                break
            data += part
        return data

    def _piece(self, offset: int) -> tuple[int, Path]:
        behind = (offset + _COPY_BYTES, self._longest)
        return next((piece for piece in self._pieces if offset < piece[0]), behind)


def cut(disk: Disk, folders: Sequence[Path], name: str, good_bytes: int) -> bool:
    """Make every replica of `name` hold exactly its first `good_bytes` bytes; False when a writer holds its lock.

    Replicas that are short are continued, one that is gone is made anew, and one that differs inside is replaced by a
    sound copy, whole, by rename: nothing that is good anywhere is touched before it is durable elsewhere. Safe to
    repeat after a crash at any step. KeyError if no replica has the segment, ValueError if none has `good_bytes` bytes;
    OSError.
    """
    paths = [path for folder in folders if (path := find(disk, folder, name)) is not None]
    if not paths:
        raise KeyError(name)
    with contextlib.ExitStack() as stack:
        files: list[tuple[Path, DiskFile]] = []
        for path in paths:
            file = _lock(disk, path)
            if file is None:
                return False
            stack.callback(_close, file)
            files.append((path, file))
        if all((size_of(disk, path) or 0) < good_bytes for path in paths):
            raise ValueError(f"no replica of {name} has {good_bytes} bytes")
        read = _source(disk, paths, good_bytes)
        for folder in folders:
            if find(disk, folder, name) is None:
                file = create_afresh(disk, folder / f"{name}{OPEN}")
                stack.callback(_close, file)
                disk.sync_dir(folder)
                files.append((folder / f"{name}{OPEN}", file))
        for path, file in files:
            _complete(disk, read, path, file, good_bytes)
    return True


def _lock(disk: Disk, path: Path) -> DiskFile | None:
    """The locked file. Tried a few times: somebody who lists segments holds each lock for an instant, too."""
    return next((file for _ in range(_LOCK_TRIES) if (file := disk.reopen(path)) is not None), None)


def _source(disk: Disk, paths: Sequence[Path], good_bytes: int) -> Read:
    """The longest replica if the others agree with it as far as they go, else what they have together."""
    longest = max(paths, key=lambda path: size_of(disk, path) or 0)

    def read(offset: int, size_bytes: int) -> bytes:
        return disk.read(longest, offset, size_bytes)

    if all(_agrees(disk, read, path, good_bytes) for path in paths):
        return read
    return Patchwork(disk, paths).read


def _complete(disk: Disk, read: Read, path: Path, file: DiskFile, good_bytes: int) -> None:
    if _agrees(disk, read, path, good_bytes):
        if file.tell() > good_bytes:
            file.truncate(good_bytes)
        _copy(read, file, file.tell(), good_bytes)
        return
    temporary = path.with_name(f"{path.name}{TEMPORARY}")
    sound = create_afresh(disk, temporary)
    try:
        _copy(read, sound, 0, good_bytes)
        disk.rename(temporary, path)
        disk.sync_dir(path.parent)
    finally:
        _close(sound)


def _copy(read: Read, file: DiskFile, start: int, end: int) -> None:
    while start < end:
        data = read(start, min(_COPY_BYTES, end - start))
        if not data:
            raise OSError("a replica became shorter while it was copied")
        file.write(data)
        start += len(data)
    file.sync()


def _agrees(disk: Disk, read: Read, path: Path, good_bytes: int) -> bool:
    """Whether `path` has the right bytes as far as it goes, up to `good_bytes`."""
    end = min(size_of(disk, path) or 0, good_bytes)
    for offset in range(0, end, _COPY_BYTES):
        want = min(_COPY_BYTES, end - offset)
        if disk.read(path, offset, want) != read(offset, want):
            return False
    return True


def _good_bytes(disk: Disk, path: Path, start: int) -> int:
    scan = members(lambda offset, size_bytes: disk.read(path, offset, size_bytes), size_of(disk, path) or 0, start)
    for _ in scan:
        pass
    return scan.good_bytes


def _close(file: DiskFile) -> None:
    with contextlib.suppress(OSError):
        file.close()

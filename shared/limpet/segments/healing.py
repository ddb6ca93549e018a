"""Making the replicas of a dead writer's segment equal again. Blocking: run it from a `Runner`."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from limpet.runtime.disk import Disk, DiskFile
from limpet.segments.layout import OPEN, find, size_of
from limpet.warc import members

_COPY_BYTES: Final = 1_048_576


def cut(disk: Disk, folders: Sequence[Path], name: str, good_bytes: int) -> bool:
    """Make every replica of `name` hold exactly its first `good_bytes` bytes; False when a writer holds its lock.

    The bytes come from a replica that has them all; where replicas differ inside them, from the one whose members are
    whole for longest. Others are completed before that one is cut, so that a crash at any step leaves one that is
    good. KeyError if no replica has the segment, ValueError if none has `good_bytes` bytes; OSError.
    """
    paths = [path for folder in folders if (path := find(disk, folder, name)) is not None]
    if not paths:
        raise KeyError(name)
    with contextlib.ExitStack() as stack:
        files = dict.fromkeys(paths)
        for path in paths:
            file = disk.reopen(path)
            if file is None:
                return False
            stack.callback(_close, file)
            files[path] = file
        source = _source(disk, paths, good_bytes)
        for folder in folders:
            if find(disk, folder, name) is None:
                path = folder / f"{name}{OPEN}"
                file = disk.create(path)
                stack.callback(_close, file)
                disk.sync_dir(folder)
                files[path] = file
        for path, opened in sorted(files.items(), key=lambda item: item[0] == source):
            if opened is not None:
                _complete(disk, source, path, opened, good_bytes)
    return True


def soundest(disk: Disk, paths: Sequence[Path]) -> Path:
    """The replica whose members are whole for longest, by reading all of them."""
    return max(paths, key=lambda path: _good_bytes(disk, path))


def _source(disk: Disk, paths: Sequence[Path], good_bytes: int) -> Path:
    able = [path for path in paths if (size_of(disk, path) or 0) >= good_bytes]
    if not able:
        raise ValueError(f"no replica of {paths[0].name} has {good_bytes} bytes")
    if all(_common_bytes(disk, able[0], other, good_bytes) == good_bytes for other in able[1:]):
        return able[0]
    return soundest(disk, able)


def _complete(disk: Disk, source: Path, path: Path, file: DiskFile, good_bytes: int) -> None:
    """Give `path` the first `good_bytes` bytes of `source`, leaving alone what it has of them."""
    kept = good_bytes if path == source else _common_bytes(disk, source, path, good_bytes)
    if file.tell() > kept:
        file.truncate(kept)
    while kept < good_bytes:
        data = disk.read(source, kept, min(_COPY_BYTES, good_bytes - kept))
        file.write(data)
        kept += len(data)
    file.sync()


def _common_bytes(disk: Disk, one: Path, other: Path, size_bytes: int) -> int:
    """Length of what both files begin with, up to `size_bytes`."""
    offset = 0
    while offset < size_bytes:
        want = min(_COPY_BYTES, size_bytes - offset)
        left, right = disk.read(one, offset, want), disk.read(other, offset, want)
        if left != right or len(left) < want:
            return offset + _common_prefix(left, right)
        offset += want
    return offset


def _common_prefix(left: bytes, right: bytes) -> int:
    low, high = 0, min(len(left), len(right))
    while low < high:  # bisection: comparing slices is fast, comparing bytes one by one is not
        middle = (low + high + 1) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _good_bytes(disk: Disk, path: Path) -> int:
    scan = members(lambda offset, size_bytes: disk.read(path, offset, size_bytes), size_of(disk, path) or 0)
    for _ in scan:
        pass
    return scan.good_bytes


def _close(file: DiskFile) -> None:
    with contextlib.suppress(OSError):
        file.close()

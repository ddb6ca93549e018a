"""Where the parts of a segment lie in a replica directory.

`NAME.open` while it may grow or be repaired; then `NAME`, with its index `NAME.cdxj` beside it. The index is in place
before the segment loses its `.open`: a sealed segment always has one.
"""

from pathlib import Path
from typing import Final

from limpet.model.errors import Definite
from limpet.runtime.disk import Disk, DiskFile

OPEN: Final = ".open"
INDEX: Final = ".cdxj"
TEMPORARY: Final = ".tmp"


def size_of(disk: Disk, path: Path) -> int | None:
    """Length of a file in bytes; None if it does not exist."""
    try:
        return disk.size(path)
    except FileNotFoundError:
        return None


def find(disk: Disk, folder: Path, name: str) -> Path | None:
    """The file of segment `name` in one replica, or None.

    `.open` is looked for first: segments only ever go from open to sealed, so in this order none is missed.
    """
    candidates = (folder / f"{name}{OPEN}", folder / name)
    return next((path for path in candidates if size_of(disk, path) is not None), None)


def seal_replica(disk: Disk, folder: Path, name: str, index: bytes) -> None:
    """Store the index, then take `.open` off the segment; safe to repeat after a crash at any step.

    Each directory sync is repeated whatever was there before: an entry that an earlier attempt left behind may not be
    durable yet. Raises OSError.
    """
    target = folder / f"{name}{INDEX}"
    size = size_of(disk, target)
    if size != len(index) or disk.read(target, 0, size) != index:
        temporary = folder / f"{name}{INDEX}{TEMPORARY}"
        _write_whole(disk, temporary, index)
        disk.rename(temporary, target)
    disk.sync_dir(folder)
    growing = folder / f"{name}{OPEN}"
    if size_of(disk, growing) is not None:
        disk.rename(growing, folder / name)
    disk.sync_dir(folder)


def _write_whole(disk: Disk, path: Path, data: bytes) -> None:
    file = create_afresh(disk, path)
    try:
        file.write(data)
        file.sync()
    finally:
        file.close()


def create_afresh(disk: Disk, path: Path) -> DiskFile:
    """A locked, empty file at `path`, whatever a dead process left there. `Definite` if a living one is at it."""
    try:
        return disk.create(path)
    except FileExistsError:
        file = disk.reopen(path)
    if file is None:
        raise Definite(f"another process is writing {path}")
    file.truncate(0)
    return file

"""An archive on HDFS as a disk, for checks that read files: nothing is copied, and nothing can be written."""

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from limpet.runtime.disk import DiskFile
from limpet.segments.hdfs import HdfsFault
from limpet.segments.hdfs.cluster import Hdfs, HdfsReader

READERS_MAX: Final = 16

T = TypeVar("T")


class ArchiveDisk:
    """See `Disk`: whatever directory a path names, its file is the one of that name below `root`.

    Sizes are those of the first look, so that a check meets one archive. What HDFS does not give is an OSError.
    """

    def __init__(self, hdfs: Hdfs, root: str, loop: asyncio.Runner) -> None:
        self._hdfs = hdfs
        self._root = root
        self._loop = loop
        self._files: dict[str, tuple[str, int]] | None = None
        self._readers: OrderedDict[str, HdfsReader] = OrderedDict()

    def read(self, path: Path, offset: int, size_bytes: int) -> bytes:
        """See `Disk.read`."""
        place, end = self._file(path)
        wanted = min(size_bytes, end - offset)
        return self._ask(self._read(place, offset, wanted)) if wanted > 0 else b""

    def size(self, path: Path) -> int:
        """See `Disk.size`."""
        return self._file(path)[1]

    def names(self, path: Path) -> list[str]:  # noqa: ARG002 - there is one directory
        """See `Disk.names`."""
        return sorted(self._listed())

    def close(self) -> None:
        """Let go of the connection."""
        self._loop.run(self._hdfs.close())

    async def _read(self, place: str, offset: int, size_bytes: int) -> bytes:
        reader = self._readers.pop(place, None) or await self._hdfs.open(place)
        self._readers[place] = reader
        if len(self._readers) > READERS_MAX:
            self._readers.popitem(last=False)
        return await reader.read(offset, size_bytes)

    def _file(self, path: Path) -> tuple[str, int]:
        found = self._listed().get(path.name)
        if found is None:
            raise FileNotFoundError(path)
        return found

    def _listed(self) -> dict[str, tuple[str, int]]:
        if self._files is None:
            files = self._ask(self._hdfs.files(self._root))
            self._files = {place.rpartition("/")[2]: (place, size) for place, size in files.items()}
        return self._files

    def _ask(self, answer: Coroutine[Any, Any, T]) -> T:
        try:
            return self._loop.run(answer)
        except HdfsFault as error:
            raise OSError(f"HDFS: {error}") from error

    # -- what an archive that is only read has no use for --------------------------------------------------------------
    def create(self, path: Path) -> DiskFile:
        """Not here."""
        _refuse(path)

    def reopen(self, path: Path) -> DiskFile | None:
        """Not here."""
        _refuse(path)

    def sync_dir(self, path: Path) -> None:
        """Not here."""
        _refuse(path)

    def rename(self, source: Path, target: Path) -> None:  # noqa: ARG002 - the port's
        """Not here."""
        _refuse(source)

    def remove(self, path: Path) -> None:
        """Not here."""
        _refuse(path)

    def free_bytes(self, path: Path) -> int:  # noqa: ARG002 - the port's
        """Nothing may be written."""
        return 0


def _refuse(path: Path) -> NoReturn:
    raise OSError(f"{path}: the archive is only read here")

"""The writer's hints of how far a segment is settled, in a small file beside it; see `limpet.segments.settled`."""

import contextlib

from limpet.segments.hdfs.cluster import Hdfs, HdfsFault, HdfsFile
from limpet.segments.settled import SettledLines


class Hints:
    """Grows with its segment. After the first trouble no more is written: what is there stays true."""

    def __init__(self, hdfs: Hdfs, path: str) -> None:
        self.written = SettledLines()
        self._hdfs = hdfs
        self._path = path
        self._file: HdfsFile | None = None
        self._over = False

    async def advance(self, offset: int) -> None:
        """Everything before `offset` is settled. Never raises `HdfsFault`."""
        block = b"" if self._over else self.written.block(offset)
        if not block:
            return
        try:
            if self._file is None:
                self._file = await self._hdfs.create(self._path, overwrite=True)
            await self._file.write(block)
            await self._file.hsync()
        except (HdfsFault, FileExistsError, FileNotFoundError):
            self.drop()
            return
        self.written.said(offset)

    async def close(self) -> None:
        """Complete the file."""
        file, self._file = self._file, None
        self._over = True
        if file is not None:
            with contextlib.suppress(HdfsFault, FileNotFoundError):
                await file.close()

    def drop(self) -> None:
        """Let go of the file."""
        file, self._file = self._file, None
        self._over = True
        if file is not None:
            file.drop()

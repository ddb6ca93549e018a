"""The writer's hints of how far a segment is settled, in a small file beside it; see `limpet.segments.settled`."""

import asyncio
import contextlib

from limpet.segments.hdfs.cluster import Hdfs, HdfsFault, HdfsFile
from limpet.segments.settled import SettledLines


class Hints:
    """Grows with its segment, which may let go of it at any moment.

    After the first trouble no more is written: what is there stays true.
    """

    def __init__(self, hdfs: Hdfs, path: str) -> None:
        self.written = SettledLines()
        self._hdfs = hdfs
        self._path = path
        self._file: HdfsFile | None = None
        self._over = False
        self._turns = asyncio.Lock()  # the watch over marks and a seal may both want to advance

    async def advance(self, offset: int) -> None:
        """Everything before `offset` is settled. Never raises `HdfsFault`."""
        async with self._turns:
            block = b"" if self._over else self.written.block(offset)
            if block and await self._write(block):
                self.written.said(offset)

    async def _write(self, block: bytes) -> bool:
        """Durably; False after any trouble, and when the file is let go of meanwhile."""
        try:
            file = self._file or await self._hdfs.create(self._path, overwrite=True)
            if self._over:
                file.drop()
                return False
            self._file = file
            await file.write(block)
            await file.hsync()
        except (HdfsFault, FileExistsError, FileNotFoundError):
            self.drop()
            return False
        return True

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

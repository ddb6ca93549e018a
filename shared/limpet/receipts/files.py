"""Unclean receipts in files of one JSON object a line: one file open for each incarnation, the oldest removed first."""

import asyncio
from pathlib import Path
from typing import Final

import msgspec

from limpet.model.errors import CannotGoOn
from limpet.receipts.types import Receipt
from limpet.runtime.disk import Disk, DiskFile
from limpet.runtime.executor import Runner

FILE_BYTES_MAX: Final = 4 << 20
FILES_MAX: Final = 64
SUFFIX: Final = ".receipts.jsonl"


class FileReceiptLog:
    """See `ReceiptLog`. `folder` exists; file names are NUMBER-INCARNATION, numbers grow.

    At most `files_max` files of about `file_bytes_max` bytes each stay in the folder.
    """

    def __init__(
        self,
        folder: Path,
        disk: Disk,
        runner: Runner,
        incarnation: str,
        *,
        file_bytes_max: int = FILE_BYTES_MAX,
        files_max: int = FILES_MAX,
    ) -> None:
        self._folder, self._disk, self._runner = folder, disk, runner
        self._incarnation = incarnation
        self._file_bytes_max, self._files_max = file_bytes_max, files_max
        self._file: DiskFile | None = None
        self._lock = asyncio.Lock()

    async def keep(self, receipt: Receipt) -> None:
        """See `ReceiptLog.keep`. After an error its file is left behind and the next receipt opens another."""
        line = msgspec.json.encode(receipt) + b"\n"
        async with self._lock:
            try:
                await self._runner.run(lambda: self._append(line))
            except OSError as error:
                self._leave()
                raise CannotGoOn(f"cannot keep a receipt in {self._folder}: {error}") from error

    async def kept(self) -> list[Receipt]:
        """See `ReceiptLog.kept`. Lines that cannot be read (a torn tail) are passed over."""
        async with self._lock:
            return await self._runner.run(self._read)

    async def close(self) -> None:
        """See `ReceiptLog.close`."""
        async with self._lock:
            self._leave()

    def _append(self, line: bytes) -> None:
        if self._file is not None and self._file.tell() + len(line) > self._file_bytes_max:
            self._leave()
        if self._file is None:
            self._file = self._open()
        self._file.write(line)
        self._file.sync()

    def _open(self) -> DiskFile:
        names = self._names()
        for old in names[: max(0, len(names) + 1 - self._files_max)]:
            self._disk.remove(self._folder / old)
        number = int(names[-1].partition("-")[0]) + 1 if names else 0
        created = self._disk.create(self._folder / f"{number:012}-{self._incarnation}{SUFFIX}")
        self._disk.sync_dir(self._folder)
        return created

    def _names(self) -> list[str]:
        found = [name for name in self._disk.names(self._folder) if name.endswith(SUFFIX)]
        return [name for name in found if name.partition("-")[0].isdigit()]

    def _read(self) -> list[Receipt]:
        found: list[Receipt] = []
        for name in self._names():
            path = self._folder / name
            for line in self._disk.read(path, 0, self._disk.size(path)).split(b"\n"):
                try:
                    found.append(msgspec.json.decode(line, type=Receipt))
                except msgspec.MsgspecError:
                    continue
        return found

    def _leave(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

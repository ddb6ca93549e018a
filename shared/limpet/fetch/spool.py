"""Where large bodies wait for the archive: files without durability, so that memory does not grow with them.

A file of the spool means nothing to anybody but the exchange that fills it. None is synced; one that outlives its
process is taken away by the next `Spool.clean`.
"""

import asyncio
import contextlib
import errno
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol, TypeVar, runtime_checkable

import msgspec

from limpet.fetch.chunked import Dechunker
from limpet.model.errors import CannotGoOn
from limpet.runtime import Disk, DiskFile, Runner

SLICE_BYTES: Final = 262_144
"""What is read back at once."""

CHECK_ROOM_BYTES: Final = 16_777_216
"""After so many bytes the disk is asked again whether it has room."""

_NAME: Final = "body-"
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
T = TypeVar("T")


class SpoolLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What all files of a spool together may take, and how much of the disk stays free."""

    bytes_max: int = 4_000_000_000
    min_free_bytes: int = 0


class Spool:
    """The spool of one process in `folder`, which exists. `name` tells its files from those of others.

    Files are written, hashed and read on `runner`. A disk that is full, or has less than `min_free_bytes` left, is no
    fault of a site: it raises `CannotGoOn`.
    """

    def __init__(
        self, folder: Path, name: str, *, disk: Disk, runner: Runner, limits: SpoolLimits | None = None
    ) -> None:
        self.held_bytes = 0
        self._folder = folder
        self._name = name
        self._disk = disk
        self._runner = runner
        self._limits = limits or SpoolLimits()
        self._serial = 0
        self._unchecked_bytes = CHECK_ROOM_BYTES
        self._freed = asyncio.Event()

    async def clean(self) -> int:
        """Take away what dead processes left; how many files."""
        return await self._runner.run(self._clean)

    def open(self, head_bytes: int, *, chunked: bool) -> "SpoolFile":
        """A new body behind a head of so many bytes. Its file is made with its first bytes."""
        self._serial += 1
        return SpoolFile(self, self._folder / f"{_NAME}{self._name}-{self._serial}", head_bytes, chunked=chunked)

    async def room(self) -> None:
        """Wait until less than `bytes_max` is held. What is in memory already may still be added."""
        while self.held_bytes >= self._limits.bytes_max:
            self._freed.clear()
            await self._freed.wait()

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` on the spool's thread."""
        return await self._runner.run(work)

    async def write(self, file: "SpoolFile", block: bytes, payload: bytes) -> None:
        """Add to a body. Raises `CannotGoOn`."""
        self.held_bytes += len(block)
        self._unchecked_bytes += len(block)
        check = self._unchecked_bytes >= CHECK_ROOM_BYTES
        if check:
            self._unchecked_bytes = 0
        await self._runner.run(lambda: self._write(file, block, payload, check=check))

    async def release(self, file: "SpoolFile") -> None:
        """Take a body away."""
        try:
            await self._runner.run(lambda: file.remove(self._disk))
        finally:
            self.held_bytes -= file.block_bytes
            self._freed.set()

    def read(self, path: Path, size_bytes: int) -> Iterator[bytes]:
        """The first `size_bytes` bytes of a file in slices. OSError when they are not there."""
        for offset in range(0, size_bytes, SLICE_BYTES):
            wanted = min(SLICE_BYTES, size_bytes - offset)
            data = self._disk.read(path, offset, wanted)
            if len(data) < wanted:
                raise OSError(errno.EIO, "the spool has lost bytes")
            yield data

    def _write(self, file: "SpoolFile", block: bytes, payload: bytes, *, check: bool) -> None:
        try:
            if check:
                self._check_room()
            file.add(self._disk, block, payload)
        except OSError as error:
            what = "disk full" if error.errno in _FULL else "the disk failed"
            raise CannotGoOn(f"{what} while a large body arrived: {error}; free some space and run again") from error

    def _check_room(self) -> None:
        if self._disk.free_bytes(self._folder) < self._limits.min_free_bytes:
            raise OSError(errno.ENOSPC, "less than the minimum of free space is left")

    def _clean(self) -> int:
        count = 0
        for name in self._disk.names(self._folder):
            if name.startswith(_NAME):
                with contextlib.suppress(OSError):
                    left = self._disk.reopen(self._folder / name)
                    if left is not None:  # nobody's: a living process holds its lock
                        left.close()
                        self._disk.remove(self._folder / name)
                        count += 1
        return count


class SpoolFile:
    """One body in a spool; fills `limpet.fetch.port.Spooled`."""

    def __init__(self, spool: Spool, path: Path, head_bytes: int, *, chunked: bool) -> None:
        self.block_bytes = 0
        self.payload_bytes = 0
        self.writing = False  # bytes are on their way to the disk
        self._spool = spool
        self._path = path
        self._head_bytes = head_bytes
        self._chunked = chunked
        self._file: DiskFile | None = None
        self._gone = False
        self._block_sha1 = hashlib.sha1(usedforsecurity=False)
        self._payload_sha1 = hashlib.sha1(usedforsecurity=False)
        self._payload_sha256 = hashlib.sha256()

    @property
    def block_sha1(self) -> bytes:
        """See `Spooled.block_sha1`."""
        return self._block_sha1.digest()

    @property
    def payload_sha1(self) -> bytes:
        """See `Spooled.payload_sha1`."""
        return self._payload_sha1.digest()

    @property
    def payload_sha256(self) -> bytes:
        """See `Spooled.payload_sha256`."""
        return self._payload_sha256.digest()

    async def room(self) -> None:
        """Wait for room in the spool."""
        await self._spool.room()

    async def append(self, block: bytes, payload: bytes) -> None:
        """Add the next part of the block, and the payload that is in it. Raises `CannotGoOn`."""
        self.block_bytes += len(block)
        self.payload_bytes += len(payload)
        self.writing = True
        try:
            await self._spool.write(self, block, payload)
        finally:
            self.writing = False

    def add(self, disk: Disk, block: bytes, payload: bytes) -> None:
        """Write and hash; blocks. Raises OSError."""
        if self._file is None:
            self._file = disk.create(self._path)
        self._file.write(block)
        self._block_sha1.update(block)
        self._payload_sha1.update(payload)
        self._payload_sha256.update(payload)

    def remove(self, disk: Disk) -> None:
        """Take the file away; blocks."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                disk.remove(self._path)
            with contextlib.suppress(OSError):
                file.close()

    def block(self) -> Iterator[bytes]:
        """See `Spooled.block`."""
        return self._spool.read(self._path, self.block_bytes)

    def payload(self) -> Iterator[bytes]:
        """See `Spooled.payload`. The payload is the end of the block, unless chunk framing runs through it."""
        head_bytes = self._head_bytes
        dechunker = Dechunker() if self._chunked else None
        for piece in self.block():
            skipped, head_bytes = min(head_bytes, len(piece)), max(0, head_bytes - len(piece))
            body = piece[skipped:]
            yield body if dechunker is None else dechunker.feed(body)

    async def examine(self, work: Callable[[], T]) -> T:
        """See `Spooled.examine`."""
        return await self._spool.run(work)

    async def release(self) -> None:
        """See `Spooled.release`."""
        if not self._gone:
            self._gone = True
            await self._spool.release(self)


@runtime_checkable
class Spooling(Protocol):
    """A fetcher that can put large bodies on disk."""

    def spool_into(self, spool: Spool) -> None:
        """Use `spool` from now on: captures may come with `Capture.spool` set."""
        ...

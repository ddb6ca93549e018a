"""What is asked of HDFS, as a port: real servers (`native`) and a cluster in memory (`limpet.testing.hdfs`) fill it."""

from typing import Protocol

import msgspec

from limpet.model.errors import Indefinite


class HdfsFault(Indefinite):
    """A call failed or took too long; HDFS may have carried it out, or may do so yet."""


class LeaseLost(HdfsFault):
    """Somebody else has taken the file: its writer is held for dead."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Where a block lies. `replicas`: HTTP addresses of its DataNodes; of a growing one, of its pipeline."""

    offset: int
    length: int
    complete: bool
    replicas: tuple[str, ...]

    @property
    def end(self) -> int:
        """Offset behind its last byte."""
        return self.offset + self.length


class FileBlocks(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks of a file that were asked for, and always its last. `growing`: it has a writer, or lacks recovery."""

    growing: bool
    blocks: tuple[Block, ...]

    @property
    def size_bytes(self) -> int:
        """Length, as far as the NameNode knows it."""
        return max((block.end for block in self.blocks), default=0)

    def within(self, offset: int, size_bytes: int) -> list[Block]:
        """The blocks that hold a range."""
        return [block for block in self.blocks if block.offset < offset + size_bytes and block.end > offset]


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """How the cluster fares: DataNodes that report, bytes that are left on them."""

    datanodes: int
    free_bytes: int


class HdfsFile(Protocol):
    """A file being written. After any `HdfsFault` only `drop` may be called."""

    async def write(self, data: bytes) -> None:
        """Append; durable after `hsync`."""
        ...

    async def hsync(self) -> None:
        """Return when every DataNode of the pipeline has synced all that was written, and the NameNode its length."""
        ...

    async def close(self) -> None:
        """Complete the file: it has no writer any more."""
        ...

    def drop(self) -> None:
        """Let go of it as it is, and renew its lease no longer."""
        ...


class HdfsReader(Protocol):
    """The closed blocks of a file as they were when it was opened."""

    @property
    def size_bytes(self) -> int:
        """Bytes in closed blocks."""
        ...

    async def read(self, offset: int, size_bytes: int) -> bytes:
        """Exactly these bytes, which must lie within `size_bytes`."""
        ...


class Hdfs(Protocol):
    """The verbs. FileNotFoundError and FileExistsError as in any file system; `HdfsFault` for all else."""

    async def create(self, path: str, *, overwrite: bool = False) -> HdfsFile:
        """A new file with us as its writer."""
        ...

    async def open(self, path: str) -> HdfsReader:
        """For reading closed blocks."""
        ...

    async def tail(self, path: str, offset: int, size_bytes: int, datanode: str) -> bytes:
        """Bytes of any block through one DataNode, the growing one included; shorter at the end."""
        ...

    async def blocks(self, path: str, offset: int, size_bytes: int) -> FileBlocks:
        """What the NameNode knows of a range and of the file's end."""
        ...

    async def size(self, path: str) -> int:
        """Length in bytes, as far as the NameNode knows it."""
        ...

    async def files(self, folder: str) -> dict[str, int]:
        """Path -> length of all files below a folder; empty if there is none."""
        ...

    async def recover_lease(self, path: str) -> bool:
        """Take the file from its writer; True once it is closed."""
        ...

    async def truncate(self, path: str, size_bytes: int) -> None:
        """Begin to cut a closed file; it is `growing` until that is done."""
        ...

    async def rename(self, source: str, target: str) -> None:
        """Atomic; replaces `target`."""
        ...

    async def delete(self, path: str) -> None:
        """Remove a file; none is fine."""
        ...

    async def mkdirs(self, path: str) -> None:
        """Make a folder; refused while the NameNode takes no writes."""
        ...

    async def room(self) -> Room:
        """How the cluster fares."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...

"""A small HDFS in memory, as far as segments need one: leases, pipelines, hidden tails, a NameNode that may be down.

It is a fake, not a model of HDFS: what it does was seen on HDFS 3.4 and is held against real servers by the same suite.
"""

from collections.abc import Awaitable, Callable, Sequence

from limpet.segments.hdfs.cluster import Block, FileBlocks, HdfsFault, LeaseLost, Room


class MemoryBlock:
    """Bytes and the DataNodes of its pipeline."""

    def __init__(self, replicas: Sequence[str]) -> None:
        self.data = bytearray()
        self.replicas = list(replicas)
        self.complete = False


class MemoryInode:
    """A file. `synced` is what the NameNode knows of its length."""

    def __init__(self) -> None:
        self.blocks: list[MemoryBlock] = []
        self.synced = 0
        self.writer: MemoryHdfsFile | None = None
        self.held = True  # its lease: by a living writer, or by one that vanished

    @property
    def data(self) -> bytes:
        """Everything that reached the DataNodes."""
        return b"".join(bytes(block.data) for block in self.blocks)

    @property
    def closed_bytes(self) -> int:
        """Bytes in closed blocks."""
        return sum(len(block.data) for block in self.blocks if block.complete)

    def keep(self, size_bytes: int) -> None:
        """Cut to a length, and close."""
        for block in self.blocks:
            del block.data[size_bytes:]
            size_bytes -= len(block.data)
            block.complete = True
        self.blocks = [block for block in self.blocks if block.data]
        self.synced = self.closed_bytes
        self.writer, self.held = None, False


class MemoryHdfs:
    """`Hdfs` in memory. Faults are attributes and verbs that a test sets.

    `up`: the NameNode answers. `repairs`: a writer goes on with the DataNodes that are left, saying nothing; otherwise
    its sync fails. `unnoticed`: dead DataNodes that the NameNode still takes for alive. `recovery_polls`: how often
    `recover_lease` says "not yet". `lost_replies`: so many syncs are carried out, and reported as failed. `pause`: what
    every call takes before it does anything.
    """

    def __init__(self, *, datanodes: int = 3, replication: int = 3, block_bytes: int = 134_217_728) -> None:
        self.up = True
        self.repairs = False
        self.recovery_polls = 0
        self.free_bytes = 10**15
        self.lost_replies = 0
        self.pause: Callable[[], Awaitable[None]] | None = None
        self.unnoticed: set[str] = set()
        self.inodes: dict[str, MemoryInode] = {}
        self.calls: dict[str, int] = {}
        self.live = {f"datanode-{number}:9864" for number in range(1, datanodes + 1)}
        self._replication = replication
        self._block_bytes = block_bytes
        self._polls: dict[str, int] = {}

    # -- what a test does to it ----------------------------------------------------------------------------------------
    def kill(self, datanode: int, *, noticed: bool = True) -> None:
        """A DataNode dies; until the NameNode has noticed, it goes on giving it to writers."""
        name = f"datanode-{datanode}:9864"
        self.live.discard(name)
        if not noticed:
            self.unnoticed.add(name)

    def notice(self) -> None:
        """The NameNode learns of every death."""
        self.unnoticed.clear()

    def revive(self, datanode: int) -> None:
        """A DataNode comes back."""
        name = f"datanode-{datanode}:9864"
        self.live.add(name)
        self.unnoticed.discard(name)

    def lose_writer(self, path: str, unsynced_bytes: int = 0) -> None:
        """The process that writes `path` vanishes; so many bytes of what it had not synced had reached DataNodes."""
        inode = self.inodes[path]
        if inode.writer is not None:
            inode.writer.vanish(unsynced_bytes)

    def content(self, path: str) -> bytes:
        """All bytes of a file, hidden ones included."""
        return self.inodes[path].data

    # -- the port ------------------------------------------------------------------------------------------------------
    async def create(self, path: str, *, overwrite: bool = False) -> "MemoryHdfsFile":
        """See `Hdfs.create`."""
        await self.ask("create")
        if path in self.inodes and not overwrite:
            raise FileExistsError(path)
        inode = self.inodes[path] = MemoryInode()
        inode.writer = MemoryHdfsFile(self, inode, path)
        return inode.writer

    async def open(self, path: str) -> "MemoryHdfsReader":
        """See `Hdfs.open`."""
        await self.ask("open")
        inode = self._inode(path)
        return MemoryHdfsReader(inode.data[: inode.closed_bytes])

    async def tail(self, path: str, offset: int, size_bytes: int, datanode: str) -> bytes:
        """See `Hdfs.tail`."""
        await self.ask("tail")
        if datanode not in self.live:
            raise HdfsFault(f"{datanode} cannot be reached")
        inode = self._inode(path)
        return inode.data[: inode.synced][offset : offset + size_bytes]

    async def blocks(self, path: str, offset: int, size_bytes: int) -> FileBlocks:
        """See `Hdfs.blocks`."""
        await self.ask("blocks")
        inode, found, start = self._inode(path), list[Block](), 0
        for block in inode.blocks:
            length = len(block.data) if block.complete else max(0, inode.synced - start)
            last = block is inode.blocks[-1]
            if last or (start < offset + size_bytes and start + length > offset):
                replicas = [node for node in block.replicas if not block.complete or node in self._believed()]
                found.append(Block(offset=start, length=length, complete=block.complete, replicas=tuple(replicas)))
            start += length
        return FileBlocks(growing=inode.held, blocks=tuple(found))

    async def size(self, path: str) -> int:
        """See `Hdfs.size`."""
        await self.ask("size")
        return self._inode(path).synced

    async def files(self, folder: str) -> dict[str, int]:
        """See `Hdfs.files`."""
        await self.ask("files")
        return {path: inode.synced for path, inode in self.inodes.items() if path.startswith(f"{folder}/")}

    async def recover_lease(self, path: str) -> bool:
        """See `Hdfs.recover_lease`. What had reached the DataNodes without a sync is kept: HDFS may do so."""
        await self.ask("recover_lease")
        inode = self._inode(path)
        if inode.held:
            if inode.writer is not None:
                inode.writer.vanish(0)
            self._polls[path] = self._polls.get(path, 0) + 1
            if self._polls[path] <= self.recovery_polls:
                return False
            inode.keep(len(inode.data))
        return True

    async def truncate(self, path: str, size_bytes: int) -> None:
        """See `Hdfs.truncate`."""
        await self.ask("truncate")
        inode = self._inode(path)
        if inode.held:
            raise HdfsFault(f"{path} has a writer")
        inode.keep(size_bytes)

    async def rename(self, source: str, target: str) -> None:
        """See `Hdfs.rename`."""
        await self.ask("rename")
        self.inodes[target] = self._inode(source)
        del self.inodes[source]

    async def delete(self, path: str) -> None:
        """See `Hdfs.delete`."""
        await self.ask("delete")
        self.inodes.pop(path, None)

    async def mkdirs(self, path: str) -> None:
        """See `Hdfs.mkdirs`."""
        await self.ask("mkdirs")
        if not path.startswith("/"):
            raise HdfsFault(f"{path} is not absolute")

    async def room(self) -> Room:
        """See `Hdfs.room`."""
        await self.ask("room")
        return Room(datanodes=len(self._believed()), free_bytes=self.free_bytes)

    async def close(self) -> None:
        """See `Hdfs.close`."""

    # -- inside --------------------------------------------------------------------------------------------------------
    def pipeline(self) -> list[str]:
        """The DataNodes of a new block; refused when one that is chosen is dead."""
        chosen = sorted(self._believed())[: self._replication]
        if not chosen or not self.live.issuperset(chosen):
            raise HdfsFault("connection refused")
        return chosen

    def put(self, inode: MemoryInode, data: bytes) -> None:
        """Bytes reach the DataNodes, block by block."""
        while data:
            if not inode.blocks or len(inode.blocks[-1].data) == self._block_bytes:
                if inode.blocks:
                    inode.blocks[-1].complete = True
                inode.blocks.append(MemoryBlock(self.pipeline()))
            block = inode.blocks[-1]
            room = self._block_bytes - len(block.data)
            block.data += data[:room]
            data = data[room:]

    def sync(self, inode: MemoryInode) -> None:
        """Every DataNode of the pipeline syncs; the NameNode learns the length."""
        for block in inode.blocks[-1:]:
            left = [node for node in block.replicas if node in self.live]
            if left != block.replicas and not (self.repairs and left):
                raise HdfsFault("the pipeline is broken")
            block.replicas = left
        inode.synced = len(inode.data)

    def _believed(self) -> set[str]:
        return self.live | self.unnoticed

    def _inode(self, path: str) -> MemoryInode:
        if path not in self.inodes:
            raise FileNotFoundError(path)
        return self.inodes[path]

    async def ask(self, verb: str) -> None:
        """Count a call; it takes its time, and a NameNode."""
        self.calls[verb] = self.calls.get(verb, 0) + 1
        if self.pause is not None:
            await self.pause()
        if not self.up:
            raise HdfsFault("no NameNode answers")


class MemoryHdfsFile:
    """`HdfsFile` of a `MemoryHdfs`."""

    def __init__(self, hdfs: MemoryHdfs, inode: MemoryInode, path: str) -> None:
        self._hdfs = hdfs
        self._inode = inode
        self._path = path
        self._pending = b""

    async def write(self, data: bytes) -> None:
        """See `HdfsFile.write`."""
        self._check()
        self._pending += data

    async def hsync(self) -> None:
        """See `HdfsFile.hsync`."""
        await self._hdfs.ask("hsync")
        self._check()
        pending, self._pending = self._pending, b""
        self._hdfs.put(self._inode, pending)
        self._hdfs.sync(self._inode)
        if self._hdfs.lost_replies:
            self._hdfs.lost_replies -= 1
            raise HdfsFault("no answer in time")

    async def close(self) -> None:
        """See `HdfsFile.close`."""
        await self.hsync()
        self._inode.keep(self._inode.synced)

    def drop(self) -> None:
        """See `HdfsFile.drop`."""
        self.vanish(0)

    def vanish(self, unsynced_bytes: int) -> None:
        """The writer is no more; the lease stays."""
        if self._inode.writer is self:
            self._hdfs.put(self._inode, self._pending[:unsynced_bytes])
            self._inode.writer = None

    def _check(self) -> None:
        if self._inode.writer is not self:
            raise LeaseLost(f"{self._path} is no longer ours")


class MemoryHdfsReader:
    """`HdfsReader` of a `MemoryHdfs`."""

    def __init__(self, data: bytes) -> None:
        self.size_bytes = len(data)
        self._data = data

    async def read(self, offset: int, size_bytes: int) -> bytes:
        """See `HdfsReader.read`."""
        if offset + size_bytes > self.size_bytes:
            raise ValueError("beyond the closed blocks")
        return self._data[offset : offset + size_bytes]

"""What the suite of the segments port needs of each adapter: stores, files as dead processes left them, their bytes."""

import contextlib
import getpass
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from limpet.clock import SystemClock
from limpet.runtime import Disk, InlineRunner, Runner, SystemDisk, ThreadRunner
from limpet.segments import SegmentStore
from limpet.segments.full import WriterLimits
from limpet.segments.hdfs import Hdfs, HdfsSegments, HdfsSettings
from limpet.segments.hdfs.native import NativeHdfs
from limpet.segments.hdfs.places import places_of
from limpet.segments.local import LocalSegments
from limpet.testing.disks import FullDisk, MemoryDisk
from limpet.testing.hdfs import MemoryHdfs
from servers import Service

LIMITS = WriterLimits()


class SegmentRig(Protocol):
    """One place for segments, and what processes on it would build."""

    step: int  # bytes between the cuts tried: real disks and servers are slow

    def store(self, limits: WriterLimits = LIMITS) -> SegmentStore:
        """A store as another process would build it."""
        ...

    async def plant(self, entry: str, data: bytes, shorter: int = 0) -> None:
        """A file as a dead process left it. Where replicas can differ, each is `shorter` bytes less than the last."""
        ...

    async def unseal(self, name: str) -> None:
        """Make a sealed segment open again, if it is there."""
        ...

    async def replicas(self, entry: str) -> set[bytes]:
        """What every replica of a file holds."""
        ...

    async def entries(self) -> list[list[str]]:
        """The files there are, directory by directory."""
        ...

    def syncs(self) -> int | None:
        """Group commits so far; None if they are not counted here."""
        ...

    async def close(self) -> None:
        """Let go of what stores hold."""
        ...


class LocalRig:
    """A disk with `replicas` directories."""

    def __init__(self, disk: Disk, folders: Sequence[Path], runner: Runner, step: int) -> None:
        self.disk = disk
        self.folders = folders
        self.runner = runner
        self.step = step
        self._counting = FullDisk(disk, 10**12)

    def store(
        self, limits: WriterLimits = LIMITS, *, disk: Disk | None = None, min_free_bytes: int = 0
    ) -> LocalSegments:
        """See `SegmentRig.store`; `disk` in place of the rig's."""
        return LocalSegments(
            self.folders,
            disk=disk or self._counting,
            runner=self.runner,
            clock=SystemClock(),
            limits=limits,
            min_free_bytes=min_free_bytes,
        )

    async def plant(self, entry: str, data: bytes, shorter: int = 0) -> None:
        """See `SegmentRig.plant`."""
        for number, folder in enumerate(self.folders):
            self.plant_at(folder, entry, data[: len(data) - number * shorter])

    def plant_at(self, folder: Path, entry: str, data: bytes) -> None:
        """In one directory."""
        with contextlib.suppress(FileExistsError):
            self.disk.create(folder / entry).close()
        file = self.disk.reopen(folder / entry)
        assert file is not None
        file.truncate(0)
        file.write(data)
        file.sync()
        file.close()
        self.disk.sync_dir(folder)

    async def unseal(self, name: str) -> None:
        """See `SegmentRig.unseal`."""
        for folder in self.folders:
            with contextlib.suppress(FileNotFoundError):
                self.disk.rename(folder / name, folder / f"{name}.open")

    async def replicas(self, entry: str) -> set[bytes]:
        """See `SegmentRig.replicas`."""
        return {self.disk.read(folder / entry, 0, 10**9) for folder in self.folders}

    async def entries(self) -> list[list[str]]:
        """See `SegmentRig.entries`."""
        return [self.disk.names(folder) for folder in self.folders]

    def syncs(self) -> int | None:
        """See `SegmentRig.syncs`."""
        return self._counting.counts["sync"] // len(self.folders)

    async def close(self) -> None:
        """See `SegmentRig.close`."""


class HdfsRig:
    """A directory of an HDFS, in memory or real. Incarnations live while `alive` holds them."""

    def __init__(self, settings: HdfsSettings, hdfs: Hdfs, step: int) -> None:
        self.settings = settings
        self.hdfs = hdfs
        self.step = step
        self.alive = {"a" * 16, "b" * 16}
        self.alerts: list[tuple[str, str]] = []

    def store(self, limits: WriterLimits = LIMITS) -> HdfsSegments:
        """See `SegmentRig.store`."""

        async def is_alive(incarnation: str) -> bool:
            return incarnation in self.alive

        def alert(kind: str, detail: str) -> None:
            self.alerts.append((kind, detail))

        return HdfsSegments(
            self.hdfs,
            self.settings,
            clock=SystemClock(),
            is_alive=is_alive,
            alert=alert,
            runner=InlineRunner(),
            limits=limits,
        )

    def path(self, entry: str) -> str:
        """Where a file of a segment lies."""
        name, gz, suffix = entry.partition(".gz")
        return places_of(self.settings.root, f"{name}{gz}").sealed + suffix

    async def plant(self, entry: str, data: bytes, shorter: int = 0) -> None:
        """See `SegmentRig.plant`: its writer vanished without closing it."""
        del shorter  # HDFS makes replicas equal
        file = await self.hdfs.create(self.path(entry), overwrite=True)
        await file.write(data)
        await file.hsync()
        file.drop()

    async def unseal(self, name: str) -> None:
        """See `SegmentRig.unseal`."""
        with contextlib.suppress(FileNotFoundError):
            await self.hdfs.rename(self.path(name), self.path(f"{name}.open"))

    async def replicas(self, entry: str) -> set[bytes]:
        """See `SegmentRig.replicas`: through each DataNode that has its last block."""
        path = self.path(entry)
        size_bytes = await self.hdfs.size(path)
        blocks = await self.hdfs.blocks(path, 0, max(1, size_bytes))
        nodes = blocks.blocks[-1].replicas if blocks.blocks else ()
        return {await self.hdfs.tail(path, 0, size_bytes, node) for node in nodes}

    async def entries(self) -> list[list[str]]:
        """See `SegmentRig.entries`."""
        found = await self.hdfs.files(self.settings.root)
        return [sorted(path.rpartition("/")[2] for path in found)]

    def syncs(self) -> int | None:
        """See `SegmentRig.syncs`."""
        calls: dict[str, int] = getattr(self.hdfs, "calls", {})
        return calls.get("hsync")

    async def close(self) -> None:
        """See `SegmentRig.close`."""
        await self.hdfs.close()


@contextlib.contextmanager
def local_rig(kind: str, folder: Path) -> Iterator[LocalRig]:
    """`system-N` below `folder`, or `memory-N`: with N replica directories."""
    kind, _, replicas = kind.partition("-")
    folders = [folder / f"segments-{number}" for number in range(int(replicas))]
    if kind == "memory":
        yield LocalRig(MemoryDisk(), folders, InlineRunner(), 1)
        return
    for one in folders:
        one.mkdir()
    runner = ThreadRunner("segments")
    yield LocalRig(SystemDisk(), folders, runner, 7)
    runner.close()


def memory_hdfs_rig() -> HdfsRig:
    """An HDFS in memory."""
    settings = hdfs_settings("hdfs://memory:8020", "memory:9870", "/crawl/segments")
    return HdfsRig(settings, MemoryHdfs(block_bytes=settings.block_bytes), 1)


def real_hdfs_rig(servers: Service) -> HdfsRig:
    """A new directory on real servers."""
    found = servers.endpoints()
    settings = hdfs_settings(found["namenode"], found["namenode_http"], f"/contract/{secrets.token_hex(8)}")
    return HdfsRig(settings, NativeHdfs(settings), 97)


def hdfs_settings(url: str, namenode_http: str, root: str, block_bytes: int = 1_048_576) -> HdfsSettings:
    """Impatient, so that tests see failures soon."""
    return HdfsSettings(
        url=url,
        namenodes_http=(namenode_http,),
        root=root,
        user=getpass.getuser(),
        block_bytes=block_bytes,
        write_seconds_max=3.0,
        call_seconds_max=3.0,
        read_seconds_max=5.0,
        tail_seconds_max=3.0,
        recover_seconds_max=60.0,
        close_seconds_max=1.0,
        reopen_seconds_max=1.0,
        min_free_bytes=1_000_000,
    )

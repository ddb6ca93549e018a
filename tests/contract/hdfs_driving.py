"""Appending to HDFS while servers die, and the judges of what came of it."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from contract.captures import capture, recover_all, warcinfo
from contract.segment_rigs import HdfsRig
from limpet.clock import SystemClock
from limpet.model.errors import LimpetError
from limpet.reconciler.archive_walk import Archive, Damage, Segment, Walk
from limpet.reconciler.report import Collector
from limpet.reconciler.verify_index import IndexCheck
from limpet.reconciler.verify_records import RecordCheck
from limpet.runtime import InlineRunner, SystemDisk
from limpet.segments import Location, SegmentStore, SegmentsUnavailable, SegmentWriter
from limpet.segments.hdfs import HdfsFault, pull
from limpet.warc.members import inflate
from servers import Node, Service

BODY_REPEATS = 400
READ_SECONDS_MAX = 60.0
MEMBER_BYTES_MAX = 10_000_000
CLOCK = SystemClock()


class Appender:
    """Appends as a crawl node does: one capture after the other in each of `tasks`, again and again until it holds."""

    def __init__(self, writer: SegmentWriter, tasks: int = 8) -> None:
        self.acknowledged: dict[int, list[Location]] = {}
        self.errors: list[LimpetError] = []
        self.slowest_seconds = 0.0
        self._writer = writer
        self._next = 0
        self._over = False
        self._tasks = [asyncio.create_task(self._run()) for _ in range(tasks)]

    async def until(self, count: int, seconds_max: float = 60.0) -> float:
        """Wait for so many more acknowledgements; seconds that took."""
        began, wanted = CLOCK.monotonic(), len(self.acknowledged) + count
        async with asyncio.timeout(seconds_max):
            while len(self.acknowledged) < wanted:
                await CLOCK.sleep(0.02)
        return CLOCK.monotonic() - began

    async def stop(self) -> None:
        """Finish what is being appended."""
        self._over = True
        await asyncio.gather(*self._tasks)

    async def _run(self) -> None:
        while not self._over:
            number, self._next = self._next, self._next + 1
            while not self._over:
                began = CLOCK.monotonic()
                try:
                    self.acknowledged[number] = await self._writer.append(capture(number, BODY_REPEATS))
                    break
                except LimpetError as error:
                    self.errors.append(error)
                    await CLOCK.sleep(0.2)
                finally:
                    self.slowest_seconds = max(self.slowest_seconds, CLOCK.monotonic() - began)


async def appending(rig: HdfsRig, fault: Callable[[Appender], Awaitable[None]]) -> Appender:
    """Appends before, during and after `fault`; then everything acknowledged is read back."""
    await whole_pipelines(rig)
    store = rig.store()
    writer = await store.open_writer("a" * 16, warcinfo)
    appender = Appender(writer)
    try:
        await appender.until(50)
        await fault(appender)
        await appender.until(50)
    finally:
        await appender.stop()
        with contextlib.suppress(LimpetError):
            await writer.close()
    await check_readable(store, appender.acknowledged)
    return appender


async def whole_pipelines(rig: HdfsRig) -> None:
    """Wait until new blocks go to all DataNodes: one that is back is not chosen at once."""
    path = f"{rig.settings.root}/probe"
    async with asyncio.timeout(READ_SECONDS_MAX):
        while True:
            with contextlib.suppress(HdfsFault):
                file = await rig.hdfs.create(path, overwrite=True)
                await file.write(b"x")
                await file.hsync()
                found = await rig.hdfs.blocks(path, 0, 1)
                file.drop()
                await rig.hdfs.delete(path)
                if len(found.blocks[0].replicas) == rig.settings.replication:
                    return
            await CLOCK.sleep(0.5)


async def check_readable(store: SegmentStore, acknowledged: dict[int, list[Location]]) -> None:
    """Every acknowledged member is where it was said to be. Asked for as parsers do: again while servers are down."""
    async with asyncio.timeout(READ_SECONDS_MAX):
        for number, locations in acknowledged.items():
            members = await asyncio.gather(*(insist(store, location) for location in locations))
            wanted = [inflate(member, MEMBER_BYTES_MAX) for member in capture(number, BODY_REPEATS)]
            assert [inflate(member, MEMBER_BYTES_MAX) for member in members] == wanted, number


async def insist(store: SegmentStore, location: Location) -> bytes:
    """Read until the servers answer."""
    while True:
        try:
            return await store.read(location)
        except SegmentsUnavailable:
            await CLOCK.sleep(0.5)


async def settle_all(rig: HdfsRig, folder: Path, acknowledged: dict[int, list[Location]]) -> None:
    """Everybody is dead: recover and seal all, read everything again, pull the segments out, let others judge them."""
    rig.alive.clear()
    store = rig.store()
    async with asyncio.timeout(120):
        while True:
            with contextlib.suppress(LimpetError):
                await recover_all(store)
                break
            await CLOCK.sleep(0.5)
    infos = await store.infos()
    assert all(info.sealed and not info.live for info in infos)
    await check_readable(store, acknowledged)
    pulled = await pull(rig.hdfs, rig.settings.root, folder, disk=SystemDisk(), runner=InlineRunner())
    assert pulled == [info.name for info in infos]
    archive = Archive([folder], SystemDisk())
    segments = archive.segments()
    assert [segment.name for segment in segments] == pulled
    for segment in segments:
        judge(archive, segment)
    await asyncio.to_thread(warcio_accepts, folder)


def warcio_accepts(folder: Path) -> None:
    """`warcio check` of every segment that holds anything."""
    files = sorted(str(path) for path in folder.glob("*.warc.gz") if path.stat().st_size)
    words = [sys.executable, "-m", "warcio.cli", "check", *files]
    checked = subprocess.run(words, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def judge(archive: Archive, segment: Segment) -> None:
    """Every check of records and index that `limpet verify` makes without rows."""
    out, (replica,) = Collector(), segment.replicas
    read, index = archive.reader(segment, replica), archive.index(segment, replica)
    assert segment.sealed
    assert index is not None
    records, lines = RecordCheck(segment.name, read, out), IndexCheck(segment.name, index, out)
    for item in Walk([read], replica.size_bytes, lambda _: None):
        assert not isinstance(item, Damage), item
        records.take(item, None)
        if item.header.type == "response":
            lines.check(item)
    records.interrupt()
    lines.finish()
    report = out.report()
    assert report.ok, report.findings


def pipeline(servers: Service, replicas: tuple[str, ...]) -> list[Node]:
    """The DataNodes of a block being written, the one that we send to first."""
    ports = _connected_ports()
    nodes = [node for node in servers.nodes[1:] if f"{node.host}:{node.ports['http']}" in replicas]
    return sorted(nodes, key=lambda node: node.ports["data"] not in ports)


def _connected_ports() -> set[int]:
    """Remote ports of the connections of this process."""
    inodes = set()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.add(str(link.readlink()))
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return {int(row[2].partition(":")[2], 16) for row in rows if row[3] == "01" and f"socket:[{row[9]}]" in inodes}

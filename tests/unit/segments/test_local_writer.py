"""The writer of local segments where the port leaves freedom: grouping, backpressure, idleness, broken disks."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from limpet.clock import SystemClock
from limpet.model.errors import CannotGoOn
from limpet.runtime import Disk, InlineRunner, Killed, ThreadRunner
from limpet.segments import Location, SegmentFailed
from limpet.segments.full import WriterLimits
from limpet.segments.local import LocalSegments
from limpet.segments.scan import SegmentScan
from limpet.testing.captures import wire_capture
from limpet.testing.disks import DyingDisk, FailingSync, FullDisk, LostReply, MemoryDisk, Operation
from limpet.testing.loop import SimClock, VirtualLoop, run_virtual
from limpet.warc import CaptureMeta, CrawlInfo, capture_members, warcinfo_member

T = TypeVar("T")
FOLDERS = (Path("/one"), Path("/two"), Path("/three"))


def warcinfo(name: str) -> bytes:
    info = CrawlInfo(software="limpet/0", user_agent="limpet/0", crawl="c")
    return warcinfo_member(info, filename=name, at_us=0, token=bytes(16))


def capture(number: int) -> tuple[bytes, ...]:
    return capture_members(
        wire_capture(f"http://example.com/{number}"), CaptureMeta(), "", bytes([number]) * 48
    ).members


class Bench:
    """A store on `disk` under virtual time."""

    def __init__(self, disk: Disk | None = None, *, replicas: int = 1, limits: WriterLimits | None = None) -> None:
        self.disk = disk or MemoryDisk()
        self.loop = VirtualLoop()
        self.clock = SimClock(self.loop)
        self.folders = FOLDERS[:replicas]
        self.store = LocalSegments(
            self.folders,
            disk=self.disk,
            runner=InlineRunner(),
            clock=self.clock,
            limits=limits or WriterLimits(),
            min_free_bytes=0,
        )

    def run(self, main: Callable[[], Awaitable[None]]) -> None:
        async def wrapped() -> None:
            await main()

        run_virtual(wrapped(), self.loop)


def test_idle_segments_are_sealed_by_the_health_check() -> None:
    """A segment that nothing was added to for an hour is sealed; the next append opens another."""
    bench = Bench()

    async def main() -> None:
        writer = await bench.store.open_writer("a", warcinfo)
        first = (await writer.append(capture(1)))[0]
        await bench.clock.sleep(3_599)
        await writer.healthy()
        await bench.clock.sleep(0)
        assert [info.sealed for info in await bench.store.infos()] == [False]
        await bench.clock.sleep(1)
        await writer.healthy()
        await bench.clock.sleep(0)
        assert [info.sealed for info in await bench.store.infos()] == [True]
        second = (await writer.append(capture(2)))[0]
        assert second.segment > first.segment
        await writer.close()

    bench.run(main)


def test_a_full_segment_is_sealed_after_a_while() -> None:
    """It stays open to recovery until what was appended last has had time for its outcome; no more than two wait."""
    bench = Bench(limits=WriterLimits(roll_captures_max=1))

    async def main() -> None:
        writer = await bench.store.open_writer("a", warcinfo)
        for number, sealed in ((1, 0), (2, 0), (3, 0), (4, 1), (5, 2)):
            await writer.append(capture(number))
            await bench.clock.sleep(0)
            infos = await bench.store.infos()
            assert [info.sealed for info in infos] == [True] * sealed + [False] * (number - sealed)
            assert [info.live for info in infos] == [False] * sealed + [True] * (number - sealed)
        await bench.clock.sleep(60)
        await writer.healthy()
        await bench.clock.sleep(0)
        assert [info.sealed for info in await bench.store.infos()] == [True] * 4 + [False]
        await writer.close()
        assert [info.sealed for info in await bench.store.infos()] == [True] * 5

    bench.run(main)


def test_full_segments_by_count() -> None:
    """So many captures fill a segment whatever their size: its index lines are held in memory until the seal."""
    bench = Bench(limits=WriterLimits(roll_captures_max=3))

    async def main() -> None:
        writer = await bench.store.open_writer("a", warcinfo)
        located = await asyncio.gather(*(writer.append(capture(number)) for number in range(8)))
        names = [locations[0].segment for locations in located]
        assert [names.count(name) for name in sorted(set(names))] == [3, 3, 2]
        await writer.close()

    bench.run(main)


class HeldRunner:
    """A runner whose work waits until it is let go: a slow disk."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()

    async def run(self, work: Callable[[], T]) -> T:
        await self.gate.wait()
        return work()

    def close(self) -> None:
        self.gate.set()


def test_the_queue_is_bounded_in_bytes() -> None:
    """Behind a slow disk only so many bytes wait; the others wait outside and all are written in the end."""

    async def main() -> None:
        runner = HeldRunner()
        size = len(b"".join(capture(1)))
        disk = FullDisk(MemoryDisk(), 10**9)
        store = LocalSegments(
            FOLDERS[:1],
            disk=disk,
            runner=runner,
            clock=SimClock(asyncio.get_running_loop()),
            limits=WriterLimits(queue_bytes_max=3 * size + 10),
            min_free_bytes=0,
        )
        writer = await store.open_writer("a", warcinfo)
        runner.gate.clear()
        appends = [asyncio.ensure_future(writer.append(capture(1))) for _ in range(10)]
        for _ in range(20):
            await SimClock(asyncio.get_running_loop()).sleep(0)
        assert writer.queued_bytes == 3 * size
        runner.gate.set()
        assert len({locations[0].offset for locations in await asyncio.gather(*appends)}) == 10
        assert writer.queued_bytes == 0
        assert disk.counts["sync"] >= 3
        await writer.close()

    run_virtual(main(), VirtualLoop())


def test_a_capture_larger_than_the_queue_is_written() -> None:
    """The bound holds back what is more than one capture; it never refuses one."""
    bench = Bench(limits=WriterLimits(queue_bytes_max=10))

    async def main() -> None:
        writer = await bench.store.open_writer("a", warcinfo)
        assert len(await asyncio.gather(*(writer.append(capture(number)) for number in range(5)))) == 5
        await writer.close()

    bench.run(main)


def test_a_cancelled_append_harms_nobody() -> None:
    """Cancelled before its turn it is not written; during the sync it may be; its neighbours are acknowledged."""

    async def main() -> None:
        runner = HeldRunner()
        clock = SimClock(asyncio.get_running_loop())
        store = LocalSegments(FOLDERS[:1], disk=MemoryDisk(), runner=runner, clock=clock, min_free_bytes=0)
        writer = await store.open_writer("a", warcinfo)
        runner.gate.clear()
        appends = [asyncio.ensure_future(writer.append(capture(1)))]
        await clock.sleep(0)
        await clock.sleep(0)
        appends += [asyncio.ensure_future(writer.append(capture(number))) for number in (2, 3, 4)]
        await clock.sleep(0)
        appends[0].cancel()
        appends[2].cancel()
        await clock.sleep(0)
        runner.gate.set()
        results = await asyncio.gather(*appends, return_exceptions=True)
        assert [isinstance(result, asyncio.CancelledError) for result in results] == [True, False, True, False]
        for number, result in ((2, results[1]), (4, results[3])):
            assert isinstance(result, list)
            assert [await store.read(location) for location in result] == list(capture(number))
        await writer.close()
        (info,) = await store.infos()
        uris = [member.header.uri async for member in SegmentScan(store, info.name) if member.header.type == "response"]
        assert uris == ["http://example.com/1", "http://example.com/2", "http://example.com/4"]

    run_virtual(main(), VirtualLoop())


def test_three_failures_in_a_row_are_a_broken_disk() -> None:
    """Segments are not opened for ever on a disk that fails every sync."""

    class NeverSyncs(FailingSync):
        """Every sync fails."""

        def perform(self, operation: Operation, path: Path, effect: Callable[[], T]) -> T:
            self._nth = self.counts["sync"] + 1
            return super().perform(operation, path, effect)

    bench = Bench(NeverSyncs(MemoryDisk(), 1))

    async def main() -> None:
        writer = await bench.store.open_writer("a", warcinfo)
        for _ in range(3):
            await writer.healthy()
            with pytest.raises(SegmentFailed):
                await writer.append(capture(1))
        with pytest.raises(CannotGoOn, match="3 segments failed in a row"):
            await writer.append(capture(1))
        with pytest.raises(CannotGoOn, match="3 segments failed in a row"):
            await writer.healthy()
        assert len(await bench.store.infos()) == 3

    bench.run(main)


def test_a_failed_seal_leaves_the_segment_to_recovery() -> None:
    """A seal is bookkeeping: when it fails at a roll the appends go on, and the segment is named."""
    limits = WriterLimits(roll_captures_max=1, full_seal_seconds=0)
    bench = Bench(LostReply(MemoryDisk(), "rename", 1), limits=limits)

    async def main() -> None:
        writer = await bench.store.open_writer("a", warcinfo)
        first = (await writer.append(capture(1)))[0]
        second = (await writer.append(capture(2)))[0]
        assert writer.left_unsealed == [first.segment]
        infos = {info.name: (info.sealed, info.live) for info in await bench.store.infos()}
        assert infos == {first.segment: (False, False), second.segment: (False, True)}
        assert await bench.store.read(first) == capture(1)[0]
        await writer.close()

    bench.run(main)


def test_a_failed_seal_at_the_end_is_said() -> None:
    """Closing tells that a segment stayed open, and that nothing is lost."""
    bench = Bench(LostReply(MemoryDisk(), "rename", 1))

    async def main() -> None:
        writer = await bench.store.open_writer("a", warcinfo)
        location = (await writer.append(capture(1)))[0]
        with pytest.raises(CannotGoOn, match="nothing is lost"):
            await writer.close()
        assert await bench.store.read(location) == capture(1)[0]

    bench.run(main)


def test_a_lost_directory_cannot_be_gone_on_without() -> None:
    """A replica directory that is not there: refused at the start, unhealthy later, no new segment."""
    disk = MemoryDisk()
    bench = Bench(disk, replicas=2, limits=WriterLimits(roll_captures_max=1))

    async def main() -> None:
        writer = await bench.store.open_writer("a", warcinfo)
        location = (await writer.append(capture(1)))[0]
        disk.lose_dir(FOLDERS[1])
        with pytest.raises(CannotGoOn, match="/two"):
            await writer.healthy()
        with pytest.raises(CannotGoOn, match="cannot open segment"):
            await writer.append(capture(2))
        with pytest.raises(CannotGoOn, match="/two"):
            await bench.store.open_writer("b", warcinfo)
        assert await bench.store.read(location) == capture(1)[0]

    bench.run(main)


def test_death_reaches_everybody() -> None:
    """When the process dies in the writing of a group, all who wait die, and whoever asks afterwards."""
    bench = Bench(DyingDisk(MemoryDisk(), 3, after=False))

    async def main() -> None:
        writer = await bench.store.open_writer("a", warcinfo)
        results = await asyncio.gather(*(writer.append(capture(number)) for number in range(3)), return_exceptions=True)
        assert [type(result) for result in results] == [Killed] * 3
        for late in (lambda: writer.append(capture(1)), writer.healthy):
            with pytest.raises(Killed):
                await late()

    bench.run(main)


def test_members_that_are_no_records_are_kept_and_not_indexed() -> None:
    """The store keeps bytes; what they are is for others to check."""
    bench = Bench(replicas=3)

    async def main() -> None:
        writer = await bench.store.open_writer("a", warcinfo)
        locations = await writer.append([b"no", b"record"])
        assert [await bench.store.read(location) for location in locations] == [b"no", b"record"]
        await writer.close()
        assert bench.disk.read(FOLDERS[0] / f"{locations[0].segment}.cdxj", 0, 100) == b""

    bench.run(main)


def test_damage_in_one_replica_is_read_around_and_healed() -> None:
    """A flipped bit, a short replica, a lost one: reads find the good copy, recovery restores the rest."""
    disk = MemoryDisk()
    bench = Bench(disk, replicas=3)

    async def main() -> None:
        writer = await bench.store.open_writer("a", warcinfo)
        locations = [location for number in range(5) for location in await writer.append(capture(number))]
        await writer.close()
        name = locations[0].segment
        whole = disk.read(FOLDERS[0] / name, 0, 10**6)
        disk.overwrite(FOLDERS[0] / name, locations[0].offset + 50, bytes([whole[locations[0].offset + 50] ^ 1]))
        disk.lose_dir(FOLDERS[1])
        disk.restore_dir(FOLDERS[1])
        short = disk.reopen(FOLDERS[2] / name)
        assert short is not None
        short.truncate(locations[9].offset)
        short.sync()
        short.close()
        read = [await bench.store.read(location) for location in locations]
        assert read == [member for number in range(5) for member in capture(number)]
        scan = SegmentScan(bench.store, name)
        assert len([member async for member in scan]) == 16
        assert (scan.good_bytes, scan.torn) == (len(whole), "")
        assert await bench.store.recover(name, scan.good_bytes)
        disk.power_cut()
        assert {disk.read(path, 0, 10**6) for path in disk.snapshot() if path.suffix != ".cdxj"} == {whole}
        await bench.store.seal(name, b"index\n")
        disk.power_cut()
        assert {disk.read(folder / name, 0, 10**6) for folder in FOLDERS} == {whole}
        assert {disk.read(folder / f"{name}.cdxj", 0, 10**6) for folder in FOLDERS} == {b"index\n"}
        assert {entry.name for entry in disk.snapshot()} == {name, f"{name}.cdxj"}

    bench.run(main)


def test_scanning_sees_what_any_replica_has_whole() -> None:
    """Where replicas differ inside, the scan goes on in the sound one, so that recovery cuts nothing that is good."""
    disk = MemoryDisk()
    bench = Bench(disk, replicas=2)

    async def main() -> None:
        writer = await bench.store.open_writer("a", warcinfo)
        location = (await writer.append(capture(1)))[0]
        await writer.append(capture(2))
        await writer.close()
        whole = disk.read(FOLDERS[0] / location.segment, 0, 10**6)
        disk.overwrite(FOLDERS[0] / location.segment, location.offset + 50, b"\xff\xff")
        scan = SegmentScan(bench.store, location.segment)
        assert len([member async for member in scan]) == 7
        assert scan.good_bytes == len(whole)
        assert await bench.store.recover(location.segment, scan.good_bytes)
        assert disk.read(FOLDERS[0] / location.segment, 0, 10**6) == whole

    bench.run(main)


def test_recovery_needs_the_bytes_somewhere() -> None:
    """No replica long enough: nothing is cut, and the caller is told."""
    bench = Bench(replicas=2)

    async def main() -> None:
        writer = await bench.store.open_writer("a", warcinfo)
        location = (await writer.append(capture(1)))[0]
        await writer.close()
        with pytest.raises(ValueError, match="no replica"):
            await bench.store.recover(location.segment, 10**6)
        assert await bench.store.read(location) == capture(1)[0]

    bench.run(main)


def test_strangers_in_the_directory_are_left_alone() -> None:
    """Only names of our form are segments."""
    disk = MemoryDisk()
    bench = Bench(disk)

    async def main() -> None:
        for name in ("README", "x.warc.gz", "x.warc.gz.open", "lost+found"):
            disk.create(FOLDERS[0] / name).close()
        assert await bench.store.infos() == []
        with pytest.raises(KeyError):
            await bench.store.read(Location("nothing", 0, 1))

    bench.run(main)


@pytest.mark.parametrize("count", [0, 4])
def test_one_to_three_replicas(count: int) -> None:
    """More or fewer directories are a mistake of the caller."""
    with pytest.raises(ValueError, match="replica directories"):
        LocalSegments(
            [Path(str(number)) for number in range(count)],
            disk=MemoryDisk(),
            runner=InlineRunner(),
            clock=SystemClock(),
        )


def test_reads_need_not_wait_behind_a_sync() -> None:
    """With a reader of its own a store reads while the writing runner is busy."""

    async def main() -> None:
        held, reader = HeldRunner(), ThreadRunner("reader")
        clock = SimClock(asyncio.get_running_loop())
        store = LocalSegments(FOLDERS[:1], disk=MemoryDisk(), runner=held, reader=reader, clock=clock, min_free_bytes=0)
        writer = await store.open_writer("a", warcinfo)
        location = (await writer.append(capture(1)))[0]
        held.gate.clear()
        pending = asyncio.ensure_future(writer.append(capture(2)))
        assert await store.read(location) == capture(1)[0]
        assert not pending.done()
        held.gate.set()
        await pending
        await writer.close()
        reader.close()

    asyncio.run(main())

"""The writer of HDFS segments, over the cluster in memory: what counts, what fails, what goes on."""

import asyncio
import random
from collections.abc import Coroutine, Iterator, Sequence

import msgspec
import pytest

from contract.captures import capture, warcinfo
from contract.segment_rigs import HdfsRig, memory_hdfs_rig
from limpet.clock import SystemClock
from limpet.model.errors import CannotGoOn, LimpetError
from limpet.segments import Location, SegmentFailed, SegmentsUnavailable
from limpet.segments.full import WriterLimits
from limpet.segments.hdfs import HdfsSettings
from limpet.segments.hdfs.group import STREAM_SYNC_BYTES
from limpet.segments.hdfs.writer import HdfsSegmentWriter
from limpet.testing.hdfs import MemoryHdfs
from limpet.warc import MemberStream

ME = "a" * 16


class Bench:
    """One writer on a cluster in memory."""

    def __init__(self, limits: WriterLimits | None = None, **settings: object) -> None:
        self.rig: HdfsRig = memory_hdfs_rig()
        self.rig.settings = msgspec.structs.replace(self.rig.settings, reopen_seconds_max=0.05, **settings)
        assert isinstance(self.rig.hdfs, MemoryHdfs)
        self.hdfs: MemoryHdfs = self.rig.hdfs
        self.store = self.rig.store(limits or WriterLimits())

    async def writer(self) -> HdfsSegmentWriter:
        return await self.store.open_writer(ME, warcinfo)

    def path(self, location: Location) -> str:
        return self.rig.path(f"{location.segment}.open")

    @property
    def settings(self) -> HdfsSettings:
        return self.rig.settings

    @property
    def alerts(self) -> list[str]:
        return [kind for kind, _ in self.rig.alerts]


def run(main: Coroutine[None, None, None]) -> None:
    async def guarded() -> None:
        await main
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left behind"

    asyncio.run(guarded())


async def append_until_it_holds(writer: HdfsSegmentWriter, members: Sequence[bytes]) -> list[Location]:
    """As a crawl node does."""
    async with asyncio.timeout(5):
        while True:
            try:
                return await writer.append(members)
            except LimpetError:
                await SystemClock().sleep(0.02)


def test_groups_are_bounded() -> None:
    """No more than 64 appends share a sync."""

    async def main() -> None:
        bench = Bench()
        writer = await bench.writer()
        await asyncio.gather(*(writer.append(capture(number)) for number in range(200)))
        assert bench.hdfs.calls["hsync"] == 4
        await writer.close()

    run(main())


def test_two_of_three_replicas_are_enough() -> None:
    """One DataNode down is fine: a pipeline that was repaired to two acknowledges."""

    async def main() -> None:
        bench = Bench()
        writer = await bench.writer()
        first = await writer.append(capture(1))
        bench.hdfs.repairs = True
        bench.hdfs.kill(1)
        second = await writer.append(capture(2))
        assert second[0].segment == first[0].segment
        await writer.healthy()
        await writer.close()
        assert bench.alerts == []

    run(main())


def test_a_pipeline_of_one_acknowledges_nothing() -> None:
    """The driver goes on with a single DataNode and reports success; by the NameNode's list it does not count."""

    async def main() -> None:
        bench = Bench()
        writer = await bench.writer()
        await writer.append(capture(1))
        bench.hdfs.repairs = True
        bench.hdfs.kill(1)
        bench.hdfs.kill(2)
        with pytest.raises(SegmentFailed, match="1 replicas"):
            await writer.append(capture(2))
        assert bench.alerts == ["replicas_short"]
        with pytest.raises(SegmentsUnavailable, match="1 DataNodes report"):
            await writer.healthy()
        with pytest.raises(SegmentFailed):
            await writer.append(capture(2))  # a new segment fares no better
        with pytest.raises(SegmentsUnavailable, match="no segment can be opened"):
            await writer.append(capture(2))
        bench.hdfs.revive(1)
        await append_until_it_holds(writer, capture(2))
        await writer.healthy()
        await writer.close()

    run(main())


def test_a_broken_pipeline_costs_its_group_only() -> None:
    """The group fails, the next one is in a new segment, the old file is given back with what was acknowledged."""

    async def main() -> None:
        bench = Bench()
        writer = await bench.writer()
        first = await writer.append(capture(1))
        bench.hdfs.kill(1)
        with pytest.raises(SegmentFailed, match="cannot be trusted"):
            await writer.append(capture(2))
        third = await writer.append(capture(3))
        assert third[0].segment != first[0].segment
        await writer.close()
        assert bench.hdfs.inodes[bench.path(first[0])].held is False
        assert [await bench.store.read(location) for location in first] == list(capture(1))
        infos = {info.name: info for info in await bench.store.infos()}
        assert not infos[first[0].segment].sealed
        assert not infos[first[0].segment].live
        assert infos[third[0].segment].sealed

    run(main())


def test_what_cannot_be_opened_is_tried_less_and_less() -> None:
    """DataNodes that the NameNode takes for alive refuse: appends say so at once, nothing piles up, then it goes on."""

    async def main() -> None:
        bench = Bench()
        writer = await bench.writer()
        for number in (1, 2):
            bench.hdfs.kill(number, noticed=False)
        with pytest.raises(SegmentFailed, match="connection refused"):
            await writer.append(capture(1))
        with pytest.raises(SegmentsUnavailable, match="no segment can be opened"):
            await writer.healthy()
        made = bench.hdfs.calls["create"]
        for _ in range(10):
            with pytest.raises(SegmentsUnavailable):
                await writer.append(capture(1))
        assert bench.hdfs.calls["create"] == made
        bench.hdfs.revive(1)
        bench.hdfs.revive(2)
        await append_until_it_holds(writer, capture(1))
        await writer.close()
        entries = await bench.hdfs.files(bench.settings.root)
        assert len(entries) == 2, "a segment and its index: what never held anything is gone"

    run(main())


def test_a_namenode_that_is_down_ends_nothing() -> None:
    """Appends fail while it is down, `healthy` says so, and the same writer goes on when it is back."""

    async def main() -> None:
        bench = Bench()
        writer = await bench.writer()
        first = await writer.append(capture(1))
        bench.hdfs.up = False
        with pytest.raises(SegmentFailed, match="no NameNode answers"):
            await writer.append(capture(2))
        with pytest.raises(SegmentsUnavailable):
            await writer.append(capture(2))
        with pytest.raises(SegmentsUnavailable):
            await writer.healthy()
        bench.hdfs.up = True
        second = await append_until_it_holds(writer, capture(2))
        assert second[0].segment != first[0].segment
        await writer.close()
        assert bench.hdfs.inodes[bench.path(first[0])].held is False

    run(main())


def test_a_start_without_servers_is_refused() -> None:
    """No NameNode, too few DataNodes, or too little room: nothing is promised."""

    async def main() -> None:
        bench = Bench()
        bench.hdfs.up = False
        with pytest.raises(SegmentsUnavailable, match="no NameNode"):
            await bench.writer()
        bench.hdfs.up = True
        bench.hdfs.free_bytes = 10
        with pytest.raises(SegmentsUnavailable, match="10 bytes free"):
            await bench.writer()
        bench.hdfs.kill(1)
        bench.hdfs.kill(2)
        with pytest.raises(SegmentsUnavailable, match="DataNodes report"):
            await bench.writer()

    run(main())


def test_lost_bytes_are_an_alert() -> None:
    """A recovered file that is shorter than what was acknowledged is said aloud."""

    async def main() -> None:
        bench = Bench()
        writer = await bench.writer()
        first = await writer.append(capture(1))
        for block in bench.hdfs.inodes[bench.path(first[0])].blocks:
            del block.data[100:]
        bench.hdfs.kill(1)
        with pytest.raises(SegmentFailed):
            await writer.append(capture(2))
        await writer.close()
        assert bench.alerts == ["acknowledged_lost"]

    run(main())


def test_a_taken_file_ends_the_writer() -> None:
    """Its incarnation is held for dead: nothing is acknowledged any more, in no segment."""

    async def main() -> None:
        bench = Bench()
        writer = await bench.writer()
        first = await writer.append(capture(1))
        bench.rig.alive.clear()
        other = bench.rig.store()
        end = first[2].offset + first[2].length
        assert await other.recover(first[0].segment, end)
        for _ in range(2):
            with pytest.raises(CannotGoOn, match="held for dead"):
                await writer.append(capture(2))
        assert bench.hdfs.inodes[bench.path(first[0])].synced == end
        await writer.close()

    run(main())


def test_a_lease_that_does_not_come_back_is_an_alert() -> None:
    """What HDFS does not give back in time is left to the reconciler, and said."""

    async def main() -> None:
        bench = Bench(recover_seconds_max=0.05, close_seconds_max=2.0)
        bench.hdfs.recovery_polls = 10**6
        writer = await bench.writer()
        await writer.append(capture(1))
        bench.hdfs.kill(1)
        with pytest.raises(SegmentFailed):
            await writer.append(capture(2))
        await writer.close()
        assert bench.alerts == ["lease_not_recovered"]

    run(main())


def test_a_seal_that_fails_leaves_a_whole_segment() -> None:
    """NameNode down at the end: `close` says so, and recovery seals what it finds."""

    async def main() -> None:
        bench = Bench()
        writer = await bench.writer()
        first = await writer.append(capture(1))
        bench.hdfs.up = False
        with pytest.raises(CannotGoOn, match="could not be sealed"):
            await writer.close()
        assert writer.left_unsealed == [first[0].segment]
        bench.hdfs.up = True
        bench.rig.alive.clear()
        store = bench.rig.store()
        assert await store.recover(first[0].segment, first[2].offset + first[2].length)
        await store.seal(first[0].segment, b"index\n")
        assert [info.sealed for info in await store.infos()] == [True]
        assert await store.read(first[1]) == capture(1)[1]

    run(main())


def test_full_segments_are_sealed_later_and_hints_go_with_them() -> None:
    """A full segment stays open until its time; its hints are read by recovery, and gone once it is sealed."""

    async def main() -> None:
        bench = Bench(WriterLimits(roll_captures_max=2, full_seal_seconds=0.05))
        writer = await bench.writer()
        places = [await writer.append(capture(number)) for number in range(3)]
        name = places[0][0].segment
        end = places[1][2].offset + places[1][2].length
        await writer.settle(name, end)
        assert [info.live for info in await bench.store.infos()] == [True, True]
        settled = await bench.store.settled(name)
        assert (settled.offset, settled.lines) == (0, ()), "a living writer's hints are left alone"
        await SystemClock().sleep(0.06)
        await writer.append(capture(4))
        await writer.append(capture(5))
        sealed = {info.name for info in await bench.store.infos() if info.sealed}
        assert name in sealed
        assert bench.rig.path(f"{name}.settled") not in await bench.hdfs.files(bench.settings.root)
        await writer.close()

    run(main())


def test_hints_of_the_dead_are_read() -> None:
    """Recovery begins where the last whole hint says, with the lines of all records before it."""

    async def main() -> None:
        bench = Bench()
        writer = await bench.writer()
        places = [await writer.append(capture(number)) for number in range(3)]
        name = places[0][0].segment
        ends = [place[2].offset + place[2].length for place in places]
        await writer.settle(name, ends[0])
        await writer.settle(name, ends[1])
        bench.hdfs.lose_writer(bench.path(places[0][0]))
        bench.hdfs.lose_writer(bench.rig.path(f"{name}.settled"))
        bench.rig.alive.clear()
        settled = await bench.rig.store().settled(name)
        assert settled.offset == ends[1]
        assert len(settled.lines) == 2
        with pytest.raises(CannotGoOn):
            await writer.append(capture(9))
        await writer.close()

    run(main())


def test_cancelled_appends_are_not_written() -> None:
    """Nobody would ever say where they are."""

    async def main() -> None:
        bench = Bench()
        writer = await bench.writer()
        task = asyncio.ensure_future(writer.append(capture(1)))
        await SystemClock().sleep(0)
        task.cancel()
        await asyncio.wait([task])
        place = (await writer.append(capture(2)))[0]
        assert place.offset == len(warcinfo(place.segment))
        assert writer.queued_bytes == 0
        await writer.close()

    run(main())


def test_backpressure_holds_appends_back() -> None:
    """No more than `queue_bytes_max` is on its way; everything arrives."""

    async def main() -> None:
        size = sum(map(len, capture(1)))
        bench = Bench(WriterLimits(queue_bytes_max=3 * size))
        writer = await bench.writer()
        tasks = [asyncio.ensure_future(writer.append(capture(number))) for number in range(30)]
        await SystemClock().sleep(0)
        assert writer.queued_bytes <= 3 * size
        assert len(await asyncio.gather(*tasks)) == 30
        await writer.close()

    run(main())


def test_a_body_that_cannot_be_read_ends_the_writer() -> None:
    """The disk of this machine fails under a waiting body: no outage of HDFS, nothing to retry."""

    def broken() -> Iterator[bytes]:
        yield b"x" * 100_000
        raise OSError(5, "Input/output error")

    async def main() -> None:
        bench = Bench()
        writer = await bench.writer()
        first = await writer.append(capture(1))
        with pytest.raises(CannotGoOn, match="cannot be read"):
            await writer.append((MemberStream(broken, 10**6), *capture(2)[1:]))
        with pytest.raises(CannotGoOn):
            await writer.append((MemberStream(broken, 10**6), *capture(2)[1:]))
        second = await writer.append(capture(2))
        assert second[0].segment == first[0].segment, "streams go their own way"
        await writer.close()

    run(main())


def test_long_members_are_synced_on_the_way() -> None:
    """DataNodes never hold more than some megabytes unsynced."""

    async def main() -> None:
        bench = Bench(block_bytes=134_217_728)
        writer = await bench.writer()
        noise = random.Random(1).randbytes(1_000_000)
        stream = MemberStream(lambda: iter([noise] * 100), 10**8)
        place = (await writer.append((stream,)))[0]
        assert place.length > 3 * STREAM_SYNC_BYTES - 10_000_000
        assert bench.hdfs.calls["hsync"] == 1 + place.length // STREAM_SYNC_BYTES
        await writer.close()

    run(main())


def test_an_idle_segment_that_lost_replicas_is_given_up() -> None:
    """HDFS replicates closed blocks again, never growing ones: one that has too few left must not wait for appends."""

    async def main() -> None:
        bench = Bench(idle_check_seconds=0.02)
        bench.hdfs.repairs = True
        writer = await bench.writer()
        first = await writer.append(capture(1))
        await SystemClock().sleep(0.03)
        await writer.healthy()
        await SystemClock().sleep(0.03)
        assert bench.hdfs.calls["hsync"] >= 2
        assert bench.hdfs.inodes[bench.path(first[0])].held
        bench.hdfs.kill(1)
        bench.hdfs.kill(2)
        with pytest.raises(SegmentsUnavailable):
            await writer.healthy()
        bench.hdfs.unnoticed.add("datanode-1:9864")
        await SystemClock().sleep(0.03)
        await writer.healthy()
        await SystemClock().sleep(0.05)
        assert not bench.hdfs.inodes[bench.path(first[0])].held
        bench.hdfs.revive(1)
        second = await writer.append(capture(2))
        assert second[0].segment != first[0].segment
        await writer.close()

    run(main())


def test_a_file_taken_between_sync_and_count() -> None:
    """The sync still went through, the file was closed a moment later: not acknowledged, recovery may have cut it."""

    async def main() -> None:
        bench = Bench()
        writer = await bench.writer()
        first = await writer.append(capture(1))
        path = bench.path(first[0])

        async def take() -> None:
            inode = bench.hdfs.inodes[path]
            if inode.synced > first[2].offset + first[2].length:
                inode.keep(inode.synced)

        bench.hdfs.pause = take
        with pytest.raises(CannotGoOn, match="held for dead"):
            await writer.append(capture(2))
        await writer.close()

    run(main())


def test_sealing_leaves_no_file_open() -> None:
    """Segment and index are complete files, which nobody has to take from anybody."""

    async def main() -> None:
        bench = Bench()
        writer = await bench.writer()
        await writer.append(capture(1))
        await writer.close()
        assert len(bench.hdfs.inodes) == 2
        assert not any(inode.held for inode in bench.hdfs.inodes.values())

    run(main())

"""The contract of the segments port, held against every adapter: on every disk, and on HDFS."""

import asyncio
import io
import random
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from contract.captures import capture, recover_all, warcinfo
from contract.segment_rigs import LocalRig, SegmentRig, local_rig, memory_hdfs_rig, real_hdfs_rig
from limpet.model.errors import CannotGoOn, Definite
from limpet.runtime import Disk
from limpet.segments import Location, SegmentFailed, Settling
from limpet.segments.full import FULL_SEGMENTS_MAX, UNSETTLED_SEGMENTS_MAX, WriterLimits
from limpet.segments.scan import SegmentScan
from limpet.testing.captures import wire_capture
from limpet.testing.disks import FailingSync, FullDisk, LostReply, TornAppend
from limpet.warc import (
    CaptureGrouper,
    CaptureMeta,
    MemberStream,
    capture_members,
    capture_of,
    parse_record,
)
from limpet.warc.members import inflate

DISKS = ["system-1", "system-3", "memory-1", "memory-3"]
HDFS = ["hdfs-memory", pytest.param("hdfs-servers", marks=pytest.mark.servers)]


@pytest.fixture(params=DISKS)
def disk_rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalRig]:
    """The local adapter: some rules are about disks."""
    with local_rig(request.param, tmp_path) as found:
        yield found


@pytest.fixture(params=[*DISKS, *HDFS])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SegmentRig]:
    """Every adapter."""
    if request.param == "hdfs-servers":
        yield real_hdfs_rig(request.getfixturevalue("hdfs_servers"))
    elif request.param == "hdfs-memory":
        yield memory_hdfs_rig()
    else:
        with local_rig(request.param, tmp_path) as found:
            yield found


def run(main: Callable[[], Awaitable[None]], rig: SegmentRig) -> None:
    async def guarded() -> None:
        try:
            await main()
        finally:
            await rig.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left behind"

    asyncio.run(guarded())


def test_append_is_contiguous_ordered_and_readable(rig: SegmentRig) -> None:
    """The members of a capture lie one behind the other in one segment, and read back exactly, file still open."""

    async def main() -> None:
        store = rig.store()
        writer = await store.open_writer("a" * 16, warcinfo)
        for number in range(5):
            members = capture(number)
            locations = await writer.append(members)
            assert [await store.read(location) for location in locations] == list(members)
            assert len({location.segment for location in locations}) == 1
            assert [a.offset + a.length for a in locations[:-1]] == [b.offset for b in locations[1:]]
        assert [(info.sealed, info.live) for info in await store.infos()] == [(False, True)]
        await writer.close()

    run(main, rig)


def test_every_replica_is_the_same_file(rig: SegmentRig) -> None:
    """What is acknowledged is in every replica."""

    async def main() -> None:
        store = rig.store()
        writer = await store.open_writer("a" * 16, warcinfo)
        location = (await writer.append(capture(1)))[0]
        (data,) = await rig.replicas(f"{location.segment}.open")
        assert data == warcinfo(location.segment) + b"".join(capture(1))
        await writer.close()
        assert await rig.replicas(location.segment) == {data}

    run(main, rig)


def test_concurrent_appends_share_syncs(rig: SegmentRig) -> None:
    """Appends queued while a sync runs become one group; every one gets its own places."""

    async def main() -> None:
        store = rig.store()
        writer = await store.open_writer("a" * 16, warcinfo)
        results = await asyncio.gather(*(writer.append(capture(number)) for number in range(50)))
        for number, locations in enumerate(results):
            assert [await store.read(location) for location in locations] == list(capture(number))
        assert (rig.syncs() or 0) <= 3
        await writer.close()

    run(main, rig)


def test_segments_roll_between_captures(rig: SegmentRig) -> None:
    """A segment is sealed before it outgrows its limit, never inside a capture; one capture may be longer than it."""

    async def main() -> None:
        store = rig.store(limits=WriterLimits(roll_bytes=4_000))
        writer = await store.open_writer("a" * 16, warcinfo)
        wanted = [capture(number, 40) for number in range(12)] + [capture(99, 4_000)]
        results = await asyncio.gather(*(writer.append(members) for members in wanted))
        await writer.close()
        infos = await store.infos()
        assert all(info.sealed and not info.live for info in infos)
        assert len(infos) > 2
        names = [info.name for info in infos]
        assert names == sorted(names)
        for members, locations in zip(wanted, results, strict=True):
            assert [await store.read(location) for location in locations] == list(members)
            assert len({location.segment for location in locations}) == 1
        big = len(b"".join(wanted[-1]))
        assert all(info.size_bytes <= 4_000 or info.size_bytes < big + 1_000 for info in infos)

    run(main, rig)


def test_large_captures_read_back_wherever_they_end(rig: SegmentRig) -> None:
    """Members across blocks, in closed and in growing ones: all are read exactly, from open and sealed segments."""
    bodies = [random.Random(number).randbytes(size) for number, size in enumerate([300_000, 5, 2_500_000, 600_000, 7])]
    wanted = [
        capture_members(
            wire_capture(f"http://example.com/{number}", b"HTTP/1.1 200 OK\r\n\r\n" + body),
            CaptureMeta(),
            "",
            bytes(47) + bytes([number]),
        ).members
        for number, body in enumerate(bodies)
    ]

    async def main() -> None:
        store = rig.store()
        writer = await store.open_writer("a" * 16, warcinfo)
        results = [await writer.append(members) for members in wanted]
        for _ in range(2):
            for members, locations in zip(wanted, results, strict=True):
                assert await asyncio.gather(*(store.read(location) for location in locations)) == list(members)
            await writer.close()

    run(main, rig)


def test_a_member_that_is_a_stream(rig: SegmentRig) -> None:
    """A response made while it is written lies among the other members like any; its index line is right."""
    body = random.Random(7).randbytes(1_500_000)
    at_hand = capture_members(
        wire_capture("http://example.com/long", b"HTTP/1.1 200 OK\r\n\r\n" + body), CaptureMeta(), "", bytes(48)
    ).members
    content = inflate(at_hand[0], 10**7)
    parts = [content[start : start + 100_000] for start in range(0, len(content), 100_000)]
    stream = MemberStream(lambda: parts, len(content))

    async def main() -> None:
        store = rig.store()
        writer = await store.open_writer("a" * 16, warcinfo)
        results = await asyncio.gather(
            writer.append(capture(1)), writer.append((stream, *at_hand[1:])), writer.append(capture(2))
        )
        wanted = [capture(1), (b"".join(stream.pieces()), *at_hand[1:]), capture(2)]
        for _ in range(2):
            for members, locations in zip(wanted, results, strict=True):
                assert [await store.read(location) for location in locations] == list(members)
                assert [a.offset + a.length for a in locations[:-1]] == [b.offset for b in locations[1:]]
            await writer.close()
        place = results[1][0]
        (index,) = await rig.replicas(f"{place.segment}.cdxj")
        (line,) = [line for line in index.splitlines() if b"com,example)/long " in line]
        assert f'"length":"{place.length}","offset":"{place.offset}"'.encode() in line

    run(main, rig)


def test_sealing_keeps_bytes_and_adds_the_index(rig: SegmentRig) -> None:
    """Closing seals: the name loses `.open`, the CDXJ beside it has a line for each response, reads go on working."""

    async def main() -> None:
        store = rig.store()
        writer = await store.open_writer("a" * 16, warcinfo)
        locations = [(await writer.append(capture(number)))[0] for number in (2, 1)]
        await writer.close()
        await writer.close()
        name = locations[0].segment
        (index,) = await rig.replicas(f"{name}.cdxj")
        lines = index.decode("ascii").splitlines()
        assert [line.split(" ")[0] for line in lines] == ["com,example)/1", "com,example)/2"]
        assert f'"offset":"{locations[1].offset}"' in lines[0]
        for location, number in zip(locations, (2, 1), strict=True):
            assert await store.read(location) == capture(number)[0]
        assert all(entries == sorted([name, f"{name}.cdxj"]) for entries in await rig.entries())
        with pytest.raises(CannotGoOn, match="closed"):
            await writer.append(capture(3))
        with pytest.raises(CannotGoOn, match="closed"):
            await writer.healthy()

    run(main, rig)


def test_an_unused_writer_leaves_nothing(rig: SegmentRig) -> None:
    """The first segment is created at the first append."""

    async def main() -> None:
        store = rig.store()
        writer = await store.open_writer("a" * 16, warcinfo)
        await writer.healthy()
        await writer.close()
        assert await store.infos() == []

    run(main, rig)


def test_warcio_reads_every_record(rig: SegmentRig) -> None:
    """A sealed segment is a WARC file to others: warcinfo first, then each capture's records, digests right."""

    async def main() -> None:
        store = rig.store()
        writer = await store.open_writer("a" * 16, warcinfo)
        for number in range(3):
            await writer.append(capture(number))
        await writer.close()
        (info,) = await store.infos()
        (data,) = await rig.replicas(info.name)
        records = list(ArchiveIterator(io.BytesIO(data), check_digests="raise"))
        assert [record.rec_type for record in records] == ["warcinfo"] + ["response", "request", "metadata"] * 3

    run(main, rig)


def test_reading_what_is_not_there(rig: SegmentRig) -> None:
    """An unknown segment is a KeyError; a known one that is too short is a ValueError."""

    async def main() -> None:
        store = rig.store()
        writer = await store.open_writer("a" * 16, warcinfo)
        location = (await writer.append(capture(1)))[2]
        with pytest.raises(KeyError):
            await store.read(Location("limpet-20270115080000000-00000-b.warc.gz", 0, 10))
        with pytest.raises(KeyError):
            await store.read_raw("limpet-20270115080000000-00000-b.warc.gz", 0, 10)
        with pytest.raises(KeyError):
            await store.recover("limpet-20270115080000000-00000-b.warc.gz", 0)
        with pytest.raises(KeyError):
            await store.seal("limpet-20270115080000000-00000-b.warc.gz", b"")
        with pytest.raises(ValueError, match="no replica"):
            await store.read(Location(location.segment, location.offset, location.length + 1))
        await writer.close()

    run(main, rig)


def test_one_writer_each(rig: SegmentRig) -> None:
    """Two incarnations write two files; a live writer's segment is neither cut nor sealed by anybody else."""

    async def main() -> None:
        store, other = rig.store(), rig.store()
        one, two = await store.open_writer("a" * 16, warcinfo), await other.open_writer("b" * 16, warcinfo)
        first, second = (await one.append(capture(1)))[0], (await two.append(capture(2)))[0]
        assert first.segment != second.segment
        infos = await other.infos()
        assert [info.live for info in infos] == [True, True]
        assert await other.recover(first.segment, 0) is False
        with pytest.raises(Definite, match="still has its writer"):
            await other.seal(first.segment, b"")
        assert await store.read(first) == capture(1)[0]
        await one.close()
        await two.close()

    run(main, rig)


def test_torn_at_every_byte(rig: SegmentRig) -> None:
    """Wherever a dying writer's last capture was torn, recovery keeps all before it, nothing of it, and seals."""

    async def main() -> None:
        whole = [capture(1), capture(2)]
        name = "limpet-20270115080000000-00000-dead.warc.gz"
        kept = warcinfo(name) + b"".join(whole[0])
        data = kept + b"".join(whole[1])
        for cut in range(len(kept), len(data), rig.step):
            await rig.unseal(name)
            await rig.plant(f"{name}.open", data[:cut], shorter=min(7, (cut - len(kept)) // 2))
            store = rig.store()
            await recover_all(store)
            assert await rig.replicas(name) == {kept}, cut
            assert [info.sealed for info in await store.infos()] == [True]
            (index,) = await rig.replicas(f"{name}.cdxj")
            assert index.count(b"\n") == 1

    run(main, rig)


def test_an_orphan_is_adoptable(rig: SegmentRig) -> None:
    """A whole capture that nobody acknowledged survives recovery, and its records alone give its outcome back."""

    async def main() -> None:
        name = "limpet-20270115080000000-00000-dead.warc.gz"
        data = warcinfo(name) + b"".join(capture(7)) + b"".join(capture(8))[:50]
        await rig.plant(f"{name}.open", data, shorter=(len(data) - len(warcinfo(name))) // 2)
        store = rig.store()
        grouper = CaptureGrouper()
        spans = [span async for member in SegmentScan(store, name) if (span := grouper.add(member)) is not None]
        assert await store.recover(name, grouper.whole_bytes)
        (span,) = spans
        records = [
            parse_record(await store.read(Location(name, member.offset, member.length)), block_bytes_max=10**6)
            for member in (span.response, span.metadata)
        ]
        view = capture_of(records)
        assert (view.url, view.status, view.date_us) == ("http://example.com/7", 200, 1_800_000_000_000_007)
        assert view.fields["limpet-fp"] == (7).to_bytes(16, "big").hex()
        assert await rig.replicas(f"{name}.open") == {data[: span.end]}

    run(main, rig)


def test_recovery_twice_is_recovery_once(rig: SegmentRig) -> None:
    """Cutting and sealing again changes nothing."""

    async def main() -> None:
        name = "limpet-20270115080000000-00000-dead.warc.gz"
        kept = warcinfo(name) + b"".join(capture(1))
        await rig.plant(f"{name}.open", kept + b"torn")
        store = rig.store()
        assert await store.recover(name, len(kept))
        assert await store.recover(name, len(kept))
        await store.seal(name, b"index\n")
        await store.seal(name, b"index\n")
        assert await store.recover(name, len(kept))
        assert await rig.replicas(name) == {kept}
        assert await rig.replicas(f"{name}.cdxj") == {b"index\n"}

    run(main, rig)


def test_what_was_cut_is_gone_for_those_who_read_it(rig: SegmentRig) -> None:
    """A store that has read a torn tail reads the end of the segment there once it was cut."""

    async def main() -> None:
        name = "limpet-20270115080000000-00000-dead.warc.gz"
        kept = warcinfo(name) + b"".join(capture(1))
        await rig.plant(f"{name}.open", kept + b"torn")
        store = rig.store()
        assert await store.read_raw(name, 0, len(kept) + 100) == kept + b"torn"
        assert await store.recover(name, len(kept))
        assert await store.read_raw(name, len(kept) - 2, 6) == kept[-2:]
        with pytest.raises(ValueError, match="no replica"):
            await store.read(Location(name, len(kept), 4))

    run(main, rig)


def test_raw_reads_are_short_at_the_end(rig: SegmentRig) -> None:
    """Scanning reads see every byte once and then nothing."""

    async def main() -> None:
        store = rig.store()
        writer = await store.open_writer("a" * 16, warcinfo)
        location = (await writer.append(capture(1)))[2]
        size = location.offset + location.length
        assert len(await store.read_raw(location.segment, 0, size + 100)) == size
        assert await store.read_raw(location.segment, size - 3, 100) == capture(1)[2][-3:]
        assert await store.read_raw(location.segment, size, 100) == b""
        await writer.close()

    run(main, rig)


def test_disk_full_cuts_back_and_goes_on_when_there_is_room(disk_rig: LocalRig) -> None:
    """ENOSPC inside a record: the file ends with its last whole record, the append did not happen, later ones do."""
    full = FullDisk(disk_rig.disk, 3_000 * len(disk_rig.folders))

    async def main() -> None:
        store = disk_rig.store(disk=full)
        writer = await store.open_writer("a" * 16, warcinfo)
        before = await writer.append(capture(1))
        name = before[0].segment
        kept = await disk_rig.replicas(f"{name}.open")
        body = random.Random(1).randbytes(20_000)
        big = capture_members(
            wire_capture("http://example.com/big", b"HTTP/1.1 200 OK\r\n\r\n" + body),
            CaptureMeta(),
            "",
            bytes(48),
        ).members
        with pytest.raises(CannotGoOn, match="disk full"):
            await writer.append(big)
        assert await disk_rig.replicas(f"{name}.open") == kept
        full.add_room(1_000_000)
        after = await writer.append(big)
        assert after[0].segment == name
        assert after[0].offset == before[2].offset + before[2].length
        assert await store.read(after[0]) == big[0]
        await writer.close()

    run(main, disk_rig)


def test_disk_full_at_the_first_record(disk_rig: LocalRig) -> None:
    """With no room for the first record the segment stays empty, and the same one is used when there is room."""
    full = FullDisk(disk_rig.disk, 100)

    async def main() -> None:
        store = disk_rig.store(disk=full)
        writer = await store.open_writer("a" * 16, warcinfo)
        for _ in range(3):
            with pytest.raises(CannotGoOn, match="disk full"):
                await writer.append(capture(1))
        full.add_room(1_000_000)
        location = (await writer.append(capture(1)))[0]
        assert await store.read(location) == capture(1)[0]
        assert location.offset == len(warcinfo(location.segment))
        await writer.close()
        assert len(await store.infos()) == 1

    run(main, disk_rig)


def test_low_on_space_is_refused_at_once(disk_rig: LocalRig) -> None:
    """A start with less than the minimum free is refused; a writer that gets there is no longer healthy."""
    full = FullDisk(disk_rig.disk, 10_000)

    async def main() -> None:
        with pytest.raises(CannotGoOn, match="bytes free"):
            await disk_rig.store(disk=full, min_free_bytes=20_000).open_writer("a" * 16, warcinfo)
        store = disk_rig.store(disk=full, min_free_bytes=9_000)
        writer = await store.open_writer("a" * 16, warcinfo)
        await writer.healthy()
        await writer.append(capture(1))
        with pytest.raises(CannotGoOn, match="bytes free"):
            await writer.healthy()
        await writer.close()

    run(main, disk_rig)


@pytest.mark.parametrize("fault", ["sync", "torn write", "write, reply lost", "sync, reply lost"])
def test_a_failed_append_abandons_its_segment(disk_rig: LocalRig, fault: str) -> None:
    """After any other write or sync error the segment is never touched again; the next append opens a new one.

    What was acknowledged before stays; the capture in doubt is there whole or not at all once recovery has been.
    """
    replicas = len(disk_rig.folders)
    disks: dict[str, Callable[[], Disk]] = {
        "sync": lambda: FailingSync(disk_rig.disk, 2 * replicas),
        "torn write": lambda: TornAppend(disk_rig.disk, 2 * replicas, 100),
        "write, reply lost": lambda: LostReply(disk_rig.disk, "write", 2 * replicas),
        "sync, reply lost": lambda: LostReply(disk_rig.disk, "sync", 2 * replicas),
    }

    async def main() -> None:
        store = disk_rig.store(disk=disks[fault]())
        writer = await store.open_writer("a" * 16, warcinfo)
        first = await writer.append(capture(1))
        with pytest.raises(SegmentFailed):
            await writer.append(capture(2))
        third = await writer.append(capture(3))
        assert third[0].segment != first[0].segment
        await writer.close()
        assert [info.sealed for info in await store.infos()] == [False, True]
        await recover_all(store)
        assert [info.sealed for info in await store.infos()] == [True, True]
        for locations, number in ((first, 1), (third, 3)):
            assert [await store.read(location) for location in locations] == list(capture(number))
        head = warcinfo(first[0].segment) + b"".join(capture(1))
        assert await disk_rig.replicas(first[0].segment) in ({head}, {head + b"".join(capture(2))})

    run(main, disk_rig)


@pytest.mark.parametrize("operation", ["create", "sync_dir"])
def test_a_segment_that_cannot_be_opened(disk_rig: LocalRig, operation: str) -> None:
    """No new segment: `CannotGoOn`, nothing was written, and a later try takes another name."""
    disk = LostReply(disk_rig.disk, "create" if operation == "create" else "sync_dir", 1)

    async def main() -> None:
        store = disk_rig.store(disk=disk)
        writer = await store.open_writer("a" * 16, warcinfo)
        with pytest.raises(CannotGoOn, match="cannot open segment"):
            await writer.append(capture(1))
        location = (await writer.append(capture(1)))[0]
        assert await store.read(location) == capture(1)[0]
        await writer.close()

    run(main, disk_rig)


def test_a_segment_is_sealed_only_when_every_capture_has_its_outcome(rig: SegmentRig) -> None:
    """One whose completion came too late, or never, leaves its segment to recovery, which begins at that capture."""

    async def main() -> None:
        store = rig.store(limits=WriterLimits(roll_captures_max=2))
        settling = Settling()
        writer = await store.open_writer("a" * 16, warcinfo, settling)
        places = [await writer.append(capture(number)) for number in range(5)]
        late = places[3]
        for place in places:
            if place is not late:
                settling.settled(place[0])
        await writer.close()
        infos = {info.name: (info.sealed, info.live) for info in await store.infos()}
        assert infos == {place[0].segment: (place[0].segment != late[0].segment, False) for place in places}
        settled = await store.settled(late[0].segment)
        assert settled.offset == late[0].offset
        assert settling.marks() == {}, "it is the writer's no more"
        await recover_all(store)
        assert all(info.sealed for info in await store.infos())
        assert [await store.read(location) for location in late] == list(capture(3))

    run(main, rig)


def test_full_segments_wait_for_outcomes_and_not_for_ever(rig: SegmentRig) -> None:
    """Too many that are full: those that are settled are sealed, the oldest of many that are not is let go."""

    async def main() -> None:
        store = rig.store(limits=WriterLimits(roll_captures_max=1))
        settling = Settling()
        writer = await store.open_writer("a" * 16, warcinfo, settling)
        names = [(await writer.append(capture(number)))[0].segment for number in range(FULL_SEGMENTS_MAX + 2)]
        assert not any(info.sealed for info in await store.infos())
        settling.settled((await writer.append(capture(98)))[0])
        names += [(await writer.append(capture(number)))[0].segment for number in range(UNSETTLED_SEGMENTS_MAX)]
        await writer.append(capture(99))
        infos = await store.infos()
        assert sum(info.sealed for info in infos) == 1
        assert not next(info.sealed for info in infos if info.name == names[0])
        assert set(settling.marks()) < {info.name for info in infos}
        assert names[0] not in settling.marks()
        await writer.close()

    run(main, rig)

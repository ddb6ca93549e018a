"""The contract of the segments port, held against every adapter on every disk."""

import asyncio
import contextlib
import io
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from limpet.clock import SystemClock
from limpet.model.errors import CannotGoOn, Definite
from limpet.runtime import Disk, InlineRunner, Runner, SystemDisk, ThreadRunner
from limpet.segments import Location, SegmentFailed
from limpet.segments.local import LocalSegments
from limpet.segments.scan import SegmentScan
from limpet.segments.writer import WriterLimits
from limpet.testing.captures import wire_capture
from limpet.testing.disks import FailingSync, FullDisk, LostReply, MemoryDisk, TornAppend
from limpet.warc import (
    CaptureGrouper,
    CaptureMeta,
    CrawlInfo,
    capture_members,
    capture_of,
    index_of,
    line_of,
    parse_record,
    warcinfo_member,
)

INFO = CrawlInfo(software="limpet/0", user_agent="limpet/0 (+https://example.org/)", crawl="c0")
LIMITS = WriterLimits()


def warcinfo(name: str) -> bytes:
    return warcinfo_member(INFO, filename=name, at_us=1_800_000_000_000_000, token=bytes(16))


def capture(number: int, body_bytes: int = 40) -> tuple[bytes, ...]:
    """The members of a capture that `number` alone decides."""
    body = (b"%d " % number) * body_bytes
    wire = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    taken = wire_capture(f"http://example.com/{number}", wire, started_us=1_800_000_000_000_000 + number)
    ids = number.to_bytes(16, "big") + (number + 1000).to_bytes(16, "big") + (number + 2000).to_bytes(16, "big")
    return capture_members(taken, CaptureMeta(fp=number.to_bytes(16, "big")), "", ids).members


class Rig:
    """A disk with `replicas` directories, and what a process on it would build."""

    def __init__(self, disk: Disk, folders: Sequence[Path], runner: Runner, step: int) -> None:
        self.disk = disk
        self.folders = folders
        self.runner = runner
        self.step = step  # bytes between the cuts tried: a real disk is slow

    def store(self, disk: Disk | None = None, limits: WriterLimits = LIMITS, min_free_bytes: int = 0) -> LocalSegments:
        return LocalSegments(
            self.folders,
            disk=disk or self.disk,
            runner=self.runner,
            clock=SystemClock(),
            limits=limits,
            min_free_bytes=min_free_bytes,
        )

    def plant(self, folder: Path, name: str, data: bytes) -> None:
        """A file as a dead process left it."""
        with contextlib.suppress(FileExistsError):
            self.disk.create(folder / name).close()
        file = self.disk.reopen(folder / name)
        assert file is not None
        file.truncate(0)
        file.write(data)
        file.sync()
        file.close()
        self.disk.sync_dir(folder)

    def replicas(self, name: str) -> set[bytes]:
        return {self.disk.read(folder / name, 0, 10**9) for folder in self.folders}


@pytest.fixture(params=["system-1", "system-3", "memory-1", "memory-3"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    kind, _, replicas = request.param.partition("-")
    folders = [tmp_path / f"segments-{number}" for number in range(int(replicas))]
    if kind == "memory":
        yield Rig(MemoryDisk(), folders, InlineRunner(), 1)
        return
    for folder in folders:
        folder.mkdir()
    runner = ThreadRunner("segments")
    yield Rig(SystemDisk(), folders, runner, 7)
    runner.close()


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def guarded() -> None:
        await main()
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left behind"

    asyncio.run(guarded())


async def recover_all(store: LocalSegments) -> None:
    """What a reconciler does with the segments of dead writers."""
    for info in await store.infos():
        if info.live or info.sealed:
            continue
        grouper, lines = CaptureGrouper(), []
        async for member in SegmentScan(store, info.name):
            grouper.add(member)
            lines.append((member.end, line_of(member, info.name)))
        if await store.recover(info.name, grouper.whole_bytes):
            kept = [line for end, line in lines if line is not None and end <= grouper.whole_bytes]
            await store.seal(info.name, index_of(kept))


def test_append_is_contiguous_ordered_and_readable(rig: Rig) -> None:
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

    run(main)


def test_every_replica_is_the_same_file(rig: Rig) -> None:
    """What is acknowledged is in every replica."""

    async def main() -> None:
        store = rig.store()
        writer = await store.open_writer("a" * 16, warcinfo)
        location = (await writer.append(capture(1)))[0]
        (data,) = rig.replicas(f"{location.segment}.open")
        assert data == warcinfo(location.segment) + b"".join(capture(1))
        await writer.close()
        assert rig.replicas(location.segment) == {data}

    run(main)


def test_concurrent_appends_share_syncs(rig: Rig) -> None:
    """Appends queued while a sync runs become one group; every one gets its own places."""
    counting = FullDisk(rig.disk, 10**9)

    async def main() -> None:
        store = rig.store(counting)
        writer = await store.open_writer("a" * 16, warcinfo)
        results = await asyncio.gather(*(writer.append(capture(number)) for number in range(50)))
        for number, locations in enumerate(results):
            assert [await store.read(location) for location in locations] == list(capture(number))
        assert counting.counts["sync"] <= 3 * len(rig.folders)
        await writer.close()

    run(main)


def test_segments_roll_between_captures(rig: Rig) -> None:
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

    run(main)


def test_sealing_keeps_bytes_and_adds_the_index(rig: Rig) -> None:
    """Closing seals: the name loses `.open`, the CDXJ beside it has a line for each response, reads go on working."""

    async def main() -> None:
        store = rig.store()
        writer = await store.open_writer("a" * 16, warcinfo)
        locations = [(await writer.append(capture(number)))[0] for number in (2, 1)]
        await writer.close()
        await writer.close()
        name = locations[0].segment
        (index,) = rig.replicas(f"{name}.cdxj")
        lines = index.decode("ascii").splitlines()
        assert [line.split(" ")[0] for line in lines] == ["com,example)/1", "com,example)/2"]
        assert f'"offset":"{locations[1].offset}"' in lines[0]
        for location, number in zip(locations, (2, 1), strict=True):
            assert await store.read(location) == capture(number)[0]
        for folder in rig.folders:
            assert rig.disk.names(folder) == sorted([name, f"{name}.cdxj"])
        with pytest.raises(CannotGoOn, match="closed"):
            await writer.append(capture(3))
        with pytest.raises(CannotGoOn, match="closed"):
            await writer.healthy()

    run(main)


def test_an_unused_writer_leaves_nothing(rig: Rig) -> None:
    """The first segment is created at the first append."""

    async def main() -> None:
        store = rig.store()
        writer = await store.open_writer("a" * 16, warcinfo)
        await writer.healthy()
        await writer.close()
        assert await store.infos() == []

    run(main)


def test_warcio_reads_every_record(rig: Rig) -> None:
    """A sealed segment is a WARC file to others: warcinfo first, then each capture's records, digests right."""

    async def main() -> None:
        store = rig.store()
        writer = await store.open_writer("a" * 16, warcinfo)
        for number in range(3):
            await writer.append(capture(number))
        await writer.close()
        (info,) = await store.infos()
        (data,) = rig.replicas(info.name)
        records = list(ArchiveIterator(io.BytesIO(data), check_digests="raise"))
        assert [record.rec_type for record in records] == ["warcinfo"] + ["response", "request", "metadata"] * 3

    run(main)


def test_reading_what_is_not_there(rig: Rig) -> None:
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

    run(main)


def test_one_writer_each(rig: Rig) -> None:
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

    run(main)


def test_torn_at_every_byte(rig: Rig) -> None:
    """Wherever a dying writer's last capture was torn, recovery keeps all before it, nothing of it, and seals."""

    async def main() -> None:
        whole = [capture(1), capture(2)]
        name = "limpet-20270115080000000-00000-dead.warc.gz"
        kept = warcinfo(name) + b"".join(whole[0])
        data = kept + b"".join(whole[1])
        for cut in range(len(kept), len(data), rig.step):
            for number, folder in enumerate(rig.folders):
                with contextlib.suppress(FileNotFoundError):
                    rig.disk.rename(folder / name, folder / f"{name}.open")
                rig.plant(folder, f"{name}.open", data[: max(len(kept), cut - 7 * number)])
            store = rig.store()
            await recover_all(store)
            assert rig.replicas(name) == {kept}, cut
            assert [info.sealed for info in await store.infos()] == [True]
            (index,) = rig.replicas(f"{name}.cdxj")
            assert index.count(b"\n") == 1

    run(main)


def test_an_orphan_is_adoptable(rig: Rig) -> None:
    """A whole capture that nobody acknowledged survives recovery, and its records alone give its outcome back."""

    async def main() -> None:
        name = "limpet-20270115080000000-00000-dead.warc.gz"
        data = warcinfo(name) + b"".join(capture(7)) + b"".join(capture(8))[:50]
        rig.plant(rig.folders[0], f"{name}.open", data)
        for folder in rig.folders[1:]:
            rig.plant(folder, f"{name}.open", warcinfo(name))
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
        assert rig.replicas(f"{name}.open") == {data[: span.end]}

    run(main)


def test_recovery_twice_is_recovery_once(rig: Rig) -> None:
    """Cutting and sealing again changes nothing."""

    async def main() -> None:
        name = "limpet-20270115080000000-00000-dead.warc.gz"
        kept = warcinfo(name) + b"".join(capture(1))
        for folder in rig.folders:
            rig.plant(folder, f"{name}.open", kept + b"torn")
        store = rig.store()
        assert await store.recover(name, len(kept))
        assert await store.recover(name, len(kept))
        await store.seal(name, b"index\n")
        await store.seal(name, b"index\n")
        assert await store.recover(name, len(kept))
        assert rig.replicas(name) == {kept}
        assert rig.replicas(f"{name}.cdxj") == {b"index\n"}

    run(main)


def test_raw_reads_are_short_at_the_end(rig: Rig) -> None:
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

    run(main)


def test_disk_full_cuts_back_and_goes_on_when_there_is_room(rig: Rig) -> None:
    """ENOSPC inside a record: the file ends with its last whole record, the append did not happen, later ones do."""
    full = FullDisk(rig.disk, 3_000 * len(rig.folders))

    async def main() -> None:
        store = rig.store(full)
        writer = await store.open_writer("a" * 16, warcinfo)
        before = await writer.append(capture(1))
        name = before[0].segment
        kept = rig.replicas(f"{name}.open")
        body = random.Random(1).randbytes(20_000)
        big = capture_members(
            wire_capture("http://example.com/big", b"HTTP/1.1 200 OK\r\n\r\n" + body),
            CaptureMeta(),
            "",
            bytes(48),
        ).members
        with pytest.raises(CannotGoOn, match="disk full"):
            await writer.append(big)
        assert rig.replicas(f"{name}.open") == kept
        full.add_room(1_000_000)
        after = await writer.append(big)
        assert after[0].segment == name
        assert after[0].offset == before[2].offset + before[2].length
        assert await store.read(after[0]) == big[0]
        await writer.close()

    run(main)


def test_disk_full_at_the_first_record(rig: Rig) -> None:
    """With no room for the first record the segment stays empty, and the same one is used when there is room."""
    full = FullDisk(rig.disk, 100)

    async def main() -> None:
        store = rig.store(full)
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

    run(main)


def test_low_on_space_is_refused_at_once(rig: Rig) -> None:
    """A start with less than the minimum free is refused; a writer that gets there is no longer healthy."""
    full = FullDisk(rig.disk, 10_000)

    async def main() -> None:
        with pytest.raises(CannotGoOn, match="bytes free"):
            await rig.store(full, min_free_bytes=20_000).open_writer("a" * 16, warcinfo)
        store = rig.store(full, min_free_bytes=9_000)
        writer = await store.open_writer("a" * 16, warcinfo)
        await writer.healthy()
        await writer.append(capture(1))
        with pytest.raises(CannotGoOn, match="bytes free"):
            await writer.healthy()
        await writer.close()

    run(main)


@pytest.mark.parametrize("fault", ["sync", "torn write", "write, reply lost", "sync, reply lost"])
def test_a_failed_append_abandons_its_segment(rig: Rig, fault: str) -> None:
    """After any other write or sync error the segment is never touched again; the next append opens a new one.

    What was acknowledged before stays; the capture in doubt is there whole or not at all once recovery has been.
    """
    replicas = len(rig.folders)
    disks: dict[str, Callable[[], Disk]] = {
        "sync": lambda: FailingSync(rig.disk, 2 * replicas),
        "torn write": lambda: TornAppend(rig.disk, 2 * replicas, 100),
        "write, reply lost": lambda: LostReply(rig.disk, "write", 2 * replicas),
        "sync, reply lost": lambda: LostReply(rig.disk, "sync", 2 * replicas),
    }

    async def main() -> None:
        store = rig.store(disks[fault]())
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
        assert rig.replicas(first[0].segment) in ({head}, {head + b"".join(capture(2))})

    run(main)


@pytest.mark.parametrize("operation", ["create", "sync_dir"])
def test_a_segment_that_cannot_be_opened(rig: Rig, operation: str) -> None:
    """No new segment: `CannotGoOn`, nothing was written, and a later try takes another name."""
    disk = LostReply(rig.disk, "create" if operation == "create" else "sync_dir", 1)

    async def main() -> None:
        store = rig.store(disk)
        writer = await store.open_writer("a" * 16, warcinfo)
        with pytest.raises(CannotGoOn, match="cannot open segment"):
            await writer.append(capture(1))
        location = (await writer.append(capture(1)))[0]
        assert await store.read(location) == capture(1)[0]
        await writer.close()

    run(main)

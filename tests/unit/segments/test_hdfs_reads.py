"""Reads of growing HDFS segments: grouped, from a DataNode that answers."""

import asyncio
from pathlib import Path

import pytest

from contract.captures import capture, warcinfo
from contract.segment_rigs import memory_hdfs_rig
from limpet.clock import SystemClock
from limpet.runtime import InlineRunner, SystemDisk
from limpet.segments import SegmentsUnavailable
from limpet.segments.hdfs import pull
from limpet.segments.hdfs.tail import GAP_BYTES_MAX, SPAN_BYTES_MAX, TailReads, ranges
from limpet.segments.local import LocalSegments
from limpet.testing.hdfs import MemoryHdfs


def test_many_records_of_a_tail_are_one_request() -> None:
    """A parser's batch of records that lie near each other costs one request, not one each."""

    async def main() -> None:
        rig = memory_hdfs_rig()
        assert isinstance(rig.hdfs, MemoryHdfs)
        store = rig.store()
        writer = await store.open_writer("a" * 16, warcinfo)
        places = [(await writer.append(capture(number)))[0] for number in range(50)]
        read = await asyncio.gather(*(store.read(place) for place in places))
        assert read == [capture(number)[0] for number in range(50)]
        assert rig.hdfs.calls["tail"] == 1
        await writer.close()

    asyncio.run(main())


def test_a_dead_datanode_is_passed_over_and_avoided() -> None:
    """The next replica answers; the dead one is asked last from then on."""

    async def main() -> None:
        rig = memory_hdfs_rig()
        hdfs = rig.hdfs
        assert isinstance(hdfs, MemoryHdfs)
        file = await hdfs.create("/f")
        await file.write(b"0123456789")
        await file.hsync()
        hdfs.kill(1)
        tails = TailReads(hdfs, SystemClock())
        assert await tails.read("/f", 2, 3) == b"234"
        assert tails.requests == 2
        assert await tails.read("/f", 5, 3) == b"567"
        assert tails.requests == 3
        assert await tails.read("/f", 8, 9) == b"89"
        with pytest.raises(FileNotFoundError):
            await tails.read("/none", 0, 1)

    asyncio.run(main())


def test_no_datanode_is_said_and_not_taken_for_the_end() -> None:
    """Bytes that cannot be read now are no short read."""

    async def main() -> None:
        rig = memory_hdfs_rig()
        hdfs = rig.hdfs
        assert isinstance(hdfs, MemoryHdfs)
        store = rig.store()
        writer = await store.open_writer("a" * 16, warcinfo)
        place = (await writer.append(capture(1)))[0]
        for number in (1, 2, 3):
            hdfs.kill(number)
        with pytest.raises(SegmentsUnavailable):
            await store.read(place)
        hdfs.revive(2)
        assert await store.read(place) == capture(1)[0]
        for number in (1, 3):
            hdfs.revive(number)
        await writer.close()
        assert await store.read(place) == capture(1)[0]

    asyncio.run(main())


def test_ranges_are_joined_within_bounds() -> None:
    """Neighbours share a request, far ones do not, and no request is longer than its bound."""
    assert ranges([(0, 10), (20, 30), (30 + GAP_BYTES_MAX, 40 + GAP_BYTES_MAX)]) == [[0, 1, 2]]
    assert ranges([(0, 10), (11 + GAP_BYTES_MAX, 12 + GAP_BYTES_MAX)]) == [[0], [1]]
    step = GAP_BYTES_MAX // 2
    many = [(number * step, number * step + step) for number in range(3 * SPAN_BYTES_MAX // step)]
    groups = ranges(many)
    assert [index for group in groups for index in group] == list(range(len(many)))
    assert all(many[group[-1]][1] - many[group[0]][0] <= SPAN_BYTES_MAX for group in groups)
    assert ranges([(0, 5 * SPAN_BYTES_MAX)]) == [[0]]


def test_an_archive_is_pulled_as_a_local_one(tmp_path: Path) -> None:
    """Sealed segments with their indexes, byte for byte; what still grows stays where it is."""

    async def main() -> None:
        rig = memory_hdfs_rig()
        one, two = await rig.store().open_writer("a" * 16, warcinfo), await rig.store().open_writer("b" * 16, warcinfo)
        place = (await one.append(capture(1)))[0]
        await one.close()
        await two.append(capture(2))
        for _ in range(2):
            names = await pull(rig.hdfs, rig.settings.root, tmp_path, disk=SystemDisk(), runner=InlineRunner())
            assert names == [place.segment]
        local = LocalSegments([tmp_path], disk=SystemDisk(), runner=InlineRunner(), clock=SystemClock())
        assert await local.read(place) == capture(1)[0]
        assert [info.sealed for info in await local.infos()] == [True]
        assert (tmp_path / f"{place.segment}.cdxj").read_bytes().count(b"\n") == 1
        await two.close()

    asyncio.run(main())

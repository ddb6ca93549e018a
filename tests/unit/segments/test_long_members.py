"""Members that are made while they are written: whole or cut back, indexed, and in nobody's way."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from limpet.clock import SystemClock
from limpet.model.errors import CannotGoOn
from limpet.runtime import Disk, InlineRunner, SystemDisk, ThreadRunner
from limpet.segments import Appendable, SegmentFailed
from limpet.segments.local import LocalSegments
from limpet.testing.captures import wire_capture
from limpet.testing.disks import FailingSync, FullDisk
from limpet.warc import (
    CaptureGrouper,
    CaptureMeta,
    CrawlInfo,
    MemberStream,
    Scanner,
    capture_members,
    warcinfo_member,
)
from limpet.warc.members import inflate

BODY_BYTES = 3_000_000


def warcinfo(name: str) -> bytes:
    info = CrawlInfo(software="limpet/0", user_agent="limpet/0", crawl="c")
    return warcinfo_member(info, filename=name, at_us=0, token=bytes(16))


def capture(number: int, body: bytes = b"<p>x</p>") -> tuple[bytes, ...]:
    wire = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body
    return capture_members(
        wire_capture(f"http://example.com/{number}", wire), CaptureMeta(), "", bytes([number]) * 48
    ).members


def long_capture(number: int, fault: OSError | None = None) -> tuple[tuple[Appendable, ...], bytes]:
    """A capture whose response is a stream, and the content of that member."""
    body = b"".join(b"%09d\n" % (index * 7919 % 10**9) for index in range(BODY_BYTES // 10))
    response, request, metadata = capture(number, body)
    content = inflate(response, 10_000_000)

    def parts() -> Iterator[bytes]:
        for at in range(0, len(content), 100_000):
            if fault is not None and at > 1_000_000:
                raise fault
            yield content[at : at + 100_000]

    return (MemberStream(parts, len(content)), request, metadata), content


def store_of(folders: list[Path], disk: Disk, *, long_runner: ThreadRunner | None = None) -> LocalSegments:
    for folder in folders:
        folder.mkdir(exist_ok=True)
    return LocalSegments(
        folders,
        disk=disk,
        runner=InlineRunner(),
        clock=SystemClock(),
        min_free_bytes=0,
        long_runner=long_runner,
    )


@pytest.mark.parametrize("apart", [False, True])
def test_a_stream_is_a_member_like_any_other(apart: bool, tmp_path: Path) -> None:
    """Contiguous with its capture, readable, the same in each replica, with its index line; before and after others."""

    async def main() -> None:
        folders = [tmp_path / "one", tmp_path / "two"]
        store = store_of(folders, SystemDisk(), long_runner=ThreadRunner("long") if apart else None)
        writer = await store.open_writer("a" * 16, warcinfo)
        before = await writer.append(capture(1))
        members, content = long_capture(2)
        places = await writer.append(members)
        after = await writer.append(capture(3))
        assert inflate(await store.read(places[0]), 10_000_000) == content
        assert [await store.read(place) for place in places[1:]] == list(members[1:])
        assert [a.offset + a.length for a in places[:-1]] == [b.offset for b in places[1:]]
        assert (places[0].segment != before[0].segment) is apart
        assert before[0].segment == after[0].segment
        await writer.close()
        one, two = ((folder / places[0].segment).read_bytes() for folder in folders)
        assert one == two
        lines = "".join(path.read_text() for path in folders[0].glob("*.cdxj"))
        assert f'"length":"{places[0].length}","offset":"{places[0].offset}"' in lines
        scanner, grouper = Scanner(), CaptureGrouper()
        spans = [span for member in scanner.feed(one) if (span := grouper.add(member))]
        assert grouper.whole_bytes == len(one)
        assert places[0].offset in {span.response.offset for span in spans}

    asyncio.run(main())


def test_others_do_not_wait_for_a_long_member(tmp_path: Path) -> None:
    """While a stream is made, slowly, captures are appended and acknowledged, and the writer is healthy."""

    async def main() -> None:
        store = store_of([tmp_path / "s"], SystemDisk(), long_runner=ThreadRunner("long"))
        writer = await store.open_writer("a" * 16, warcinfo)
        loop, gate = asyncio.get_running_loop(), asyncio.Event()

        def parts() -> Iterator[bytes]:
            yield b"x" * 100_000
            asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(20)
            yield b"y" * 100_000

        _, request, metadata = capture(2)
        slow = asyncio.ensure_future(writer.append((MemberStream(parts, 200_000), request, metadata)))
        for number in range(3, 20):
            await writer.append(capture(number))
        await writer.healthy()
        assert not slow.done()
        gate.set()
        place = (await slow)[0]
        assert inflate(await store.read(place), 1_000_000) == b"x" * 100_000 + b"y" * 100_000
        await writer.close()

    asyncio.run(main())


def test_a_disk_that_fills_up_inside_a_stream_is_cut_back(tmp_path: Path) -> None:
    """`CannotGoOn`, the segment ends with the last whole capture, and what was acknowledged stays readable."""

    async def main() -> None:
        store = store_of([tmp_path / "s"], FullDisk(SystemDisk(), 400_000))
        writer = await store.open_writer("a" * 16, warcinfo)
        places = await writer.append(capture(1))
        with pytest.raises(CannotGoOn, match="disk full"):
            await writer.append(long_capture(2)[0])
        whole = warcinfo(places[0].segment) + b"".join(capture(1))
        assert (tmp_path / "s" / f"{places[0].segment}.open").read_bytes() == whole

    asyncio.run(main())


def test_a_spool_that_cannot_be_read_abandons_the_segment(tmp_path: Path) -> None:
    """Part of the member is in the file: nobody may append there, recovery cuts it; the next capture goes elsewhere."""

    async def main() -> None:
        store = store_of([tmp_path / "s"], SystemDisk())
        writer = await store.open_writer("a" * 16, warcinfo)
        first = await writer.append(capture(1))
        with pytest.raises(SegmentFailed):
            await writer.append(long_capture(2, OSError(5, "gone"))[0])
        later = await writer.append(capture(3))
        assert later[0].segment != first[0].segment
        good_bytes = first[-1].offset + first[-1].length
        assert await store.recover(first[0].segment, good_bytes)
        assert [await store.read(place) for place in first] == list(capture(1))
        await writer.close()

    asyncio.run(main())


def test_a_sync_that_fails_inside_a_stream_is_unknown(tmp_path: Path) -> None:
    """After a failed fsync nothing on the file is trusted."""

    async def main() -> None:
        store = store_of([tmp_path / "s"], FailingSync(SystemDisk(), 1))
        writer = await store.open_writer("a" * 16, warcinfo)
        with pytest.raises(SegmentFailed):
            await writer.append(long_capture(2)[0])

    asyncio.run(main())

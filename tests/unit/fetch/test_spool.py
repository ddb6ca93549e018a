"""Large bodies: on disk while they wait for the archive, the same records in the end, and memory that stays flat."""

import asyncio
import gzip
import hashlib
import tracemalloc
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx
import pytest
from msgspec import structs

from limpet.clock import SystemClock
from limpet.fetch import Capture, FetchLimits, FetchRequest, Gate, Owned, Spool, SpoolLimits, WireFetcher
from limpet.fetch.httpx_transport import LimpetTransport
from limpet.model.errors import CannotGoOn
from limpet.runtime import SystemDisk, ThreadRunner
from limpet.segments.local import LocalSegments
from limpet.testing.web import Pause, RawOrigin, StaticResolver, Step
from limpet.warc import (
    CaptureMeta,
    MemberStream,
    Original,
    RecordStream,
    capture_members,
    parse_record,
    revisit_members,
    sha1_b32,
    spooled_members,
)

LoopFactory = Callable[[], asyncio.AbstractEventLoop]
BODY = b"".join(b"<p>line %d of a long page</p>\n" % number for number in range(40_000))
LIMITS = FetchLimits(idle_seconds_max=5.0, wall_seconds_max=20.0, spool_above_bytes=65_536)
PLAIN = [b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(BODY), BODY]
CHUNKED = [
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n",
    *(b"%x;x=y\r\n%b\r\n" % (len(part), part) for part in (BODY[i : i + 50_000] for i in range(0, len(BODY), 50_000))),
    b"0\r\nX-Trailer: 1\r\n\r\n",
]


class Bench:
    """A fetcher with a spool in `folder`."""

    def __init__(self, folder: Path, limits: SpoolLimits | None = None) -> None:
        self.folder = folder
        self.runner = ThreadRunner("spool")
        self.spool = Spool(folder, "me", disk=SystemDisk(), runner=self.runner, limits=limits)
        self.fetcher = WireFetcher(SystemClock(), Gate(Owned.parse(["127.0.0.0/8"])), StaticResolver())
        self.fetcher.spool_into(self.spool)

    async def fetch(self, script: Sequence[Step], limits: FetchLimits = LIMITS) -> Capture:
        async with RawOrigin(script, SystemClock()) as origin:
            return await self.fetcher.fetch(FetchRequest(url=origin.url(), owned=True, limits=limits))


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def run(loop_factory: LoopFactory, work: Callable[[], object]) -> object:
    async def main() -> object:
        result = work()
        return await result if asyncio.iscoroutine(result) else result

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(main())


@pytest.mark.parametrize("script", [PLAIN, CHUNKED], ids=["length", "chunked"])
def test_a_spooled_capture_has_the_records_of_one_in_memory(
    script: Sequence[Step], tmp_path: Path, loop_factory: LoopFactory
) -> None:
    """Digests, block and payload do not depend on where the body waited; releasing leaves nothing."""

    async def main() -> None:
        bench = Bench(tmp_path)
        spooled = await bench.fetch(script)
        whole = await bench.fetch(script, FetchLimits(spool_above_bytes=1 << 30))
        assert spooled.spool is not None
        assert whole.spool is None
        assert b"".join(spooled.spool.block()) == whole.response_bytes
        assert b"".join(spooled.spool.payload()) == whole.payload == BODY
        assert (spooled.wire_bytes, spooled.spool.payload_bytes) == (len(whole.response_bytes), len(BODY))
        assert whole.response_bytes.startswith(spooled.response_bytes)
        assert BODY.startswith(spooled.payload)
        assert len(spooled.payload) <= 4_096
        ours, theirs = (
            make(capture, CaptureMeta(), "", bytes(48))
            for make, capture in ((spooled_members, spooled), (capture_members, whole))
        )
        stream = ours.members[0]
        assert isinstance(stream, MemberStream)
        member = b"".join(stream.pieces())
        assert len(member) <= stream.size_bytes_max
        assert member == b"".join(stream.pieces())
        other = theirs.members[0]
        assert isinstance(other, bytes)
        record, expected = (parse_record(one, block_bytes_max=10_000_000) for one in (member, other))
        assert record.block == expected.block
        assert record.header.get("WARC-Payload-Digest") == expected.header.get("WARC-Payload-Digest")
        assert record.header.get("WARC-Block-Digest") == expected.header.get("WARC-Block-Digest")
        assert ours.payload_sha256_hex == theirs.payload_sha256_hex == hashlib.sha256(BODY).hexdigest()
        await spooled.spool.release()
        await spooled.spool.release()
        assert files(tmp_path) == []
        assert bench.spool.held_bytes == 0

    run(loop_factory, main)


def test_a_body_that_fits_never_touches_the_spool(tmp_path: Path, loop_factory: LoopFactory) -> None:
    """Small pages take the way they always took."""

    async def main() -> None:
        capture = await Bench(tmp_path).fetch([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"])
        assert (capture.spool, capture.payload) == (None, b"hello")
        assert files(tmp_path) == []

    run(loop_factory, main)


@pytest.mark.parametrize(
    ("steps", "limits", "mark"),
    [
        ([], {"body_bytes_max": 900_000}, "length"),
        (["stall"], {"idle_seconds_max": 0.3}, "time"),
        ([], {}, "disconnect"),
    ],
)
def test_a_cut_spooled_body_keeps_what_arrived(
    steps: Sequence[Step], limits: dict[str, float], mark: str, tmp_path: Path, loop_factory: LoopFactory
) -> None:
    """Length, time, disconnect: the mark, and the bytes that came."""

    async def main() -> None:
        chosen = FetchLimits(spool_above_bytes=65_536, **limits)  # type: ignore[arg-type]  # one dict, two types
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n"
        capture = await Bench(tmp_path).fetch([head, BODY, *steps], chosen)
        assert capture.truncated == mark
        assert capture.spool is not None
        expected = BODY[: int(limits.get("body_bytes_max", len(BODY)))]
        assert b"".join(capture.spool.payload()) == expected
        await capture.spool.release()

    run(loop_factory, main)


def test_a_spool_that_is_full_stops_reading_and_the_wall_cuts(tmp_path: Path, loop_factory: LoopFactory) -> None:
    """Its bound holds but for what was in memory; nobody waits for ever."""

    async def main() -> None:
        bench = Bench(tmp_path, SpoolLimits(bytes_max=100_000))
        held = await bench.fetch(PLAIN, FetchLimits(wall_seconds_max=0.5, spool_above_bytes=65_536))
        late = await bench.fetch(PLAIN, FetchLimits(wall_seconds_max=0.5, spool_above_bytes=65_536))
        assert late.truncated == "time"
        assert held.truncated == "time"
        for capture in (held, late):
            assert capture.spool is not None
            assert BODY.startswith(b"".join(capture.spool.payload()))
            await capture.spool.release()
        assert bench.spool.held_bytes == 0

    run(loop_factory, main)


def test_room_that_is_given_back_lets_the_next_body_go_on(tmp_path: Path, loop_factory: LoopFactory) -> None:
    """A body that waits for room is read on when another is released, and comes whole."""

    async def main() -> None:
        bench = Bench(tmp_path, SpoolLimits(bytes_max=2_000_000))
        blocker = bench.spool.open(0, chunked=False)
        await blocker.append(bytes(2_000_000), b"")
        waiting = asyncio.ensure_future(bench.fetch(PLAIN))
        await SystemClock().sleep(0.3)
        assert not waiting.done()
        await blocker.release()
        capture = await waiting
        assert capture.truncated is None
        assert capture.spool is not None
        assert b"".join(capture.spool.payload()) == BODY
        await capture.spool.release()

    run(loop_factory, main)


def test_a_full_disk_is_ours_and_leaves_nothing(tmp_path: Path, loop_factory: LoopFactory) -> None:
    """Below the minimum of free space the fetch raises `CannotGoOn`, as an append would; the file is taken away."""

    async def main() -> None:
        bench = Bench(tmp_path, SpoolLimits(min_free_bytes=1 << 60))
        with pytest.raises(CannotGoOn, match="disk full"):
            await bench.fetch(PLAIN)
        assert files(tmp_path) == []

    run(loop_factory, main)


def test_a_cancelled_fetch_leaves_nothing(tmp_path: Path, loop_factory: LoopFactory) -> None:
    """Cancellation closes the connection and takes the file away."""

    async def main() -> None:
        bench = Bench(tmp_path)
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 90000000\r\n\r\n"
        task = asyncio.ensure_future(bench.fetch([head, BODY, Pause(10)]))
        while not files(tmp_path):
            await SystemClock().sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert files(tmp_path) == []

    run(loop_factory, main)


def test_what_dead_processes_left_is_taken_away(tmp_path: Path) -> None:
    """Files without a living owner go at the next start; those of a living one, and strangers, stay."""

    async def main() -> None:
        mine = Bench(tmp_path)
        alive = mine.spool.open(0, chunked=False)
        await alive.append(b"x", b"")
        (tmp_path / "body-dead-1").write_bytes(b"y")
        (tmp_path / "note").write_bytes(b"z")
        assert await Bench(tmp_path).spool.clean() == 1
        assert files(tmp_path) == ["body-me-1", "note"]
        await alive.release()

    asyncio.run(main())


def test_memory_stays_flat_under_large_bodies_at_once(tmp_path: Path) -> None:
    """Eight bodies of 12 MB, spooled, archived and read again as the parser reads: a few megabytes of memory."""
    size_bytes = 12_000_000
    block = zlib.compress(bytes(100_000), 0)[:100_000]  # any 100 KB

    def script() -> Iterator[Step]:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size_bytes
        for _ in range(size_bytes // len(block)):
            yield block

    async def main() -> int:
        (tmp_path / "segments").mkdir()
        (tmp_path / "spool").mkdir()
        bench = Bench(tmp_path / "spool")
        long = ThreadRunner("long")
        store = LocalSegments(
            [tmp_path / "segments"],
            disk=SystemDisk(),
            runner=ThreadRunner("appends"),
            clock=SystemClock(),
            min_free_bytes=0,
            long_runner=long,
        )
        writer = await store.open_writer("a", lambda _name: gzip.compress(b"warcinfo"))

        async def one(number: int) -> None:
            capture = await bench.fetch(list(script()))
            assert capture.spool is not None
            records = spooled_members(capture, CaptureMeta(), "", bytes([number]) * 48)
            place = (await writer.append(records.members))[0]
            await capture.spool.release()
            stream, offset = RecordStream(1_000_000), place.offset
            while data := await store.read_raw(
                place.segment, offset, min(65_536, place.offset + place.length - offset)
            ):
                offset += len(data)
                stream.feed(data)
            assert stream.done
            assert stream.payload_bytes == size_bytes
            assert stream.payload_sha256_hex == records.payload_sha256_hex

        tracemalloc.start()
        try:
            await asyncio.gather(*(one(number) for number in range(8)))
            peak_bytes = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        await writer.close()
        return peak_bytes

    assert asyncio.run(main()) < 24_000_000  # of 96 MB


def test_httpx_reads_a_spooled_body_and_gives_its_room_back(tmp_path: Path) -> None:
    """The transport streams what is on disk."""

    async def main() -> None:
        bench = Bench(tmp_path)
        async with RawOrigin(PLAIN, SystemClock()) as origin:
            transport = LimpetTransport(bench.fetcher, LIMITS, owned=True)
            async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
                answer = await client.get(origin.url())
        assert answer.content == BODY
        assert files(tmp_path) == []

    asyncio.run(main())


def test_a_spooled_capture_can_be_written_as_a_revisit(tmp_path: Path, loop_factory: LoopFactory) -> None:
    """The digest of all that lies in the spool decides, and the block is the head alone."""

    async def main() -> None:
        bench = Bench(tmp_path)
        spooled = await bench.fetch(CHUNKED)
        assert spooled.spool is not None
        original = Original(
            record_id="<urn:uuid:1>",
            url=spooled.url,
            date_us=1,
            payload_sha1_b32=sha1_b32(BODY),
            payload_sha256_hex=hashlib.sha256(BODY).hexdigest(),
        )
        records = revisit_members(spooled, CaptureMeta(), original, "", bytes(48))
        assert parse_record(records.members[0], block_bytes_max=10_000).block == CHUNKED[0]
        other = structs.replace(original, payload_sha1_b32=sha1_b32(spooled.payload))
        with pytest.raises(ValueError, match="not that of the original"):
            revisit_members(spooled, CaptureMeta(), other, "", bytes(48))
        await spooled.spool.release()

    run(loop_factory, main)

"""Time, size and order: what one exchange may cost, and when the caller hears of it."""

import asyncio
import tracemalloc
from collections.abc import Callable

import pytest

from limpet.clock import SystemClock
from limpet.fetch import Capture, FetchLimits, FetchRequest, Gate, Head, Owned, WireFetcher
from limpet.testing.loop import SimClock, VirtualLoop, run_virtual
from limpet.testing.web import Pause, RawOrigin, StaticResolver

FetchRaw = Callable[..., Capture]
LoopFactory = Callable[[], asyncio.AbstractEventLoop]

B = b"<p>hello</p>"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n"
OPEN_HEAD = b"HTTP/1.1 200 OK\r\n\r\n"
SHORT = FetchLimits(idle_seconds_max=0.2, wall_seconds_max=5.0)


def loopback_fetcher() -> WireFetcher:
    return WireFetcher(SystemClock(), Gate(Owned.parse(["127.0.0.0/8"])), StaticResolver())


async def left_of(origin: RawOrigin) -> int:
    """How many clients have left, once one has; the kernel may take a moment to say so."""
    for _ in range(100):
        if origin.left:
            break
        await SystemClock().sleep(0.02)
    return origin.left


def test_silence_before_the_head_is_a_timeout(fetch_raw: FetchRaw) -> None:
    """Without a head there is no response: failure "timeout", with the bytes that came."""
    for script, received_bytes in ((["stall"], 0), ([b"HTTP/1.1 200 OK\r\nX-", "stall"], 19)):
        capture = fetch_raw(script, limits=SHORT)
        assert capture.failure is not None
        assert (capture.failure.kind, capture.failure.received_bytes) == ("timeout", received_bytes)
        assert 150_000 < capture.duration_us < 4_000_000


def test_silence_after_the_head_cuts_the_body(fetch_raw: FetchRaw) -> None:
    """With a head, what arrived is kept and marked `time`."""
    wire = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + B
    capture = fetch_raw([wire, "stall"], limits=SHORT)
    assert (capture.failure, capture.truncated, capture.response_bytes) == (None, "time", wire)


def test_dripping_bytes_do_not_outlast_the_wall(fetch_raw: FetchRaw) -> None:
    """Slowloris: each byte restarts the idle limit, none the wall limit; header and body alike."""
    limits = FetchLimits(idle_seconds_max=1.0, wall_seconds_max=0.4)
    drip = [step for _ in range(200) for step in (b"a", Pause(0.02))]
    head = fetch_raw([b"HTTP/1.1 200 OK\r\nX-A: ", *drip], limits=limits)
    body = fetch_raw([OPEN_HEAD, *drip], limits=limits)
    assert head.failure is not None
    assert head.failure.kind == "timeout"
    assert body.truncated == "time"
    assert body.payload.startswith(b"aa")
    assert max(head.duration_us, body.duration_us) < 2_000_000


def test_what_drips_is_cut_for_its_pace(fetch_raw: FetchRaw) -> None:
    """The least throughput over a window: in the head a timeout, in the body a mark, long before the wall."""
    limits = FetchLimits(
        idle_seconds_max=5.0, wall_seconds_max=8.0, throughput_bytes_per_second_min=500, throughput_window_seconds=0.4
    )
    drip = [step for _ in range(300) for step in (b"a", Pause(0.02))]
    head = fetch_raw([b"HTTP/1.1 200 OK\r\nX-A: ", *drip], limits=limits)
    body = fetch_raw([OPEN_HEAD + b"b" * 400, *drip], limits=limits)
    assert head.failure is not None
    assert (head.failure.kind, head.failure.detail) == ("timeout", "too little came for too long")
    assert (body.failure, body.truncated) == (None, "time")
    assert body.payload.startswith(b"b" * 400 + b"a")
    assert max(head.duration_us, body.duration_us) < 3_000_000


def test_silence_is_not_a_slow_pace(fetch_raw: FetchRaw) -> None:
    """A server that thinks before it answers, or is late to close, is a matter of the idle limit."""
    limits = FetchLimits(
        idle_seconds_max=5.0, wall_seconds_max=8.0, throughput_bytes_per_second_min=500, throughput_window_seconds=0.2
    )
    for script in ([Pause(0.7), OPEN_HEAD + B], [OPEN_HEAD, Pause(0.7), B, Pause(0.7)]):
        capture = fetch_raw(script, limits=limits)
        assert (capture.failure, capture.truncated, capture.payload) == (None, None, B)


def test_a_fast_body_meets_the_least_throughput(fetch_raw: FetchRaw) -> None:
    """Window after window."""
    limits = FetchLimits(throughput_bytes_per_second_min=10_000, throughput_window_seconds=0.1)
    body = [step for _ in range(30) for step in (b"x" * 2_000, Pause(0.02))]
    capture = fetch_raw([OPEN_HEAD, *body], limits=limits)
    assert (capture.truncated, len(capture.payload)) == (None, 60_000)


def test_noise_is_left_soon(fetch_raw: FetchRaw) -> None:
    """A banner of another protocol, then silence: counted for a second, not for the idle limit."""
    limits = FetchLimits(idle_seconds_max=20.0, wall_seconds_max=20.0)
    capture = fetch_raw([b"SSH-2.0-x\r\n", Pause(0.05), b"yz", "stall"], limits=limits)
    assert capture.failure is not None
    assert (capture.failure.kind, capture.failure.received_bytes) == ("protocol", 13)
    assert capture.duration_us < 3_000_000


@pytest.mark.parametrize("field", [b"", b"Content-Length: 1000000\r\n"])
def test_a_body_limit_keeps_its_worth_and_marks_length(fetch_raw: FetchRaw, field: bytes) -> None:
    """The block is cut at the limit exactly, whichever of the two body limits is smaller."""
    for limits in (FetchLimits(body_bytes_max=1000), FetchLimits(body_in_memory_bytes_max=1000)):
        capture = fetch_raw([b"HTTP/1.1 200 OK\r\n" + field + b"\r\n" + b"x" * 50_000, "stall"], limits=limits)
        assert (capture.truncated, capture.payload) == ("length", b"x" * 1000)
        assert len(capture.response_bytes) == capture.body_offset + 1000


def test_a_body_of_the_limits_size_is_whole(fetch_raw: FetchRaw) -> None:
    """The limit is a maximum, not a trap at equality."""
    for script in ([HEAD + B], [OPEN_HEAD + B], [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"]):
        capture = fetch_raw(script, limits=FetchLimits(body_bytes_max=12))
        assert capture.truncated is None


def test_endless_chunks_stop_at_the_limit(fetch_raw: FetchRaw) -> None:
    """Chunk framing counts as wire bytes: one-byte chunks cannot buy more memory than plain bytes."""
    wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1;ext\r\nx\r\n" * 50_000
    capture = fetch_raw([wire, "stall"], limits=FetchLimits(body_bytes_max=100_000))
    assert capture.truncated == "length"
    assert len(capture.response_bytes) - capture.body_offset == 100_000
    assert capture.payload == b"x" * 10_000


def test_a_flood_leaves_memory_flat(loop_factory: LoopFactory) -> None:
    """64 MB of body, of noise, of header: memory stays near the limits, because nothing beyond them is kept."""
    limits = FetchLimits(body_bytes_max=1_000_000, header_bytes_max=262_144)
    flood = [b"z" * 1_000_000] * 64

    async def main() -> int:
        fetcher, peak = loopback_fetcher(), 0
        for start in (OPEN_HEAD, b"noise", b"HTTP/1.1 200 OK\r\nX-A: "):
            async with RawOrigin([start, *flood], SystemClock()) as origin:
                tracemalloc.start()
                await fetcher.fetch(FetchRequest(url=origin.url(), owned=True, limits=limits))
                peak = max(peak, tracemalloc.get_traced_memory()[1])
                tracemalloc.stop()
        return peak

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(main()) < 12_000_000


def test_the_head_is_told_before_more_of_the_body_is_taken(loop_factory: LoopFactory) -> None:
    """`on_head` runs while the server still holds megabytes that nobody reads: it cannot get rid of them."""
    head = b"HTTP/1.1 429 Slow down\r\nRetry-After: 7\r\nContent-Length: 30000000\r\n\r\n"
    heard: list[tuple[int, bytes | None, int]] = []

    async def main() -> Capture:
        clock = SystemClock()
        async with RawOrigin([head, *[b"x" * 1_000_000] * 30], clock) as origin:

            async def on_head(head: Head) -> None:
                await clock.sleep(0.3)
                heard.append((head.status, head.get(b"retry-after"), origin.sent_bytes))

            limits = FetchLimits(body_in_memory_bytes_max=40_000_000)
            return await loopback_fetcher().fetch(FetchRequest(url=origin.url(), owned=True, limits=limits), on_head)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        capture = runner.run(main())
    assert [(status, wait) for status, wait, _ in heard] == [(429, b"7")]
    assert heard[0][2] < 30_000_000
    assert len(capture.payload) == 30_000_000
    assert capture.truncated is None


@pytest.mark.parametrize("body", [B, b""])
def test_on_head_is_awaited_for_small_answers_too(fetch_raw: FetchRaw, body: bytes) -> None:
    """Once per answer, also when the whole answer came in one piece; never without an answer."""
    heard: list[int] = []

    async def on_head(head: Head) -> None:
        heard.append(head.status)

    fetch_raw([b"HTTP/1.1 503 Busy\r\nContent-Length: %d\r\n\r\n" % len(body) + body], on_head=on_head)
    fetch_raw(
        [b"HTTP/1.1 103 Hints\r\n\r\n", Pause(0.02), b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"], on_head=on_head
    )
    fetch_raw([b"junk"], on_head=on_head)
    fetch_raw([], on_head=on_head)
    assert heard == [503, 200]


def test_a_slow_listener_does_not_use_up_the_idle_limit(fetch_raw: FetchRaw) -> None:
    """The idle limit is the server's; while we hold the head it stands still, and the body is whole."""

    async def on_head(_head: Head) -> None:
        await SystemClock().sleep(0.5)

    capture = fetch_raw([HEAD, Pause(0.05), B], limits=SHORT, on_head=on_head)
    assert (capture.truncated, capture.payload) == (None, B)


def test_the_wall_runs_on_while_the_head_is_heard(fetch_raw: FetchRaw) -> None:
    """A lease is sized by the wall limit, so nothing stretches it: what is there by then is kept and marked."""

    async def on_head(_head: Head) -> None:
        await SystemClock().sleep(0.5)

    limits = FetchLimits(wall_seconds_max=0.2)
    capture = fetch_raw([HEAD, Pause(0.05), B], limits=limits, on_head=on_head)
    assert (capture.truncated, capture.failure) == ("time", None)


def test_what_a_listener_raises_passes_through_and_closes(loop_factory: LoopFactory) -> None:
    """The caller's own error is the caller's; the connection goes with it."""

    async def on_head(_head: Head) -> None:
        raise LookupError("no lease any more")

    async def main() -> int:
        clock = SystemClock()
        async with RawOrigin([HEAD, "stall"], clock) as origin:
            with pytest.raises(LookupError):
                await loopback_fetcher().fetch(FetchRequest(url=origin.url(), owned=True), on_head)
            return await left_of(origin)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(main()) == 1


@pytest.mark.parametrize("script", [["stall"], [HEAD, "stall"]])
def test_cancellation_closes_the_connection_at_once(loop_factory: LoopFactory, script: list[bytes | str]) -> None:
    """A cancelled fetch leaves nothing open, before the head and inside the body."""

    async def main() -> int:
        clock = SystemClock()
        async with RawOrigin(script, clock) as origin:  # type: ignore[arg-type] # literals widen in parametrize
            task = asyncio.ensure_future(loopback_fetcher().fetch(FetchRequest(url=origin.url(), owned=True)))
            await clock.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await left_of(origin)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(main()) == 1


def test_limits_follow_the_loops_clock() -> None:
    """On a loop with virtual time an idle limit of hours passes at once, and the capture's times are virtual too."""
    loop = VirtualLoop()
    clock = SimClock(loop)

    async def main() -> Capture:
        fetcher = WireFetcher(clock, Gate(Owned.parse(["127.0.0.0/8"])), StaticResolver())
        limits = FetchLimits(idle_seconds_max=7200.0, wall_seconds_max=90_000.0, connect_seconds_max=7200.0)
        async with RawOrigin(["stall"], clock) as origin:
            return await fetcher.fetch(FetchRequest(url=origin.url(), owned=True, limits=limits))

    capture = run_virtual(main(), loop)
    assert capture.failure is not None
    assert capture.failure.kind == "timeout"
    assert 7_199_000_000 <= capture.duration_us <= 7_201_000_000

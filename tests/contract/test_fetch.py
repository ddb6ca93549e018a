"""The fetch port's contract, over the wire engine (both event loops, by proxy, with a spool) and over the fake web.

A case says what the origin sends and how it ends; each adapter plays it in its own way. Limits of the wire engine run
in real time and are kept short; the fake web runs on virtual time.
"""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
import pytest
import uvloop

from limpet.clock import SystemClock
from limpet.fetch import (
    Capture,
    FetchLimits,
    FetchRequest,
    Gate,
    Head,
    NetFailure,
    OnHead,
    Owned,
    Spool,
    WireFetcher,
)
from limpet.fetch.proxy import parse_proxy
from limpet.runtime import SystemDisk, ThreadRunner
from limpet.testing.loop import SimClock, VirtualLoop, run_virtual
from limpet.testing.proxy import FakeProxy
from limpet.testing.web import NXDOMAIN, Ending, FakeAnswer, FakeWeb, Pause, RawOrigin, StaticResolver, Step

T = TypeVar("T")

B = b"<p>hello</p>"
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 12\r\n\r\n" + B
QUICK = FetchLimits(idle_seconds_max=0.3, wall_seconds_max=2.0)


class Subject(Protocol):
    """One adapter under test."""

    def fetch(
        self,
        wire: bytes,
        ending: Ending = "close",
        *,
        limits: FetchLimits = QUICK,
        on_head: OnHead | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        times: int = 1,
    ) -> list[Capture]:
        """`times` fetches of one URL whose origin sends `wire` and then ends."""
        ...

    def fetch_nowhere(self, failure: NetFailure) -> Capture:
        """A fetch of a host whose name does not resolve."""
        ...


class Wire:
    """`WireFetcher` against a `RawOrigin`."""

    def __init__(self, loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self._loop_factory = loop_factory

    def fetch(
        self,
        wire: bytes,
        ending: Ending = "close",
        *,
        limits: FetchLimits = QUICK,
        on_head: OnHead | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        times: int = 1,
    ) -> list[Capture]:
        async def main() -> list[Capture]:
            clock = SystemClock()
            fetcher = WireFetcher(clock, Gate(Owned.parse(["127.0.0.0/8"])), StaticResolver())
            async with RawOrigin([wire, ending], clock) as origin:
                request = FetchRequest(url=origin.url("/page?x=1"), owned=True, limits=limits, headers=headers)
                return [await fetcher.fetch(request, on_head) for _ in range(times)]

        return self._run(main())

    def fetch_nowhere(self, failure: NetFailure) -> Capture:
        async def main() -> Capture:
            fetcher = WireFetcher(SystemClock(), Gate(), StaticResolver({"nowhere.test": failure}))
            capture = await fetcher.fetch(FetchRequest(url="http://nowhere.test/"))
            await fetcher.close()
            return capture

        return self._run(main())

    def _run(self, main: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=self._loop_factory) as runner:
            return runner.run(main)


class Proxied(Wire):
    """`WireFetcher` through a proxy."""

    def fetch(
        self,
        wire: bytes,
        ending: Ending = "close",
        *,
        limits: FetchLimits = QUICK,
        on_head: OnHead | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        times: int = 1,
    ) -> list[Capture]:
        async def main() -> list[Capture]:
            clock, gate = SystemClock(), Gate(Owned.parse(["127.0.0.0/8"]))
            async with FakeProxy() as proxy, RawOrigin([wire, ending], clock) as origin:
                fetcher = WireFetcher(clock, gate, StaticResolver(), proxy=parse_proxy(proxy.url))
                request = FetchRequest(url=origin.url("/page?x=1"), owned=True, limits=limits, headers=headers)
                return [await fetcher.fetch(request, on_head) for _ in range(times)]

        return self._run(main())


class Spooled(Wire):
    """`WireFetcher` with a spool, which takes everything that comes in more than one piece."""

    def __init__(self, loop_factory: Callable[[], asyncio.AbstractEventLoop], folder: Path) -> None:
        super().__init__(loop_factory)
        self._folder = folder

    def fetch(
        self,
        wire: bytes,
        ending: Ending = "close",
        *,
        limits: FetchLimits = QUICK,
        on_head: OnHead | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        times: int = 1,
    ) -> list[Capture]:
        async def main() -> list[Capture]:
            clock = SystemClock()
            fetcher = WireFetcher(clock, Gate(Owned.parse(["127.0.0.0/8"])), StaticResolver())
            fetcher.spool_into(Spool(self._folder, "me", disk=SystemDisk(), runner=ThreadRunner("spool")))
            chosen = msgspec.structs.replace(limits, spool_above_bytes=1)
            steps: list[Step] = [wire[:-3], Pause(0.05), wire[-3:], ending] if b"\r\n\r\n" in wire else [wire, ending]
            async with RawOrigin(steps, clock) as origin:
                request = FetchRequest(url=origin.url("/page?x=1"), owned=True, limits=chosen, headers=headers)
                captures = [await fetcher.fetch(request, on_head) for _ in range(times)]
                for capture in captures:
                    if capture.spool is not None:
                        await capture.spool.release()
                return captures

        captures = self._run(main())
        assert not list(self._folder.iterdir())
        return captures


class Fake:
    """`FakeWeb` on virtual time."""

    def fetch(
        self,
        wire: bytes,
        ending: Ending = "close",
        *,
        limits: FetchLimits = QUICK,
        on_head: OnHead | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        times: int = 1,
    ) -> list[Capture]:
        loop = VirtualLoop()
        web = FakeWeb(SimClock(loop))
        web.route("origin.test", FakeAnswer(wire=wire, ending=ending, latency_seconds=0.01))
        request = FetchRequest(url="http://origin.test/page?x=1", limits=limits, headers=headers)

        async def main() -> list[Capture]:
            return [await web.fetch(request, on_head) for _ in range(times)]

        return run_virtual(main(), loop)

    def fetch_nowhere(self, failure: NetFailure) -> Capture:
        loop = VirtualLoop()
        web = FakeWeb(SimClock(loop))
        web.route("nowhere.test", FakeAnswer(failure=failure))
        return run_virtual(web.fetch(FetchRequest(url="http://nowhere.test/")), loop)


@pytest.fixture(params=["wire-asyncio", "wire-uvloop", "proxied", "spooled", "fake"])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    """Each adapter in turn."""
    if request.param == "fake":
        return Fake()
    if request.param == "proxied":
        return Proxied(uvloop.new_event_loop)
    if request.param == "spooled":
        return Spooled(uvloop.new_event_loop, tmp_path)
    return Wire(uvloop.new_event_loop if request.param == "wire-uvloop" else asyncio.new_event_loop)


def consistent(capture: Capture) -> bool:
    """What holds for every capture: failure or head, offsets inside, payload not longer than what came."""
    if capture.failure is not None:
        return capture.head is None and capture.response_bytes == capture.payload == b"" and capture.truncated is None
    body = capture.response_bytes[capture.body_offset :]
    return capture.head is not None and capture.body_offset > 0 and len(capture.payload) <= len(body)


def test_a_plain_answer_is_captured_to_the_byte(subject: Subject) -> None:
    """Block, offset, payload, head, times, addresses."""
    (capture,) = subject.fetch(PLAIN)
    assert consistent(capture)
    assert capture.response_bytes == PLAIN
    assert capture.response_bytes[capture.body_offset :] == capture.payload == B
    assert capture.head == Head(status=200, headers=((b"Content-Type", b"text/html"), (b"Content-Length", b"12")))
    assert capture.truncated is None
    assert capture.remote_ip.count(".") == 3
    assert (capture.protocol, capture.tls) == ("http/1.1", "")
    assert capture.started_us > 1_500_000_000_000_000
    assert 0 < capture.duration_us < 5_000_000


def test_the_request_is_kept_as_sent(subject: Subject) -> None:
    """Request line, Host, the given headers in order, Connection: close, and nothing else."""
    (capture,) = subject.fetch(PLAIN, headers=((b"User-Agent", b"limpet/1 (+x)"), (b"accept-encoding", b"gzip")))
    lines = capture.request_bytes.split(b"\r\n")
    assert lines[0] == b"GET /page?x=1 HTTP/1.1"
    assert lines[1].startswith(b"Host: ")
    assert lines[2:] == [b"User-Agent: limpet/1 (+x)", b"accept-encoding: gzip", b"Connection: close", b"", b""]


@pytest.mark.parametrize(
    ("wire", "ending", "truncated", "payload"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n" + B, "close", None, B),
        (b"HTTP/1.1 200 OK\r\n\r\n" + B, "reset", "disconnect", B),
        (b"HTTP/1.1 200 OK\r\n\r\n" + B, "stall", "time", B),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n" + B, "close", "disconnect", B),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n" + B + b"\r\n", "close", "disconnect", B),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n" + B + b"\r\n0\r\n\r\n", "stall", None, B),
        (b"HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n", "close", None, b""),
    ],
)
def test_how_a_body_ends(subject: Subject, wire: bytes, ending: Ending, truncated: str | None, payload: bytes) -> None:
    """Complete by its framing, or marked with how it was cut; the block is what came."""
    (capture,) = subject.fetch(wire, ending)
    assert consistent(capture)
    assert capture.truncated == truncated
    assert capture.response_bytes == wire
    assert capture.payload == payload


def test_a_body_limit_marks_length(subject: Subject) -> None:
    """The block ends at the limit."""
    limits = FetchLimits(body_bytes_max=5, idle_seconds_max=1.0)
    (capture,) = subject.fetch(PLAIN, limits=limits)
    assert consistent(capture)
    assert (capture.truncated, capture.payload) == ("length", b"<p>he")


@pytest.mark.parametrize(
    ("wire", "ending", "kind", "received_bytes"),
    [
        (b"", "close", "reset", 0),
        (b"moom\n", "close", "protocol", 5),
        (b"", "stall", "timeout", 0),
        (b"HTTP/1.1 200 OK\r\nX: ", "stall", "timeout", 20),
        (b"HTTP/1.1 200 OK\r\nX: ", "close", "reset", 20),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 4000, "stall", "protocol", 4020),
    ],
)
def test_no_answer_is_a_failure(subject: Subject, wire: bytes, ending: Ending, kind: str, received_bytes: int) -> None:
    """No exception, no head, the count of what came all the same."""
    limits = FetchLimits(header_bytes_max=3000, idle_seconds_max=0.3)
    (capture,) = subject.fetch(wire, ending, limits=limits)
    assert consistent(capture)
    assert capture.failure is not None
    assert (capture.failure.kind, capture.failure.received_bytes) == (kind, received_bytes)
    assert capture.request_bytes.startswith(b"GET /page?x=1 ")


@pytest.mark.parametrize("failure", [NXDOMAIN, NetFailure(kind="dns", detail="resolver failure")])
def test_a_name_that_does_not_resolve(subject: Subject, failure: NetFailure) -> None:
    """The resolver's failure is the fetch's; nothing was sent."""
    capture = subject.fetch_nowhere(failure)
    assert consistent(capture)
    assert capture.failure == failure
    assert capture.request_bytes == b""
    assert capture.remote_ip == ""


def test_interim_answers_are_dropped(subject: Subject) -> None:
    """1xx answers are neither head nor block."""
    (capture,) = subject.fetch(b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" + PLAIN)
    assert capture.response_bytes == PLAIN


def test_on_head_hears_the_final_head_once(subject: Subject) -> None:
    """Awaited before `fetch` returns, with the final head; not at all without one."""
    heard: list[Head] = []

    async def on_head(head: Head) -> None:
        heard.append(head)

    (capture,) = subject.fetch(b"HTTP/1.1 103 Early Hints\r\n\r\n" + PLAIN, on_head=on_head)
    assert heard == [capture.head]
    subject.fetch(b"noise", on_head=on_head)
    assert len(heard) == 1


def test_what_on_head_raises_reaches_the_caller(subject: Subject) -> None:
    """The caller's own fault is not turned into a failure of the site."""

    async def on_head(_head: Head) -> None:
        raise LookupError("ours")

    with pytest.raises(LookupError, match="ours"):
        subject.fetch(PLAIN, on_head=on_head)


def test_exchanges_are_independent(subject: Subject) -> None:
    """Bytes after the end of one answer never show up in the next."""
    wire = b"HTTP/1.1 204 No Content\r\n\r\n"
    captures = subject.fetch(wire + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL", times=3)
    assert [capture.response_bytes for capture in captures] == [wire] * 3


@pytest.mark.parametrize("header", [(b"X", b"a\r\nEvil: 1"), (b"Host", b"x")])
def test_headers_cannot_inject(subject: Subject, header: tuple[bytes, bytes]) -> None:
    """Refused before anything is sent."""
    (capture,) = subject.fetch(PLAIN, headers=(header,))
    assert consistent(capture)
    assert capture.failure is not None
    assert (capture.failure.kind, capture.request_bytes) == ("gate", b"")

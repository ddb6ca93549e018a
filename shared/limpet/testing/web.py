"""Webs to rehearse on: `FakeWeb` in memory and virtual time, `RawOrigin` on a loopback socket, `StaticResolver`."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Literal, Self

import msgspec

from limpet.clock import Clock
from limpet.fetch.denylist import packed
from limpet.fetch.gate import bare_host
from limpet.fetch.http1 import Phase, ResponseParser
from limpet.fetch.port import Capture, FetchLimits, FetchRequest, NetFailure, OnHead
from limpet.fetch.resolver import Answer
from limpet.fetch.target import Target, parse_target, request_bytes

NXDOMAIN = NetFailure(kind="dns", detail="NXDOMAIN", nxdomain=True)

Ending = Literal["close", "reset", "stall"]


class FakeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a fake origin does with one request.

    By default it answers `status` with `headers`, a Content-Length unless `headers` frame the body themselves, and
    `body` (in chunks of 4096 when `chunked`). `wire` replaces all of that by bytes of one's own. After
    `sent_body_bytes` of the body as it stands on the wire (None: all of it) the connection ends as `ending` says;
    "stall" keeps it open and silent until a limit of the request ends it. `failure` means that no answer comes at all.
    """

    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""
    chunked: bool = False
    wire: bytes | None = None
    latency_seconds: float = 0.05  # until the head is there
    body_seconds: float = 0.0  # from the head to the end of the body, evenly spread
    sent_body_bytes: int | None = None
    ending: Ending = "close"
    failure: NetFailure | None = None
    remote_ip: str = "192.0.2.1"


Handler = Callable[[FetchRequest, int], FakeAnswer]


class Visit(msgspec.Struct, kw_only=True):
    """One fetch as the fake web saw it. `end_us` stays None when the fetcher died with the connection open."""

    host: str  # without port, as the host keys of politeness are
    url: str
    request: FetchRequest
    start_us: int
    open_before: int  # connections to this host that were open already
    end_us: int | None = None
    status: int | None = None


class FakeWeb:
    """A `Fetcher` without a network: routes answer, the injected clock sleeps, the log tells checkers what was sent.

    Captures are true to the byte: each answer is written out as wire bytes and read by the engine's own parser, under
    the request's limits. The gate is not asked. Names without a route do not exist (NXDOMAIN).
    """

    def __init__(self, clock: Clock) -> None:
        self.log: list[Visit] = []
        self._clock = clock
        self._routes: dict[str, Handler] = {}
        self._known: set[str] = set()  # scheme://authority of the URLs among the routes
        self._open: Counter[str] = Counter()
        self.closed = False

    def route(self, key: str, answer: FakeAnswer | Handler) -> None:
        """Answer `key` (a URL, else an authority `host:port`, else a host; the first that is known decides).

        A host known by URLs only answers 404 to the rest.
        """
        self._routes[key] = answer if callable(answer) else lambda _request, _now_us: answer
        self._known.add("/".join(key.split("/", 3)[:3]))

    async def fetch(self, request: FetchRequest, on_head: OnHead | None = None) -> Capture:
        """See `Fetcher.fetch`."""
        target = parse_target(request.url)
        if isinstance(target, str):
            return Capture(url=request.url, failure=NetFailure(kind="gate", detail=target))
        data = request_bytes(target, request.headers)
        if isinstance(data, str):
            return Capture(url=request.url, failure=NetFailure(kind="gate", detail=data))
        host, now_us = bare_host(target.host), self._clock.wall_us()
        visit = Visit(host=host, url=request.url, request=request, start_us=now_us, open_before=self._open[host])
        self.log.append(visit)
        self._open[host] += 1
        try:
            capture = await self._play(self._answer(request, target, now_us), request, data, on_head)
        finally:
            self._open[host] -= 1
        visit.end_us = self._clock.wall_us()
        visit.status = capture.head.status if capture.head is not None else None
        return capture

    async def close(self) -> None:
        """See `Fetcher.close`."""
        self.closed = True

    def _answer(self, request: FetchRequest, target: Target, now_us: int) -> FakeAnswer:
        for key in (request.url, target.host_header, target.host):
            handler = self._routes.get(key)
            if handler is not None:
                return handler(request, now_us)
        known = f"{target.scheme}://{target.host_header}" in self._known
        return FakeAnswer(status=404) if known else FakeAnswer(failure=NXDOMAIN)

    async def _play(self, answer: FakeAnswer, request: FetchRequest, data: bytes, on_head: OnHead | None) -> Capture:
        started_us, began = self._clock.wall_us(), self._clock.monotonic()
        parser = ResponseParser(request.limits)
        failure = await self._respond(parser, answer, request.limits, on_head)
        block, failed = parser.block(), failure is not None
        return Capture(
            url=request.url,
            request_bytes=b"" if failed else data,
            response_bytes=block,
            body_offset=parser.body_offset,
            payload=parser.payload(block),
            head=parser.head,
            truncated=parser.truncated,
            failure=failure or parser.failure,
            remote_ip="" if failed else answer.remote_ip,
            tls="TLSv1.3" if request.url.startswith("https:") and not failed else "",
            started_us=started_us,
            duration_us=round((self._clock.monotonic() - began) * 1e6),
        )

    async def _respond(
        self,
        parser: ResponseParser,
        answer: FakeAnswer,
        limits: FetchLimits,
        on_head: OnHead | None,
    ) -> NetFailure | None:
        """Feed `parser` along the answer's timetable; the failure when there is no connection at all."""
        patience_seconds = min(limits.idle_seconds_max, limits.wall_seconds_max)
        await self._clock.sleep(min(answer.latency_seconds, patience_seconds))
        if answer.failure is not None:
            return answer.failure
        if answer.latency_seconds > patience_seconds:
            parser.give_up("nothing came for too long")
            return None
        head, body = wire_of(answer)
        parser.feed(head)
        if parser.head is not None and on_head is not None:
            await on_head(parser.head)
        await self._send_body(parser, answer, body, limits)
        return None

    async def _send_body(self, parser: ResponseParser, answer: FakeAnswer, body: bytes, limits: FetchLimits) -> None:
        left_seconds = limits.wall_seconds_max - answer.latency_seconds
        if answer.body_seconds > left_seconds:
            await self._clock.sleep(left_seconds)
            parser.feed(body[: int(len(body) * left_seconds / answer.body_seconds)])
            parser.give_up("the time for the whole exchange ran out")
            return
        if answer.body_seconds:
            await self._clock.sleep(answer.body_seconds)
        parser.feed(body)
        if answer.ending == "stall" and parser.phase is not Phase.DONE:
            await self._clock.sleep(min(limits.idle_seconds_max, left_seconds - answer.body_seconds))
            parser.give_up("nothing came for too long")
        parser.end_of_stream(reset=answer.ending == "reset")


def wire_of(answer: FakeAnswer) -> tuple[bytes, bytes]:
    """An answer's bytes up to the end of the final head, and those of its body that get sent."""
    if answer.wire is None:
        head, body = _head_bytes(answer), _chunks(answer.body) if answer.chunked else answer.body
    else:
        probe = ResponseParser(FetchLimits())
        probe.feed(answer.wire)
        last_head = probe.block()[: probe.body_offset]
        cut = answer.wire.index(last_head) + len(last_head) if last_head else len(answer.wire)
        head, body = answer.wire[:cut], answer.wire[cut:]
    return head, body if answer.sent_body_bytes is None else body[: answer.sent_body_bytes]


def _head_bytes(answer: FakeAnswer) -> bytes:
    known = {status.value: status.phrase for status in HTTPStatus}
    lines = [f"HTTP/1.1 {answer.status} {known.get(answer.status, '')}".encode("ascii")]
    lines += [name + b": " + value for name, value in answer.headers]
    framed = {name.lower() for name, _ in answer.headers} & {b"content-length", b"transfer-encoding"}
    if answer.chunked:
        lines.append(b"Transfer-Encoding: chunked")
    elif not framed and answer.status not in {204, 304}:
        lines.append(b"Content-Length: %d" % len(answer.body))
    return b"\r\n".join([*lines, b"", b""])


def _chunks(body: bytes, size_bytes: int = 4096) -> bytes:
    parts = [body[start : start + size_bytes] for start in range(0, len(body), size_bytes)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


class StaticResolver:
    """A `Resolver` that answers from `answers`, which a test may change as it goes; other names do not exist."""

    def __init__(self, answers: Mapping[str, Sequence[str] | NetFailure] | None = None) -> None:
        self.answers = dict(answers or {})
        self.asked: list[str] = []
        self.closed = False

    async def resolve(self, host: str) -> Answer | NetFailure:
        """See `Resolver.resolve`."""
        name = bare_host(host)
        if packed(name) is not None:
            return Answer(addresses=(name,))
        self.asked.append(name)
        found = self.answers.get(name, NXDOMAIN)
        return found if isinstance(found, NetFailure) else Answer(addresses=tuple(found))

    async def close(self) -> None:
        """See `Resolver.close`."""
        self.closed = True


class Pause(msgspec.Struct, frozen=True):
    """A step of a script: wait."""

    seconds: float


Step = bytes | Pause | Ending | Literal["abort"]
"""A step of a script: send bytes, wait, or end: "close" (in order, with TLS close_notify), "abort" (FIN without
close_notify), "reset" (RST), "stall" (say nothing until the client leaves)."""

Script = Callable[[bytes], Sequence[Step]]


class RawOrigin:
    """A server on loopback that reads a request head and then plays a script, byte for byte. Use as `async with`.

    `requests` holds the heads received, `connections` counts accepts (also those that never sent a byte), `left` the
    connections that the client has closed, `sent_bytes` what the kernel has taken,
    `received_bytes` what clients have said, complete request or not.
    """

    def __init__(
        self,
        script: Sequence[Step] | Script,
        clock: Clock,
        *,
        host: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
        port: int = 0,
    ) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.left = 0
        self.sent_bytes = 0
        self.received_bytes = 0
        self.port = port  # 0 until one is taken
        self._script: Script = script if callable(script) else lambda _request: script
        self._clock, self._host, self._tls = clock, host, tls
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self._host, self.port, ssl=self._tls, limit=2**20)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_exc: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._clock.sleep(0)  # lets closed transports leave the loop

    def url(self, path: str = "/", host: str | None = None) -> str:
        """A URL of this server."""
        shown = host or (f"[{self._host}]" if ":" in self._host else self._host)
        return f"{'https' if self._tls else 'http'}://{shown}:{self.port}{path}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._tls is None:  # uvloop's TLS transport never comes back from a limit of 0
            writer.transport.set_write_buffer_limits(0)  # drain() then waits until everything is with the kernel
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                request = await self._read_head(reader)
                self.requests.append(request)
                for step in self._script(request):
                    await self._play(step, reader, writer)
        finally:
            writer.close()

    async def _read_head(self, reader: asyncio.StreamReader) -> bytes:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += await reader.readexactly(1)
            self.received_bytes += 1
        return head

    async def _play(self, step: Step, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        match step:
            case bytes():
                writer.write(step)
                await writer.drain()
                self.sent_bytes += len(step)
            case Pause():
                await self._clock.sleep(step.seconds)
            case "close":
                writer.close()
            case "abort":
                await self._clock.sleep(0.01)  # what was written leaves first
                writer.transport.abort()
            case "reset":
                await self._clock.sleep(0.01)
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                writer.transport.abort()
            case "stall":
                await reader.read()
                self.left += 1

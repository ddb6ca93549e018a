"""TLS: verified, named, and forgiving where browsers are (bug-report case G11).

The certificates beside this file are self-signed with openssl, valid from 2020 to 2120: `localhost.pem` for localhost
and 127.0.0.1, `other.pem` for other.test. Their keys protect nothing.
"""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import pytest

from limpet.clock import SystemClock
from limpet.fetch import Capture, FetchLimits, FetchRequest, Gate, Owned, WireFetcher, default_ssl_context
from limpet.testing.web import Pause, RawOrigin, StaticResolver, Step

LoopFactory = Callable[[], asyncio.AbstractEventLoop]

CERTS = Path(__file__).parent / "certs"
B = b"<p>hello</p>"
OPEN = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + B
WITH_LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n" + B


def server_context(certificate: str = "localhost.pem") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / certificate)
    return context


def trusting(certificate: str = "localhost.pem") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(CERTS / certificate))
    context.set_alpn_protocols(["http/1.1"])
    return context


async def fetch_tls(
    script: Sequence[Step],
    *,
    server: ssl.SSLContext | None = None,
    client: ssl.SSLContext | None = None,
    host: str = "localhost",
    limits: FetchLimits | None = None,
) -> tuple[Capture, int]:
    """One exchange, and how many TCP connections it took."""
    clock = SystemClock()
    resolver = StaticResolver({"localhost": ["127.0.0.1"], "localhost.": ["127.0.0.1"], "wrong.test": ["127.0.0.1"]})
    fetcher = WireFetcher(clock, Gate(Owned.parse(["127.0.0.0/8"])), resolver, client or trusting())
    async with RawOrigin(script, clock, tls=server or server_context()) as origin:
        url = origin.url(host=host)
        capture = await fetcher.fetch(
            FetchRequest(url=url, owned=True, limits=limits or FetchLimits(idle_seconds_max=2.0))
        )
        return capture, origin.connections


def run(loop_factory: LoopFactory, script: Sequence[Step], **options: ssl.SSLContext | str | FetchLimits) -> Capture:
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(fetch_tls(script, **options))[0]  # type: ignore[arg-type] # passed on as they are


@pytest.mark.parametrize("ending", ["close", "abort"])
@pytest.mark.parametrize("wire", [OPEN, WITH_LENGTH])
def test_an_end_without_close_notify_is_an_end(loop_factory: LoopFactory, wire: bytes, ending: Step) -> None:
    """G11 a, b: with a length or without, a connection that just closes leaves a plain success."""
    capture = run(loop_factory, [wire, ending])
    assert (capture.failure, capture.truncated) == (None, None)
    assert capture.response_bytes == wire
    assert capture.payload == B
    assert capture.tls == "TLSv1.3"
    assert capture.remote_ip == "127.0.0.1"


def test_a_short_body_shows_also_without_close_notify(loop_factory: LoopFactory) -> None:
    """RFC 9112 §9.8: an attacker can end the connection, so the framing decides what is complete."""
    capture = run(loop_factory, [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + B, "abort"])
    assert (capture.truncated, capture.payload) == ("disconnect", B)


@pytest.mark.parametrize("ending", ["close", "abort"])
@pytest.mark.parametrize("repeat", [1, 1000, 100_000])
def test_a_body_held_at_its_head_is_whole(loop_factory: LoopFactory, repeat: int, ending: Step) -> None:
    """Holding a TLS connection loses neither what was decrypted already, nor what came with the end meanwhile."""
    head, body = b"HTTP/1.1 200 OK\r\n\r\n", B * repeat

    async def main() -> Capture:
        clock = SystemClock()
        gate, resolver = Gate(Owned.parse(["127.0.0.0/8"])), StaticResolver({"localhost": ["127.0.0.1"]})
        fetcher = WireFetcher(clock, gate, resolver, trusting())
        async with RawOrigin([head, Pause(0.05), body, Pause(0.05), ending], clock, tls=server_context()) as origin:
            request = FetchRequest(url=origin.url(host="localhost"), owned=True)
            return await fetcher.fetch(request, lambda _head: clock.sleep(0.3))

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        capture = runner.run(main())
    assert (capture.truncated, capture.failure) == (None, None)
    assert len(capture.payload) == len(body)
    assert capture.response_bytes == head + body


def test_what_came_with_the_head_is_read_after_the_hold(loop_factory: LoopFactory) -> None:
    """Records that were there before the hold are read at its end, without waiting for the network to stir again."""
    wire = b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n" + B * 5000

    async def main() -> Capture:
        clock = SystemClock()
        gate, resolver = Gate(Owned.parse(["127.0.0.0/8"])), StaticResolver({"localhost": ["127.0.0.1"]})
        fetcher = WireFetcher(clock, gate, resolver, trusting())
        async with RawOrigin([wire, "stall"], clock, tls=server_context()) as origin:
            limits = FetchLimits(idle_seconds_max=2.0)
            request = FetchRequest(url=origin.url(host="localhost"), owned=True, limits=limits)
            return await fetcher.fetch(request, lambda _head: clock.sleep(0.1))

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        capture = runner.run(main())
    assert (capture.truncated, capture.failure) == (None, None)
    assert capture.response_bytes == wire


class RefusingServer:
    """A blocking TLS server in a thread: unlike asyncio's, it sends the alert of a failed handshake."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._thread.join(10)
        self._listener.close()

    def _serve(self) -> None:
        raw, _ = self._listener.accept()
        context, later = self._context, threading.Event()
        with context.wrap_socket(raw, server_side=True, do_handshake_on_connect=False) as connection:
            try:
                connection.do_handshake()
                connection.recv(1000)
                connection.sendall(OPEN)
            except ssl.SSLError:
                later.wait(0.2)  # closing on an unread request is a reset, and Linux lets a reset overtake the alert


def refused(loop_factory: LoopFactory, server: ssl.SSLContext, client: ssl.SSLContext) -> Capture:
    async def main(port: int) -> Capture:
        resolver = StaticResolver({"localhost": ["127.0.0.1"]})
        fetcher = WireFetcher(SystemClock(), Gate(Owned.parse(["127.0.0.0/8"])), resolver, client)
        return await fetcher.fetch(FetchRequest(url=f"https://localhost:{port}/", owned=True))

    with RefusingServer(server) as origin, asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(main(origin.port))


def test_a_refused_name_is_a_tls_failure_with_the_alerts_name(loop_factory: LoopFactory) -> None:
    """G11 c: unrecognized_name comes through to the operator."""

    def refuse(_socket: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> int:
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

    server = server_context()
    server.sni_callback = refuse
    capture = refused(loop_factory, server, trusting())
    assert capture.failure is not None
    assert capture.failure.kind == "tls"
    assert "UNRECOGNIZED_NAME" in capture.failure.detail


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_certificate_we_lack_is_a_tls_failure(loop_factory: LoopFactory, version: ssl.TLSVersion) -> None:
    """TLS 1.3 servers say so only after the client's handshake is through; it is no reset and no empty answer."""
    server = server_context()
    server.minimum_version = server.maximum_version = version
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(CERTS / "other.pem")
    capture = refused(loop_factory, server, trusting())
    assert capture.failure is not None
    assert capture.failure.kind == "tls"
    assert "CERTIFICATE_REQUIRED" in capture.failure.detail or "HANDSHAKE_FAILURE" in capture.failure.detail


def test_a_certificate_for_another_name_is_refused_with_the_reason(loop_factory: LoopFactory) -> None:
    """G11 d: trusted or not, a certificate must name the host; nothing is sent to a server that has the wrong one."""
    capture = run(loop_factory, [OPEN], server=server_context("other.pem"), client=trusting("other.pem"))
    assert capture.failure is not None
    assert capture.failure.kind == "tls"
    assert "Hostname mismatch" in capture.failure.detail
    assert capture.request_bytes == b""


def test_an_unknown_authority_is_refused_by_default(loop_factory: LoopFactory) -> None:
    """The default context verifies; one connection is tried, not one an address or a second chance."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        capture, connections = runner.run(fetch_tls([OPEN], client=default_ssl_context()))
    assert capture.failure is not None
    assert capture.failure.kind == "tls"
    assert capture.failure.detail.startswith("certificate: self")
    assert connections <= 1


def test_names_are_sent_without_their_final_dot(loop_factory: LoopFactory) -> None:
    """SNI and certificates have no final dot (RFC 6066 §3); the Host field keeps it."""
    names: list[str | None] = []
    server = server_context()
    server.sni_callback = lambda _socket, name, _context: names.append(name)
    capture = run(loop_factory, [OPEN], server=server, host="localhost.")
    assert capture.failure is None
    assert names == ["localhost"]
    assert b"\r\nHost: localhost.:" in capture.request_bytes


def test_an_address_is_verified_as_an_address(loop_factory: LoopFactory) -> None:
    """HTTPS to an IP literal needs a certificate that names the address."""
    assert run(loop_factory, [OPEN], host="127.0.0.1").failure is None


@pytest.mark.parametrize("script", [[b"HTTP/1.1 400 Plain HTTP\r\n\r\n"], [], ["reset"]])
def test_a_server_without_tls_is_a_tls_failure(loop_factory: LoopFactory, script: list[Step]) -> None:
    """Plain HTTP, a hang-up or a reset in place of the handshake: kind "tls", not a broken connection."""

    class Blunt(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport

        def data_received(self, _data: bytes) -> None:
            for step in script:
                if isinstance(step, bytes):
                    self.transport.write(step)  # type: ignore[attr-defined] # a full transport, whatever the hook's type
            self.transport.close()

    async def main() -> Capture:
        clock = SystemClock()
        server = await asyncio.get_running_loop().create_server(Blunt, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        fetcher = WireFetcher(clock, Gate(Owned.parse(["127.0.0.0/8"])), StaticResolver(), trusting())
        try:
            return await fetcher.fetch(FetchRequest(url=f"https://127.0.0.1:{port}/", owned=True))
        finally:
            server.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        capture = runner.run(main())
    assert capture.failure is not None
    assert capture.failure.kind == "tls"


def test_a_handshake_without_end_is_a_timeout(loop_factory: LoopFactory) -> None:
    """A server that accepts and never speaks TLS costs the connect limit and no more."""

    async def main() -> Capture:
        clock = SystemClock()
        async with RawOrigin(["stall"], clock) as origin:
            fetcher = WireFetcher(clock, Gate(Owned.parse(["127.0.0.0/8"])), StaticResolver(), trusting())
            url = origin.url().replace("http:", "https:")
            limits = FetchLimits(connect_seconds_max=0.3)
            return await fetcher.fetch(FetchRequest(url=url, owned=True, limits=limits))

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        capture = runner.run(main())
    assert capture.failure is not None
    assert capture.failure.kind == "timeout"
    assert capture.duration_us < 2_000_000


def test_a_name_tls_cannot_carry_is_a_failure_and_no_exception(loop_factory: LoopFactory) -> None:
    """A label of more than 63 bytes makes Python's ssl raise ValueError; it must not reach the caller."""
    name = "a" * 70 + ".test"

    async def main() -> Capture:
        clock = SystemClock()
        async with RawOrigin([OPEN], clock, tls=server_context()) as origin:
            resolver = StaticResolver({name: ["127.0.0.1"]})
            fetcher = WireFetcher(clock, Gate(Owned.parse(["127.0.0.0/8"])), resolver, trusting())
            return await fetcher.fetch(FetchRequest(url=origin.url(host=name), owned=True))

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        capture = runner.run(main())
    assert capture.failure is not None
    assert capture.failure.kind == "tls"

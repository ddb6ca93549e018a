"""httpx over a fetcher: the response httpx expects, the capture beside it, exceptions that match."""

import asyncio
import gzip

import httpx
import pytest

from limpet.clock import SystemClock
from limpet.fetch import Capture, FetchLimits, Gate, NetFailure, NetFailureKind, Owned, WireFetcher
from limpet.fetch.httpx_transport import CAPTURE_EXTENSION, LimpetTransport
from limpet.testing.loop import SimClock, VirtualLoop, run_virtual
from limpet.testing.web import FakeAnswer, FakeWeb, RawOrigin, StaticResolver

URL = "http://origin.test/page"


def get(answer: FakeAnswer, method: str = "GET", content: bytes = b"") -> tuple[httpx.Response, FakeWeb]:
    """One request of an httpx client to a fake web that answers `answer`."""
    loop = VirtualLoop()
    web = FakeWeb(SimClock(loop))
    web.route("origin.test", answer)

    async def main() -> httpx.Response:
        transport = LimpetTransport(web, FetchLimits(idle_seconds_max=1000.0))
        async with httpx.AsyncClient(transport=transport, trust_env=False, timeout=7.0) as client:
            return await client.request(method, URL, content=content)

    return run_virtual(main(), loop), web


def test_a_response_comes_with_its_capture() -> None:
    """Status, fields and decoded body by httpx; the coded bytes and the wire in the extension."""
    coded = gzip.compress(b"hello")
    headers = ((b"Content-Encoding", b"gzip"), (b"Set-Cookie", b"a=1"), (b"Set-Cookie", b"b=\xff"))
    response, web = get(FakeAnswer(status=404, headers=headers, body=coded, chunked=True))
    assert (response.status_code, response.content, response.reason_phrase) == (404, b"hello", "Not Found")
    assert len(response.headers.get_list("set-cookie")) == 2
    capture = response.extensions[CAPTURE_EXTENSION]
    assert isinstance(capture, Capture)
    assert capture.payload == coded
    assert coded in capture.response_bytes
    assert web.closed


def test_the_request_is_handed_over() -> None:
    """The client's headers go out in order, Host and Connection by the engine; its timeouts become limits."""
    _, web = get(FakeAnswer())
    request = web.log[0].request
    names = [name.lower() for name, _ in request.headers]
    assert b"user-agent" in names
    assert not {b"host", b"connection"} & set(names)
    assert (request.limits.connect_seconds_max, request.limits.idle_seconds_max) == (7.0, 7.0)


def test_a_lying_content_coding_raises_on_reading_as_in_httpx() -> None:
    """The transport itself does not decode; the caller of httpx sees httpx's own error."""
    with pytest.raises(httpx.DecodingError):
        get(FakeAnswer(headers=((b"Content-Encoding", b"gzip"),), body=b"plain"))


def test_a_cut_body_is_a_response_that_says_so() -> None:
    """What arrived is handed over; the capture is marked."""
    response, _ = get(FakeAnswer(body=b"x" * 100, sent_body_bytes=40))
    assert response.content == b"x" * 40
    assert response.extensions[CAPTURE_EXTENSION].truncated == "disconnect"


@pytest.mark.parametrize(
    ("kind", "exception"),
    [
        ("dns", httpx.ConnectError),
        ("refused", httpx.ConnectError),
        ("connect", httpx.ConnectError),
        ("tls", httpx.ConnectError),
        ("gate", httpx.ConnectError),
        ("reset", httpx.ReadError),
        ("protocol", httpx.RemoteProtocolError),
        ("proxy", httpx.ProxyError),
        ("timeout", httpx.ConnectTimeout),
    ],
)
def test_failures_raise_what_httpx_would(kind: NetFailureKind, exception: type[Exception]) -> None:
    """Each kind has its exception, with kind and detail in the text and the request attached."""
    with pytest.raises(exception, match=f"{kind}: because") as caught:
        get(FakeAnswer(failure=NetFailure(kind=kind, detail="because")))
    assert isinstance(caught.value, httpx.TransportError)
    assert caught.value.request.url == URL


def test_a_timeout_after_the_request_is_a_read_timeout() -> None:
    """Connecting and waiting for an answer are told apart."""
    with pytest.raises(httpx.ReadTimeout):
        get(FakeAnswer(latency_seconds=60.0))


@pytest.mark.parametrize(("method", "content"), [("POST", b""), ("HEAD", b""), ("GET", b"body")])
def test_only_get_is_sent(method: str, content: bytes) -> None:
    """A crawler has nothing to post; saying so beats sending a GET instead."""
    with pytest.raises(httpx.UnsupportedProtocol):
        get(FakeAnswer(), method, content)


def test_over_the_wire_engine() -> None:
    """The whole stack on a socket: redirects followed by httpx pass the same gate."""

    async def main() -> tuple[httpx.Response, int]:
        clock = SystemClock()
        async with RawOrigin([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"], clock) as origin:
            fetcher = WireFetcher(clock, Gate(Owned.parse(["127.0.0.0/8"])), StaticResolver())
            transport = LimpetTransport(fetcher, owned=True)
            async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
                response = await client.get(origin.url())
                with pytest.raises(httpx.ConnectError, match="gate: "):
                    await client.get("http://[::1]:1/")
                return response, origin.connections

    response, connections = asyncio.run(main())
    assert (response.status_code, response.text, connections) == (200, "ok", 1)

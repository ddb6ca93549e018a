"""Captures made of wire bytes, read by the engine's own parser: for tests of what happens to them afterwards."""

from limpet.fetch.http1 import Phase, ResponseParser
from limpet.fetch.port import Capture, FetchLimits

PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 27\r\n\r\n<!DOCTYPE html><p>hello</p>"


def wire_capture(
    url: str = "http://example.com/",
    wire: bytes = PAGE,
    *,
    request: bytes = b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
    started_us: int = 1_800_000_000_123_456,
    duration_us: int = 12_345,
    remote_ip: str = "192.0.2.1",
    tls: str = "",
    limits: FetchLimits | None = None,
) -> Capture:
    """The capture of `url` when the server sends `wire` and closes the connection."""
    parser = ResponseParser(limits or FetchLimits())
    parser.feed(wire)
    if parser.phase is not Phase.DONE:
        parser.end_of_stream()
    block = parser.block()
    return Capture(
        url=url,
        request_bytes=request,
        response_bytes=block,
        body_offset=parser.body_offset,
        payload=parser.payload(block),
        head=parser.head,
        truncated=parser.truncated,
        failure=parser.failure,
        remote_ip=remote_ip,
        tls=tls,
        started_us=started_us,
        duration_us=duration_us,
    )

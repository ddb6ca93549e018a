"""The fake web: what a rehearsal and its checkers may rely on."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from limpet.fetch import Capture, FetchLimits, FetchRequest, NetFailure
from limpet.fetch.head import parse_head
from limpet.testing.loop import EPOCH_US, SimClock, VirtualLoop, run_virtual
from limpet.testing.web import FakeAnswer, FakeWeb


def fetch(answer: FakeAnswer, limits: FetchLimits | None = None, url: str = "http://a.test/") -> Capture:
    loop = VirtualLoop()
    web = FakeWeb(SimClock(loop))
    web.route("a.test", answer)
    return run_virtual(web.fetch(FetchRequest(url=url, limits=limits or FetchLimits())), loop)


def test_routes_go_from_the_url_to_the_host() -> None:
    """A URL's own route, else its authority's, else its host's; a host known by URLs only answers 404 elsewhere."""
    loop = VirtualLoop()
    web = FakeWeb(SimClock(loop))
    web.route("http://a.test/1", FakeAnswer(body=b"url"))
    web.route("a.test:8080", FakeAnswer(body=b"authority"))
    web.route("a.test", FakeAnswer(body=b"host"))
    web.route("http://b.test/1", FakeAnswer(body=b"only"))

    async def main() -> list[bytes | int | None]:
        found: list[bytes | int | None] = []
        for url in ("http://a.test/1", "http://a.test:8080/1", "http://a.test/2", "http://b.test/2", "http://c.test/"):
            capture = await web.fetch(FetchRequest(url=url))
            nxdomain = capture.failure is not None and capture.failure.nxdomain
            found.append(None if nxdomain else capture.payload or (capture.head.status if capture.head else 0))
        return found

    assert run_virtual(main(), loop) == [b"url", b"authority", b"host", 404, None]


def test_handlers_see_the_request_and_the_time() -> None:
    """An answer may depend on both: a 429 storm, a page that changes, a conditional request."""
    loop = VirtualLoop()
    web = FakeWeb(SimClock(loop))
    web.route("a.test", lambda request, now_us: FakeAnswer(body=b"%d %b" % (now_us - EPOCH_US, request.url.encode())))
    capture = run_virtual(web.fetch(FetchRequest(url="http://a.test/x")), loop)
    assert capture.payload == b"0 http://a.test/x"


def test_the_log_shows_times_overlap_and_status() -> None:
    """Checkers of politeness read gaps and concurrency from it; a fetch that was cut off has no end."""
    loop = VirtualLoop()
    web = FakeWeb(SimClock(loop))
    web.route("a.test", FakeAnswer(latency_seconds=2.0, body_seconds=1.0))
    web.route("b.test", FakeAnswer(latency_seconds=1.0, failure=NetFailure(kind="refused", detail="no")))

    async def later(seconds: float, fetch: Coroutine[Any, Any, Capture]) -> None:
        await SimClock(loop).sleep(seconds)
        await fetch

    async def main() -> None:
        urls = ["http://a.test/1", "http://a.test:81/2", "http://b.test/3", "http://a.test/4"]
        tasks = [
            asyncio.ensure_future(later(index * 1.25, web.fetch(FetchRequest(url=url))))
            for index, url in enumerate(urls)
        ]
        await asyncio.wait(tasks, timeout=5.5)

    run_virtual(main(), loop)
    rows = [
        (v.host, (v.start_us - EPOCH_US) / 1e6, v.end_us and (v.end_us - EPOCH_US) / 1e6, v.open_before, v.status)
        for v in web.log
    ]
    assert rows == [
        ("a.test", 0.0, 3.0, 0, 200),
        ("a.test", 1.25, 4.25, 1, 200),
        ("b.test", 2.5, 3.5, 0, None),
        ("a.test", 3.75, None, 1, None),
    ]


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("body", [b"", b"x", b"y" * 10_000])
def test_answers_are_written_out_as_bytes(body: bytes, chunked: bool) -> None:
    """Status line, fields, framing, body: a capture whose block says what its head and payload say."""
    headers = ((b"Content-Type", b"text/html"), (b"ETag", b'"1"'))
    capture = fetch(FakeAnswer(status=503, headers=headers, body=body, chunked=chunked))
    assert capture.response_bytes.startswith(b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html\r\n")
    assert parse_head(capture.response_bytes[: capture.body_offset]) == capture.head
    assert capture.payload == body
    assert (capture.truncated, capture.remote_ip) == (None, "192.0.2.1")
    assert capture.started_us == EPOCH_US
    assert capture.duration_us == 50_000


@pytest.mark.parametrize(
    ("answer", "truncated", "payload_bytes", "seconds"),
    [
        (FakeAnswer(body=b"z" * 100, sent_body_bytes=30), "disconnect", 30, 0.05),
        (FakeAnswer(body=b"z" * 100, sent_body_bytes=30, ending="reset"), "disconnect", 30, 0.05),
        (FakeAnswer(body=b"z" * 100, sent_body_bytes=30, ending="stall"), "time", 30, 30.05),
        (FakeAnswer(body=b"z" * 100, ending="stall"), None, 100, 0.05),
        (FakeAnswer(body=b"z" * 100, body_seconds=10.0), None, 100, 10.05),
        (FakeAnswer(body=b"z" * 100, latency_seconds=20.0, body_seconds=200.0), "time", 50, 120.0),
        (FakeAnswer(status=204), None, 0, 0.05),
        (FakeAnswer(wire=b"HTTP/1.1 100 C\r\n\r\nHTTP 200\n\nabc", sent_body_bytes=2), None, 2, 0.05),
    ],
)
def test_endings(answer: FakeAnswer, truncated: str | None, payload_bytes: int, seconds: float) -> None:
    """Cut, reset, stalled, slow: the mark follows from the bytes and the limits, and virtual time passes."""
    capture = fetch(answer)
    assert capture.failure is None
    assert (capture.truncated, len(capture.payload)) == (truncated, payload_bytes)
    assert capture.duration_us == pytest.approx(seconds * 1e6, abs=2)


def test_an_answer_later_than_the_limits_is_a_timeout() -> None:
    """The wait ends at the limit, not at the latency; https shows as TLS, a failure does not."""
    capture = fetch(FakeAnswer(latency_seconds=500.0), url="https://a.test/")
    assert capture.failure is not None
    assert (capture.failure.kind, capture.duration_us, capture.tls) == ("timeout", 30_000_000, "TLSv1.3")


def test_what_is_no_url_is_refused() -> None:
    """As by the engine."""
    capture = fetch(FakeAnswer(), url="ftp://a.test/")
    assert capture.failure is not None
    assert capture.failure.kind == "gate"

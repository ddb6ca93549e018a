"""Certificates that are not valid: a reason of their own, and accepted for named hosts only."""

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
import trustme

from limpet.clock import SystemClock
from limpet.fetch import Capture, FetchRequest, Gate, Owned, WireFetcher, default_ssl_context
from limpet.testing.web import RawOrigin, StaticResolver

LoopFactory = Callable[[], asyncio.AbstractEventLoop]
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CA = trustme.CA()
STRANGER = trustme.CA()


def certificate(kind: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if kind == "expired":
        past = datetime(2020, 1, 1, tzinfo=UTC)
        issued = CA.issue_cert("good.test", not_before=datetime(2019, 1, 1, tzinfo=UTC), not_after=past)
    elif kind == "other-name":
        issued = CA.issue_cert("other.test")
    else:
        issued = (STRANGER if kind == "stranger" else CA).issue_cert("good.test")
    issued.configure_cert(context)
    return context


def fetch(loop_factory: LoopFactory, kind: str, *accepted: str) -> tuple[Capture, int, int]:
    """One exchange with good.test: the capture, TCP connections, requests."""

    async def once() -> tuple[Capture, int, int]:
        trusting = default_ssl_context()
        CA.configure_trust(trusting)
        resolver = StaticResolver({"good.test": ["127.0.0.1"]})
        gate = Gate(Owned.parse(["127.0.0.0/8"]))
        fetcher = WireFetcher(SystemClock(), gate, resolver, trusting, accept_invalid_cert=accepted)
        async with RawOrigin([ANSWER], SystemClock(), tls=certificate(kind)) as origin:
            capture = await fetcher.fetch(FetchRequest(url=origin.url(host="good.test"), owned=True))
            await fetcher.close()
            return capture, origin.connections, len(origin.requests)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(once())


@pytest.mark.parametrize("kind", ["expired", "other-name", "stranger"])
def test_an_invalid_certificate_is_told_from_other_tls_faults(kind: str, loop_factory: LoopFactory) -> None:
    """Nothing is asked, and the failure says that it was the certificate."""
    capture, _, requests = fetch(loop_factory, kind, "another.test")
    assert capture.failure is not None
    assert (capture.failure.kind, capture.failure.certificate, requests) == ("tls", True, 0)
    assert capture.failure.detail.startswith("certificate: ")


@pytest.mark.parametrize("kind", ["expired", "other-name", "stranger"])
def test_a_named_host_is_taken_as_it_is_and_recorded(kind: str, loop_factory: LoopFactory) -> None:
    """One request, and the capture says what was wrong."""
    capture, _, requests = fetch(loop_factory, kind, "Good.Test.")
    assert capture.failure is None
    assert (capture.payload, requests) == (b"ok", 1)
    assert capture.insecure_tls.startswith("certificate: ")


def test_a_valid_certificate_of_a_named_host_is_valid(loop_factory: LoopFactory) -> None:
    """The switch does not turn verification off; it forgives what verification found."""
    capture, connections, _ = fetch(loop_factory, "good", "good.test")
    assert (capture.payload, capture.insecure_tls, connections) == (b"ok", "", 1)

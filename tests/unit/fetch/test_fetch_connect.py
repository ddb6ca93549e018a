"""Which address is tried, for how long, and what it is called when none answers."""

import asyncio
import errno
from typing import Any

import pytest

from limpet.clock import SystemClock
from limpet.fetch import Capture, FetchLimits, FetchRequest, Gate, Owned, WireFetcher
from limpet.fetch.connect import connect_order
from limpet.fetch.failures import connect_failure
from limpet.testing.loop import SimClock, VirtualLoop, run_virtual
from limpet.testing.web import NXDOMAIN, RawOrigin, StaticResolver

PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
OWNED = Owned.parse(["127.0.0.0/8", "::1"])


class DeafLoop(VirtualLoop):
    """Virtual time, and a network where some addresses never answer and the others refuse."""

    def __init__(self, *deaf: str) -> None:
        super().__init__()
        self.asked: list[tuple[float, str]] = []
        self._deaf = deaf

    async def create_connection(self, *args: Any, **_kw: Any) -> Any:
        host = args[1]
        self.asked.append((self.time(), host))
        if host in self._deaf:
            await SimClock(self).sleep(1e6)
        raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")


def fetch_on(loop: DeafLoop, addresses: list[str], limits: FetchLimits | None = None) -> Capture:
    async def main() -> Capture:
        fetcher = WireFetcher(SimClock(loop), Gate(), StaticResolver({"a.test": addresses}))
        return await fetcher.fetch(FetchRequest(url="http://a.test/", limits=limits or FetchLimits()))

    return run_virtual(main(), loop)


@pytest.mark.parametrize(
    ("addresses", "order"),
    [
        (("1.1.1.1",), ["1.1.1.1"]),
        (("2a00::1", "2a00::2", "1.1.1.1"), ["2a00::1", "1.1.1.1", "2a00::2"]),
        (("1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"), ["1.1.1.1", "1.1.1.2", "1.1.1.3"]),
        (("1.1.1.1", "1.1.1.1"), ["1.1.1.1"]),
    ],
)
def test_both_families_get_a_turn(addresses: tuple[str, ...], order: list[str]) -> None:
    """A host with broken IPv6 costs one try, not three."""
    assert connect_order(addresses) == order


def test_the_next_address_is_tried_and_named() -> None:
    """Nobody listens on the first address: the second is connected to, and it is the one in the capture."""

    async def main() -> tuple[Capture, int]:
        clock = SystemClock()
        async with RawOrigin([PAGE], clock) as origin:
            fetcher = WireFetcher(clock, Gate(OWNED), StaticResolver({"a.test": ["127.0.0.2", "127.0.0.1"]}))
            request = FetchRequest(url=origin.url(host="a.test"), owned=True)
            return await fetcher.fetch(request), len(origin.requests)

    capture, requests = asyncio.run(main())
    assert (capture.payload, capture.remote_ip, requests) == (b"ok", "127.0.0.1", 1)


def test_ipv6_works() -> None:
    """A literal in brackets: connected, compared, recorded without them."""

    async def main() -> Capture:
        clock = SystemClock()
        try:
            async with RawOrigin([PAGE], clock, host="::1") as origin:
                fetcher = WireFetcher(clock, Gate(OWNED), StaticResolver())
                return await fetcher.fetch(FetchRequest(url=origin.url(), owned=True))
        except OSError:
            pytest.skip("this machine has no IPv6 on loopback")

    capture = asyncio.run(main())
    assert (capture.payload, capture.remote_ip) == (b"ok", "::1")
    assert b"\r\nHost: [::1]:" in capture.request_bytes


def test_a_deaf_address_has_its_share_of_the_time() -> None:
    """Three addresses share the connect limit; the last gets what is left, and the whole stays within it."""
    loop = DeafLoop("1.1.1.1", "1.1.1.2")
    capture = fetch_on(loop, ["1.1.1.1", "1.1.1.2", "1.1.1.3"], FetchLimits(connect_seconds_max=30.0))
    assert [(round(at, 3), ip) for at, ip in loop.asked] == [(0.0, "1.1.1.1"), (10.0, "1.1.1.2"), (20.0, "1.1.1.3")]
    assert capture.failure is not None
    assert capture.failure.kind == "refused"


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [
        (FetchLimits(connect_seconds_max=12.0), 12.0),
        (FetchLimits(connect_seconds_max=500.0, wall_seconds_max=60.0), 60.0),
    ],
)
def test_no_answer_at_all_is_a_timeout(limits: FetchLimits, seconds: float) -> None:
    """The connect limit, or the wall limit if that is shorter."""
    capture = fetch_on(DeafLoop("1.1.1.1"), ["1.1.1.1"], limits)
    assert capture.failure is not None
    assert (capture.failure.kind, capture.request_bytes) == ("timeout", b"")
    assert capture.duration_us == pytest.approx(seconds * 1e6, abs=1000)


def test_a_dead_port_is_refused() -> None:
    """Kind "refused", with the address."""

    async def main() -> Capture:
        clock = SystemClock()
        async with RawOrigin([PAGE], clock) as origin:
            url = origin.url()
        fetcher = WireFetcher(clock, Gate(OWNED), StaticResolver())
        return await fetcher.fetch(FetchRequest(url=url, owned=True))

    capture = asyncio.run(main())
    assert capture.failure is not None
    assert (capture.failure.kind, capture.failure.detail) == ("refused", "127.0.0.1 refused the connection")


@pytest.mark.parametrize(
    ("error", "kind", "detail"),
    [
        (OSError(errno.ENETUNREACH, "x"), "connect", "1.1.1.1: ENETUNREACH"),
        (OSError(errno.EMFILE, "x"), "connect", "1.1.1.1: EMFILE"),
        (OSError(errno.ETIMEDOUT, "x"), "timeout", "1.1.1.1 did not answer in time"),
        (ConnectionResetError(errno.ECONNRESET, "x"), "connect", "1.1.1.1: ECONNRESET"),
        (OSError("Multiple exceptions"), "connect", "1.1.1.1: Multiple exceptions"),
    ],
)
def test_faults_have_names(error: OSError, kind: str, detail: str) -> None:
    """The operator reads the errno's name; what is our own (EMFILE) is as plain as what is the network's."""
    failure = connect_failure(error, "1.1.1.1")
    assert (failure.kind, failure.detail) == (kind, detail)


def test_closing_the_fetcher_closes_its_resolver() -> None:
    """The port's `close`."""
    resolver = StaticResolver({"a.test": NXDOMAIN})
    asyncio.run(WireFetcher(SystemClock(), Gate(), resolver).close())
    assert resolver.closed

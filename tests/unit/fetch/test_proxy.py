"""One explicit proxy: tunnels to judged addresses, faults that are ours, credentials that show nowhere."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from limpet.clock import SystemClock
from limpet.fetch import Capture, FetchLimits, FetchRequest, Gate, Owned, WireFetcher
from limpet.fetch.proxy import Proxy, parse_proxy, read_proxy
from limpet.model.errors import UsageError
from limpet.testing.proxy import FakeProxy
from limpet.testing.web import RawOrigin, StaticResolver
from unit.fetch.test_ssrf import CLOSED, SPELLINGS
from unit.fetch.test_wire_tls import server_context, trusting

LoopFactory = Callable[[], asyncio.AbstractEventLoop]
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SECRET = "user:s3cret-word"  # noqa: S105 - nobody's


def run(loop_factory: LoopFactory, main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main)


def fetcher_by(proxy: Proxy, gate: Gate | None = None) -> WireFetcher:
    resolver = StaticResolver({"localhost": ["127.0.0.1"], "a.test": ["127.0.0.1"], "rebind.test": ["127.0.0.1"]})
    gate = gate or Gate(Owned.parse(["127.0.0.0/8"]))
    return WireFetcher(SystemClock(), gate, resolver, trusting(), proxy=proxy)


async def fetch_once(proxy: FakeProxy, url: str, credentials: str = "") -> Capture:
    fetcher = fetcher_by(parse_proxy(proxy.url, credentials))
    limits = FetchLimits(connect_seconds_max=2.0, idle_seconds_max=2.0)
    return await fetcher.fetch(FetchRequest(url=url, owned=True, limits=limits))


@pytest.mark.parametrize("secure", [False, True])
def test_the_proxy_hears_the_address_and_the_site_hears_the_name(secure: bool, loop_factory: LoopFactory) -> None:
    """CONNECT goes to what the gate has judged; Host and server name are the site's; the capture knows the address."""

    async def main() -> None:
        tls = server_context() if secure else None
        async with FakeProxy() as proxy, RawOrigin([ANSWER], SystemClock(), tls=tls) as origin:
            capture = await fetch_once(proxy, origin.url("/x", host="localhost"), SECRET)
            assert capture.failure is None
            assert (capture.payload, capture.remote_ip) == (b"ok", "127.0.0.1")
            assert proxy.targets == [f"127.0.0.1:{origin.port}"]
            assert b"localhost" not in proxy.asked[0]
            assert b"Proxy-Authorization: Basic dXNlcjpzM2NyZXQtd29yZA==" in proxy.asked[0]
            assert b"Host: localhost:%d" % origin.port in origin.requests[0]
            assert b"roxy" not in origin.requests[0] + capture.request_bytes

    run(loop_factory, main())


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n", "proxy"),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "proxy"),
        (b"HTTP/1.1 500 Oops\r\n\r\n", "proxy"),
        (b"SSH-2.0-x\r\n\r\n", "proxy"),
        (b"", "proxy"),
        (b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\nsmuggled", "proxy"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 20_000, "proxy"),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "connect"),
        (b"HTTP/1.1 503 Unavailable\r\n\r\n", "connect"),
        (b"HTTP/1.1 504 Timeout\r\n\r\n", "connect"),
    ],
)
def test_whose_fault_it_is(reply: bytes, kind: str, loop_factory: LoopFactory) -> None:
    """What the proxy does wrong is ours; what it says of the site's reachability is the site's."""

    async def main() -> None:
        async with FakeProxy(reply) as proxy:
            capture = await fetch_once(proxy, "http://a.test:8080/", SECRET)
            assert capture.failure is not None
            assert capture.failure.kind == kind
            assert "s3cret" not in repr(capture)

    run(loop_factory, main())


def test_a_proxy_that_is_not_there_is_our_fault(loop_factory: LoopFactory) -> None:
    """Refused, or without a name: kind proxy."""

    async def main() -> None:
        async with FakeProxy() as proxy:
            gone = proxy.url
        for url in (gone, "http://no-such-proxy.test:3128"):
            capture = await fetcher_by(parse_proxy(url)).fetch(FetchRequest(url="http://a.test:8080/", owned=True))
            assert capture.failure is not None
            assert capture.failure.kind == "proxy"

    run(loop_factory, main())


def test_no_closed_address_reaches_the_proxy(loop_factory: LoopFactory) -> None:
    """The SSRF suite through a proxy: the gate judges before anything is asked."""

    async def main() -> None:
        async with FakeProxy() as proxy:
            strict = fetcher_by(parse_proxy(proxy.url), Gate())
            urls = [f"http://[{ip}]:8080/" if ":" in ip else f"http://{ip}:8080/" for ip in CLOSED]
            urls += [spelling.format(port=8080) for spelling in SPELLINGS]
            for url in urls:
                capture = await strict.fetch(FetchRequest(url=url))
                assert capture.failure is not None, url
                assert capture.failure.kind in {"gate", "dns"}, url
            granted = FetchRequest(url="http://a.test:8080/", addresses=("8.8.8.8", "169.254.169.254"))
            assert (await strict.fetch(granted)).failure is not None
            assert proxy.connections == 0

    run(loop_factory, main())


@pytest.mark.parametrize(
    "url", ["https://a:1", "socks5://a:1", "a:3128", "http://", "http://a:99999", "http://a/path", "http://a b:1"]
)
def test_what_is_no_proxy_is_refused(url: str) -> None:
    """Only http://HOST:PORT."""
    with pytest.raises(UsageError, match="http://HOST:PORT"):
        parse_proxy(url)


def test_credentials_come_from_file_or_environment_and_are_never_told(tmp_path: Path) -> None:
    """A URL with credentials is refused without repeating them; no text form of a proxy has them."""
    with pytest.raises(UsageError) as refused:
        parse_proxy(f"http://{SECRET}@127.0.0.1:3128")
    assert "s3cret" not in str(refused.value)
    file = tmp_path / "credentials"
    file.write_text(SECRET + "\n")
    proxy = read_proxy("http://127.0.0.1:3128", str(file))
    assert proxy is not None
    assert proxy == parse_proxy("http://127.0.0.1:3128", SECRET)
    assert "s3cret" not in repr(proxy)
    assert proxy.authorization not in repr(proxy)
    with pytest.raises(UsageError, match="cannot be read"):
        read_proxy("http://127.0.0.1:3128", str(tmp_path / "none"))
    file.write_text("no colon")
    with pytest.raises(UsageError, match="user:password"):
        read_proxy("http://127.0.0.1:3128", str(file))

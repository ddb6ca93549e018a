"""No path leads from the web to an address that is not the web, judged by a listener and by a watched event loop."""

import asyncio
import ssl
from typing import Any

import pytest

from limpet.clock import SystemClock
from limpet.fetch import Capture, FetchRequest, Gate, Owned, WireFetcher, redirect_target
from limpet.testing.web import RawOrigin, StaticResolver

CLOSED = [
    # this host and network
    *("0.0.0.0", "0.1.2.3", "127.0.0.1", "127.0.0.2", "127.1.2.3", "127.255.255.255"),  # noqa: S104 - an address to refuse
    # private, shared, link-local, and what clouds answer on
    *("10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.255.255"),
    *("100.64.0.1", "100.100.100.200", "100.127.255.255", "169.254.0.1", "169.254.169.254", "169.254.170.2"),
    *("168.63.129.16", "192.0.0.192", "192.0.0.8", "192.0.0.170"),
    # documentation, benchmarking, relay, multicast, reserved
    *("192.0.2.1", "198.51.100.1", "203.0.113.255", "198.18.0.1", "198.19.255.255", "192.88.99.1"),
    *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
    # IPv6 of the same kinds
    *("::", "::1", "fe80::1", "febf::1", "fec0::1", "feff::1", "fc00::1", "fd00:ec2::254", "fd20:ce::254"),
    *("ff02::1", "ff0e::1", "100::1", "2001:db8::1", "3fff::1", "2001:2::1", "2001:10::1", "2001:20::1"),
    *("4000::1", "8000::1", "e000::1", "1::1", "5f00::1", "200::1"),
    # IPv4 inside IPv6: mapped, compatible, translated, NAT64, 6to4, Teredo, ISATAP
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:8.8.8.8", "::ffff:0.0.0.0"),
    *("::127.0.0.1", "::10.0.0.1", "::169.254.169.254", "::8.8.8.8", "::ffff:0:127.0.0.1"),
    *("64:ff9b::127.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b::a00:1", "64:ff9b::8.8.8.8"),
    *("64:ff9b:1::a9fe:a9fe", "64:ff9b:1:fffe::7f00:1"),
    *("2002:7f00:1::", "2002:7f00:1::1", "2002:a9fe:a9fe::", "2002:a00:1::", "2002:808:808::1"),
    *("2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001::80ff:fffe"),
    *("2a00:1450:4001:800::5efe:7f00:1", "2a00:1450:4001:800:200:5efe:a9fe:a9fe", "2a00:1450::5efe:10.0.0.1"),
]

SPELLINGS = [
    *("http://127.1:{port}/", "http://127.0.1:{port}/", "http://2130706433:{port}/", "http://0x7f000001:{port}/"),
    *("http://0177.0.0.1:{port}/", "http://0x7f.0.0.1:{port}/", "http://0:{port}/", "http://017700000001:{port}/"),
    *("http://127.0.0.1.:{port}/", "http://[::1]:{port}/", "http://[::ffff:127.0.0.1]:{port}/"),
    *("http://[0:0:0:0:0:ffff:7f00:1]:{port}/", "http://[::ffff:7f00:1]:{port}/", "http://[::]:{port}/"),
    *("http://①②⑦.⓪.⓪.①:{port}/", "http://127。0。0。1:{port}/", "http://127.0.0.1%2e:{port}/"),
    *("http://good.test@127.0.0.1:{port}/", "http://good.test:80@127.0.0.1:{port}/", "http://%31%32%37.0.0.1:{port}/"),
    *("http://127.0.0.1:{port}\\@good.test/", "http:\\\\127.0.0.1:{port}/", "http:127.0.0.1:{port}/"),
    *("http:///127.0.0.1:{port}/", "  http://127.0.0.1:{port}/  ", "ht\ntp://127.0.\t0.1:{port}/"),
    *("HTTP://LOCALHOST:{port}/", "http://localhost.:{port}/", "http://rebind.test:{port}/"),
]

NOT_HTTP = [
    *("file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1:70/_x", "ws://127.0.0.1/", "data:text/html,x"),
    *(
        "javascript:alert(1)",
        "blob:http://127.0.0.1/x",
        "about:blank",
        "//127.0.0.1/",
        "127.0.0.1",
        "",
        "http://",
        "x:",
    ),
]


NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # quick to make; nothing here gets as far as a handshake


class WatchedLoop(asyncio.SelectorEventLoop):
    """Counts the connections that are asked for, and makes none."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[object, ...]] = []

    async def create_connection(self, *args: Any, **_kw: Any) -> Any:
        self.asked.append(args[1:])
        raise ConnectionRefusedError(111, "watched")


def watched_fetch(url: str, answers: dict[str, list[str]]) -> tuple[Capture, WatchedLoop]:
    """One fetch on a loop that only watches."""
    loop = WatchedLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        fetcher = WireFetcher(SystemClock(), Gate(), StaticResolver(answers), NO_AUTHORITIES)
        return runner.run(fetcher.fetch(FetchRequest(url=url))), loop


def refused_by_gate(capture: Capture) -> bool:
    """No response, nothing sent, and the gate says why."""
    failure = capture.failure
    return failure is not None and failure.kind == "gate" and bool(failure.detail) and capture.request_bytes == b""


def test_the_list_is_as_long_as_it_says() -> None:
    """At least sixty closed addresses, each once."""
    assert len(set(CLOSED)) == len(CLOSED) >= 60


@pytest.mark.parametrize("ip", CLOSED)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_closed_address_is_refused_on_every_path(ip: str, scheme: str) -> None:
    """As a literal, as the answer for a name, and hidden among good answers, first or last."""
    literal = f"[{ip}]" if ":" in ip else ip
    good = ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"]
    for url, answers in (
        (f"{scheme}://{literal}/", {}),
        (f"{scheme}://bad.test/", {"bad.test": [ip]}),
        (f"{scheme}://bad.test/", {"bad.test": [ip, *good]}),
        (f"{scheme}://bad.test/", {"bad.test": [*good, ip]}),
    ):
        capture, loop = watched_fetch(url, answers)
        assert refused_by_gate(capture), url
        assert loop.asked == []


@pytest.mark.parametrize("ip", ["93.184.215.14", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00::1"])
def test_public_addresses_are_connected_to_as_checked(ip: str) -> None:
    """The watch itself works: what is allowed is asked for, by the address that was judged and not by name."""
    capture, loop = watched_fetch("http://good.test/", {"good.test": [ip]})
    assert loop.asked == [(ip, 80)]
    assert capture.failure is not None
    assert capture.failure.kind == "refused"


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_of_loopback_reaches_a_listener(spelling: str) -> None:
    """Odd numbers, full-width digits, userinfo, backslashes, names: a real listener on loopback sees nobody."""

    async def main() -> tuple[Capture, int]:
        clock = SystemClock()
        answers = {"localhost": ["127.0.0.1", "::1"], "rebind.test": ["127.0.0.1"]}
        async with RawOrigin([b"HTTP/1.1 200 OK\r\n\r\nsecret"], clock) as origin:
            fetcher = WireFetcher(clock, Gate(), StaticResolver(answers))
            capture = await fetcher.fetch(FetchRequest(url=spelling.format(port=origin.port)))
            await clock.sleep(0.01)
            return capture, origin.connections

    capture, connections = asyncio.run(main())
    assert refused_by_gate(capture)
    assert connections == 0


@pytest.mark.parametrize("url", NOT_HTTP)
def test_other_schemes_and_non_urls_go_nowhere(url: str) -> None:
    """A host by http or https, or a gate failure."""
    capture, loop = watched_fetch(url, {})
    assert refused_by_gate(capture)
    assert loop.asked == []


@pytest.mark.parametrize("location", [b"http://127.0.0.1:%d/", b"//127.0.0.1:%d/", b"http://[::ffff:7f00:1]:%d/"])
def test_a_redirect_into_the_house_is_refused(location: bytes) -> None:
    """The target of a redirect is a fetch like any other: a host that is not owned does not inherit ownership."""

    async def main() -> tuple[Capture, int]:
        clock = SystemClock()
        gate = Gate(Owned.parse(["site.test"]))
        async with RawOrigin([b"HTTP/1.1 200 OK\r\n\r\nsecret"], clock) as inner:
            answer = b"HTTP/1.1 302 Found\r\nLocation: " + location % inner.port + b"\r\nContent-Length: 0\r\n\r\n"
            async with RawOrigin([answer], clock) as outer:
                fetcher = WireFetcher(clock, gate, StaticResolver({"site.test": ["127.0.0.1"]}))
                first = await fetcher.fetch(FetchRequest(url=outer.url(host="site.test"), owned=True))
                assert first.head is not None
                target = redirect_target(first.url, first.head)
                assert target is not None
                second = await fetcher.fetch(FetchRequest(url=target, owned=gate.owned.covers_host("127.0.0.1")))
                return second, inner.connections

    capture, connections = asyncio.run(main())
    assert refused_by_gate(capture)
    assert connections == 0


@pytest.mark.parametrize("entry", ["127.0.0.0/8", "site.test"])
def test_a_request_without_the_claim_is_a_strangers(entry: str) -> None:
    """What the operator owns opens for requests that were scheduled as owned, and for no others."""

    async def main() -> tuple[list[Capture], int]:
        clock = SystemClock()
        async with RawOrigin([b"HTTP/1.1 200 OK\r\n\r\nmine"], clock) as origin:
            resolver = StaticResolver({"site.test": ["127.0.0.1"]})
            fetcher = WireFetcher(clock, Gate(Owned.parse([entry])), resolver)
            url = origin.url(host="site.test")
            captures = [await fetcher.fetch(FetchRequest(url=url, owned=owned)) for owned in (False, True)]
            return captures, origin.connections

    (stranger, mine), connections = asyncio.run(main())
    assert refused_by_gate(stranger)
    assert (mine.payload, connections) == (b"mine", 1)


@pytest.mark.parametrize("port", [22, 25, 81, 110, 143, 587, 1023, 2049, 6000, 6667, 10080])
def test_ports_of_other_protocols_are_refused(port: int) -> None:
    """An HTTP request must not be made to speak SMTP or IRC; 80, 443 and ordinary high ports are web ports."""
    capture, loop = watched_fetch(f"http://good.test:{port}/", {"good.test": ["93.184.215.14"]})
    assert refused_by_gate(capture)
    assert loop.asked == []
    for fine in (443, 1024, 8080, 8443, 65535):
        assert watched_fetch(f"http://good.test:{fine}/", {"good.test": ["93.184.215.14"]})[1].asked


def test_rebinding_between_check_and_connect_gains_nothing() -> None:
    """The name is resolved once, and the connection goes to that answer; the next fetch is judged anew."""
    loop = WatchedLoop()

    async def main() -> list[Capture]:
        resolver = StaticResolver({"rebind.test": ["93.184.215.14"]})
        fetcher = WireFetcher(SystemClock(), Gate(), resolver)
        first = await fetcher.fetch(FetchRequest(url="http://rebind.test/"))
        resolver.answers["rebind.test"] = ["127.0.0.1"]
        second = await fetcher.fetch(FetchRequest(url="http://rebind.test/"))
        assert resolver.asked == ["rebind.test", "rebind.test"]
        return [first, second]

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        _, second = runner.run(main())
    assert loop.asked == [("93.184.215.14", 80)]
    assert refused_by_gate(second)


class StrayLoop(asyncio.SelectorEventLoop):
    """Connects somewhere else than it was told, as a transparent redirection would."""

    stray_port = 0

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **kw: Any) -> Any:
        assert host == "93.184.215.14"
        assert port in {80, 443}
        return await super().create_connection(protocol_factory, "127.0.0.1", self.stray_port, **kw)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_connection_that_ends_elsewhere_sends_nothing(scheme: str) -> None:
    """The peer is compared with the judged address before a request, or a TLS handshake, goes out."""
    loop = StrayLoop()

    async def main() -> tuple[Capture, list[int]]:
        clock = SystemClock()
        async with RawOrigin(["stall"], clock) as origin:
            loop.stray_port = origin.port
            resolver = StaticResolver({"good.test": ["93.184.215.14"]})
            fetcher = WireFetcher(clock, Gate(), resolver, NO_AUTHORITIES)
            capture = await fetcher.fetch(FetchRequest(url=f"{scheme}://good.test/"))
            await clock.sleep(0.05)
            return capture, [origin.connections, origin.received_bytes]

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        capture, seen = runner.run(main())
    assert refused_by_gate(capture)
    assert seen == [1, 0]


def test_environment_proxies_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever http_proxy says in the environment, the connection is asked for at the checked address."""
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    _, loop = watched_fetch("http://good.test/", {"good.test": ["93.184.215.14"]})
    assert loop.asked == [("93.184.215.14", 80)]

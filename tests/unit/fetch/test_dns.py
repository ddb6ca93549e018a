"""Look-ups over the wire: lifetimes, failures told apart, bounds, and what the gate makes of answers that move."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from limpet.clock import SystemClock
from limpet.fetch import Answer, FetchRequest, Gate, NetFailure, Owned, WireFetcher
from limpet.fetch.dns import DnsResolver
from limpet.testing.dns import REFUSED, SERVFAIL, DnsAnswer, FakeDns
from limpet.testing.loop import SimClock
from limpet.testing.web import RawOrigin

LoopFactory = Callable[[], asyncio.AbstractEventLoop]
A1 = DnsAnswer(addresses=("192.0.2.1",))


class SteppedClock(SimClock):
    """A clock that a test moves by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def run(loop_factory: LoopFactory, main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main)


def test_an_answer_has_both_families_and_its_lifetime(loop_factory: LoopFactory) -> None:
    """All addresses of a name, so that the gate can judge them all; a name is absolute, whatever resolv.conf says."""

    async def main() -> None:
        both = DnsAnswer(addresses=("192.0.2.1", "192.0.2.2", "2001:db8::1"), ttl_seconds=700)
        async with FakeDns({"a.test": both, "one": A1}) as dns:
            resolver = DnsResolver(SystemClock(), [dns.address])
            found = await resolver.resolve("A.test.")
            assert isinstance(found, Answer)
            assert sorted(found.addresses) == ["192.0.2.1", "192.0.2.2", "2001:db8::1"]
            assert found.ttl_seconds == 700
            assert isinstance(await resolver.resolve("one"), Answer)
            assert set(dns.asked) == {"a.test", "one"}
            await resolver.close()

    run(loop_factory, main())


@pytest.mark.parametrize(("said_seconds", "kept_seconds"), [(1, 60), (700, 700), (1_000_000, 21_600)])
def test_lifetimes_are_clamped(said_seconds: int, kept_seconds: int, loop_factory: LoopFactory) -> None:
    """60 s to 6 h, whatever the zone says; then the name is asked for again."""

    async def main() -> None:
        clock = SteppedClock()
        async with FakeDns({"a.test": DnsAnswer(addresses=("192.0.2.1",), ttl_seconds=said_seconds)}) as dns:
            resolver = DnsResolver(clock, [dns.address])
            first = await resolver.resolve("a.test")
            dns.names["a.test"] = DnsAnswer(addresses=("192.0.2.9",), ttl_seconds=said_seconds)
            clock.now += kept_seconds - 1
            assert await resolver.resolve("a.test") == first
            await resolver.close()
            again = DnsResolver(clock, [dns.address])  # c-ares has a cache of its own, which keeps the true lifetime
            again._entries = resolver._entries
            clock.now += 2
            assert await again.resolve("a.test") != first
            await again.close()

    run(loop_factory, main())


@pytest.mark.parametrize(
    ("said", "nxdomain"),
    [
        (DnsAnswer(code=3), True),
        (DnsAnswer(), False),
        (DnsAnswer(code=SERVFAIL), False),
        (DnsAnswer(code=REFUSED), False),
    ],
)
def test_failures_are_told_apart(said: DnsAnswer, nxdomain: bool, loop_factory: LoopFactory) -> None:
    """Only a name that does not exist is called so; a name without addresses, and a broken server, are not."""

    async def main() -> None:
        async with FakeDns({"a.test": said}) as dns:
            resolver = DnsResolver(SystemClock(), [dns.address])
            failed = await resolver.resolve("a.test")
            assert isinstance(failed, NetFailure)
            assert (failed.kind, failed.nxdomain) == ("dns", nxdomain)
            await resolver.close()

    run(loop_factory, main())


def test_a_silent_server_ends_in_a_timeout(loop_factory: LoopFactory) -> None:
    """No caller waits longer than the resolver's own bound."""

    async def main() -> None:
        async with FakeDns({"a.test": DnsAnswer(silent=True)}) as dns:
            resolver = DnsResolver(SystemClock(), [dns.address], lookup_seconds_max=0.3)
            failed = await resolver.resolve("a.test")
            assert failed == NetFailure(kind="dns", detail="look-up timed out")
            await resolver.close()

    run(loop_factory, main())


def test_callers_share_a_look_up_and_the_rest_wait_in_line(loop_factory: LoopFactory) -> None:
    """One name is asked for once however many ask; no more names at a time than the bound."""

    async def main() -> None:
        silent = {f"s{number}.test": DnsAnswer(silent=True) for number in range(2)}
        async with FakeDns({"a.test": A1, **silent}) as dns:
            resolver = DnsResolver(SystemClock(), [dns.address], lookups_in_flight_max=2, lookup_seconds_max=0.5)
            same = await asyncio.gather(*(resolver.resolve("a.test") for _ in range(20)))
            assert len(set(map(str, same))) == 1
            assert len(dns.asked) == 2  # A and AAAA
            stuck = [asyncio.ensure_future(resolver.resolve(name)) for name in silent]
            await SystemClock().sleep(0.05)
            dns.names["b.test"] = A1
            late = asyncio.ensure_future(resolver.resolve("b.test"))
            await SystemClock().sleep(0.05)
            assert "b.test" not in dns.asked
            await asyncio.gather(*stuck, late)
            await resolver.close()

    run(loop_factory, main())


def test_names_of_this_machine_go_on_working(loop_factory: LoopFactory) -> None:
    """/etc/hosts comes before any server."""

    async def main() -> None:
        async with FakeDns() as dns:
            resolver = DnsResolver(SystemClock(), [dns.address])
            found = await resolver.resolve("localhost")
            assert isinstance(found, Answer)
            assert set(found.addresses) <= {"127.0.0.1", "::1"}
            assert dns.asked == []
            await resolver.close()

    run(loop_factory, main())


def test_an_answer_that_moves_inside_is_judged_again_at_the_connection(loop_factory: LoopFactory) -> None:
    """Rebinding: a name that was public and now leads to loopback, alone or among public addresses, gets no packet."""

    async def main() -> None:
        async with FakeDns({"a.test": A1}) as dns, RawOrigin([b"HTTP/1.1 200 OK\r\n\r\nx"], SystemClock()) as origin:
            for inside in (("127.0.0.1",), ("8.8.8.8", "127.0.0.1"), ("::ffff:127.0.0.1",), ("64:ff9b::7f00:1",)):
                dns.names["a.test"] = DnsAnswer(addresses=inside)
                resolver = DnsResolver(SystemClock(), [dns.address])
                fetcher = WireFetcher(SystemClock(), Gate(Owned()), resolver)
                capture = await fetcher.fetch(FetchRequest(url=f"http://a.test:{origin.port}/"))
                assert capture.failure is not None
                assert capture.failure.kind == "gate"
                granted = FetchRequest(url=f"http://a.test:{origin.port}/", addresses=inside)
                capture = await fetcher.fetch(granted)
                assert capture.failure is not None
                assert capture.failure.kind == "gate"
                await fetcher.close()
            assert origin.connections == 0

    run(loop_factory, main())


def test_many_hosts_share_one_address(loop_factory: LoopFactory) -> None:
    """Each name is its own look-up, and each request names its own host."""

    async def main() -> None:
        names = {f"h{number}.test": DnsAnswer(addresses=("127.0.0.1",)) for number in range(20)}
        async with FakeDns(names) as dns, RawOrigin([b"HTTP/1.1 204 No\r\n\r\n"], SystemClock()) as origin:
            gate = Gate(Owned.parse(["127.0.0.0/8"]))
            fetcher = WireFetcher(SystemClock(), gate, DnsResolver(SystemClock(), [dns.address]))
            requests = [FetchRequest(url=f"http://{name}:{origin.port}/", owned=True) for name in names]
            captures = await asyncio.gather(*map(fetcher.fetch, requests))
            assert {capture.head.status for capture in captures if capture.head} == {204}
            assert len(captures) == origin.connections == 20
            hosts = {head.split(b"\r\n")[1] for head in origin.requests}
            assert hosts == {b"Host: %b:%d" % (name.encode(), origin.port) for name in names}
            await fetcher.close()

    run(loop_factory, main())

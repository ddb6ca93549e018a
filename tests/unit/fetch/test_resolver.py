"""Look-ups: what is cached how long, what is told apart, what is bounded."""

import asyncio
import socket
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from limpet.fetch import Answer, NetFailure, SystemResolver
from limpet.testing.loop import SimClock, VirtualLoop, run_virtual

T = TypeVar("T")


class ScriptedLookup:
    """A blocking look-up that answers from a list (the last entry for ever), and remembers who asked."""

    def __init__(self, *results: Answer | OSError) -> None:
        self.asked: list[str] = []
        self._results = results

    def __call__(self, host: str) -> Answer:
        self.asked.append(host)
        result = self._results[min(len(self.asked), len(self._results)) - 1]
        if isinstance(result, OSError):
            raise result
        return result


class SlowLookup:
    """A look-up that stands still until it is released, and knows how many stand beside it."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.standing = 0
        self.standing_max = 0
        self._lock = threading.Lock()

    def __call__(self, _host: str) -> Answer:
        with self._lock:
            self.standing += 1
            self.standing_max = max(self.standing_max, self.standing)
        self.release.wait(5)
        with self._lock:
            self.standing -= 1
        return Answer(addresses=("192.0.2.1",))


class SteppedClock(SimClock):
    """A clock that a test moves by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def answer(*addresses: str, ttl_seconds: float = 60.0) -> Answer:
    return Answer(addresses=addresses, ttl_seconds=ttl_seconds)


def gai(code: int) -> socket.gaierror:
    return socket.gaierror(code, "scripted")


def run(main: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(main)


@pytest.mark.parametrize(
    ("ttl_seconds", "kept_seconds"),
    [(0.0, 60.0), (59.0, 60.0), (300.0, 300.0), (21_600.0, 21_600.0), (1e9, 21_600.0)],
)
def test_answers_live_for_their_clamped_ttl(ttl_seconds: float, kept_seconds: float) -> None:
    """60 s at least, 6 h at most, whatever the zone says."""

    async def main() -> None:
        clock, lookup = SteppedClock(), ScriptedLookup(answer("1.1.1.1", ttl_seconds=ttl_seconds))
        resolver = SystemResolver(clock, lookup)
        first = await resolver.resolve("a.test")
        assert first == answer("1.1.1.1", ttl_seconds=kept_seconds)
        clock.now += kept_seconds - 0.5
        assert await resolver.resolve("a.test") == first
        assert lookup.asked == ["a.test"]
        clock.now += 1.0
        await resolver.resolve("a.test")
        assert lookup.asked == ["a.test", "a.test"]
        await resolver.close()

    run(main())


@pytest.mark.parametrize(
    ("fault", "nxdomain", "kept_seconds"),
    [
        (gai(socket.EAI_NONAME), True, 300.0),
        (gai(socket.EAI_NODATA), False, 300.0),
        (Answer(addresses=()), False, 300.0),
        (gai(socket.EAI_AGAIN), False, 5.0),
        (gai(socket.EAI_FAIL), False, 5.0),
        (OSError("out of file descriptors"), False, 5.0),
    ],
)
def test_a_name_that_is_not_there_is_told_from_a_resolver_that_is_not(
    fault: OSError | Answer, nxdomain: bool, kept_seconds: float
) -> None:
    """NXDOMAIN is a fact about the name and kept for 5 min; a broken look-up is not, and is asked again soon."""

    async def main() -> None:
        clock, lookup = SteppedClock(), ScriptedLookup(fault, answer("1.1.1.1"))
        resolver = SystemResolver(clock, lookup)
        failed = await resolver.resolve("a.test")
        assert isinstance(failed, NetFailure)
        assert (failed.kind, failed.nxdomain) == ("dns", nxdomain)
        clock.now += kept_seconds - 0.5
        assert await resolver.resolve("a.test") == failed
        clock.now += 1.0
        assert await resolver.resolve("a.test") == answer("1.1.1.1")
        assert len(lookup.asked) == 2
        await resolver.close()

    run(main())


@pytest.mark.parametrize(
    ("host", "ip"), [("127.0.0.1", "127.0.0.1"), ("[::1]", "::1"), ("::1", "::1"), ("10.0.0.1.", "10.0.0.1")]
)
def test_literals_are_not_looked_up(host: str, ip: str) -> None:
    """An address answers itself."""

    async def main() -> None:
        lookup = ScriptedLookup(answer("9.9.9.9"))
        resolver = SystemResolver(SteppedClock(), lookup)
        found = await resolver.resolve(host)
        assert isinstance(found, Answer)
        assert (found.addresses, lookup.asked) == ((ip,), [])
        await resolver.close()

    run(main())


@pytest.mark.parametrize("host", ["", ".", "a" * 254, "a\0b", "bücher.test", "a..b", "a" * 64 + ".test"])
def test_what_cannot_be_a_name_is_not_looked_up(host: str) -> None:
    """It does not exist, and the system's resolver is not asked to make sense of it."""

    async def main() -> None:
        lookup = ScriptedLookup(answer("9.9.9.9"))
        resolver = SystemResolver(SteppedClock(), lookup)
        failed = await resolver.resolve(host)
        assert isinstance(failed, NetFailure)
        assert (failed.nxdomain, lookup.asked) == (True, [])
        await resolver.close()

    run(main())


def test_callers_of_one_name_share_a_lookup() -> None:
    """Fifty fetches of a new host are one question; one caller's cancellation does not fail the others."""

    async def main() -> None:
        lookup = SlowLookup()
        resolver = SystemResolver(SteppedClock(), lookup)
        tasks = [asyncio.ensure_future(resolver.resolve(name)) for name in ["a.test", "A.test.", "a.test"] * 20]
        await asyncio.wait(tasks, timeout=0.05)
        tasks[0].cancel()
        await asyncio.wait(tasks[:1])
        lookup.release.set()
        results = await asyncio.gather(*tasks[1:])
        assert all(result == answer("192.0.2.1") for result in results)
        assert lookup.standing_max == 1
        await resolver.close()

    run(main())


def test_lookups_in_flight_are_bounded() -> None:
    """A crawl of many new hosts does not become a flood of threads and queries."""

    async def main() -> None:
        lookup = SlowLookup()
        resolver = SystemResolver(SteppedClock(), lookup, lookups_in_flight_max=4)
        tasks = [asyncio.ensure_future(resolver.resolve(f"h{number}.test")) for number in range(30)]
        await asyncio.wait(tasks, timeout=0.1)
        assert lookup.standing == 4
        lookup.release.set()
        await asyncio.gather(*tasks)
        assert lookup.standing_max == 4
        await resolver.close()

    run(main())


def test_the_cache_is_bounded() -> None:
    """A spider trap of host names costs look-ups, not memory; the oldest entries go first."""

    async def main() -> None:
        lookup = ScriptedLookup(answer("1.1.1.1"))
        resolver = SystemResolver(SteppedClock(), lookup, entries_max=10)
        for number in range(25):
            await resolver.resolve(f"h{number}.test")
        await resolver.resolve("h24.test")
        assert len(lookup.asked) == 25
        await resolver.resolve("h0.test")
        assert len(lookup.asked) == 26
        await resolver.close()

    run(main())


def test_a_lookup_that_hangs_ends_for_its_callers() -> None:
    """The bound is the resolver's own, in the loop's time; the answer that never came counts as broken."""
    loop = VirtualLoop()
    lookup = SlowLookup()

    async def main() -> None:
        resolver = SystemResolver(SimClock(loop), lookup, lookup_seconds_max=15.0)
        failed = await resolver.resolve("a.test")
        assert isinstance(failed, NetFailure)
        assert (failed.kind, failed.nxdomain, failed.detail) == ("dns", False, "look-up timed out")
        assert loop.time() >= 15.0
        lookup.release.set()
        await resolver.close()

    run_virtual(main(), loop)


def test_closing_ends_those_who_wait() -> None:
    """Nobody is left hanging on a resolver that is gone."""

    async def main() -> None:
        lookup = SlowLookup()
        resolver = SystemResolver(SteppedClock(), lookup)
        task = asyncio.ensure_future(resolver.resolve("a.test"))
        await asyncio.wait([task], timeout=0.05)
        await resolver.close()
        with pytest.raises(asyncio.CancelledError):
            await task
        lookup.release.set()

    run(main())


def test_the_machines_resolver_knows_localhost() -> None:
    """The real look-up, without a network: addresses of both families that the machine has, each once."""

    async def main() -> Answer | NetFailure:
        resolver = SystemResolver(SteppedClock())
        try:
            return await resolver.resolve("localhost")
        finally:
            await resolver.close()

    found = run(main())
    assert isinstance(found, Answer)
    assert "127.0.0.1" in found.addresses or "::1" in found.addresses
    assert len(set(found.addresses)) == len(found.addresses)

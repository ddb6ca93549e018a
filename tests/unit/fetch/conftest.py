"""One fetch of the wire engine from a scripted loopback origin, on both event loops."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
import uvloop

from limpet.clock import SystemClock
from limpet.fetch import Capture, FetchLimits, FetchRequest, Gate, OnHead, Owned, WireFetcher
from limpet.testing.web import RawOrigin, Script, StaticResolver, Step


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def loop_factory(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    """Each test that takes this runs once on either loop."""
    factory: Callable[[], asyncio.AbstractEventLoop] = request.param
    return factory


@pytest.fixture
def fetch_raw(loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> Callable[..., Capture]:
    """`fetch_raw(script, path="/", limits=None, on_head=None) -> Capture`, one exchange with a `RawOrigin`."""

    async def once(
        script: Sequence[Step] | Script,
        path: str,
        limits: FetchLimits,
        on_head: OnHead | None,
    ) -> Capture:
        clock = SystemClock()
        fetcher = WireFetcher(clock, Gate(Owned.parse(["127.0.0.0/8"])), StaticResolver())
        async with RawOrigin(script, clock) as origin:
            request = FetchRequest(url=origin.url(path), owned=True, limits=limits)
            try:
                return await fetcher.fetch(request, on_head)
            finally:
                await fetcher.close()

    def fetch(
        script: Sequence[Step] | Script,
        path: str = "/",
        limits: FetchLimits | None = None,
        on_head: OnHead | None = None,
    ) -> Capture:
        quick = FetchLimits(idle_seconds_max=2.0, wall_seconds_max=5.0)
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(once(script, path, limits or quick, on_head))

    return fetch

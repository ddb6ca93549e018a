"""Turns one by one: what is passed on with them, in interleavings that a rehearsal meets seldom."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from limpet.membership import Beat, Lease, Observer, Timing
from limpet.politeness.keys import Key
from limpet.politeness.leasedshares import LeasedShares
from limpet.politeness.turns import AGAIN_US, UNASKED_US
from limpet.testing.memory_leases import MemoryLeaseTable
from limpet.testing.memory_shares import MemoryShareTable
from unit.politeness.leased import HandClock

SLOW = Key("platform example", 8, 10_000_000)
TURN_SECONDS = 5.0
LATER_US = 60_000_000


class Bench:
    """Nodes over one table, on one clock that a test sets, with one observer."""

    def __init__(self) -> None:
        self.clock = HandClock(LATER_US)
        self.table = MemoryShareTable()
        self.leases = MemoryLeaseTable()
        self.observer = Observer(self.leases, self.clock, Timing())

    async def node(self, name: str) -> LeasedShares:
        """One whose lease does not end; the key's first interval is over."""
        lease = Lease(name, self.clock, 10**15)
        await self.leases.beat(Beat(name, "crawlnode", 1))
        lease.renewed(0)
        shares = LeasedShares(
            self.table,
            self.clock,
            lease=lambda: lease,
            observer=self.observer,
            owned=lambda: 16,
            shards=32,
            turn_seconds=TURN_SECONDS,
        )
        shares.begin(SLOW, self.clock.now_us)
        await self.observer.look()
        return shares

    def take(self, shares: LeasedShares, key: Key = SLOW) -> bool:
        """A start now, if it may be; it ends at once."""
        taken = shares.take([key], self.clock.now_us, day=1, budget=0)
        if taken:
            shares.give([key])
        return taken

    async def pass_time(self, us: int, *asking: LeasedShares) -> None:
        """Who is `asking` asks twice a second."""
        until_us = self.clock.now_us + us
        while self.clock.now_us < until_us:
            self.clock.now_us += min(500_000, until_us - self.clock.now_us)
            for shares in asking:
                shares.blocked([SLOW], self.clock.now_us)


def play(scenario: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
    """On a fresh bench."""

    async def main() -> None:
        await scenario(Bench())

    asyncio.run(main())


def test_a_turn_that_is_passed_on_unused_keeps_its_rest() -> None:
    """Who gets it third is told of the first one's start, though the second made none and knows of none."""

    async def scenario(bench: Bench) -> None:
        first, second, third = [await bench.node(name) for name in ("first", "second", "third")]
        first.blocked([SLOW], bench.clock.now_us)
        await first.step()
        assert bench.take(first)
        started_us = bench.clock.now_us
        for waiting in (second, third):
            waiting.blocked([SLOW], bench.clock.now_us)
            await waiting.step()
        await first.step()  # hears that others wait
        await bench.pass_time(int(TURN_SECONDS * 1e6) - UNASKED_US, first, second, third)
        await bench.pass_time(UNASKED_US, first, third)
        await first.step()
        await second.step()  # its turn, which it does not want any more
        assert (await bench.table.turn(SLOW.name)).holder == "third"
        await third.step()
        while not bench.take(third):
            bench.clock.now_us += 10_000
        assert bench.clock.now_us >= started_us + SLOW.interval_us

    play(scenario)


def test_a_key_known_from_a_notice_keeps_its_interval() -> None:
    """A notice names a key and nothing more; who takes it from one that left waits an interval all the same."""

    async def scenario(bench: Bench) -> None:
        first, second = await bench.node("first"), await bench.node("second")
        first.blocked([SLOW], bench.clock.now_us)
        await first.step()
        await bench.table.notify("second", SLOW.name, "1")
        await second.step()
        assert bench.take(first)
        started_us = bench.clock.now_us
        await bench.leases.forget("first")
        second.blocked([SLOW], bench.clock.now_us)
        await second.step()  # whoever is named may live
        await bench.pass_time(AGAIN_US, second)
        await bench.observer.look()
        await second.step()
        while not bench.take(second):
            bench.clock.now_us += 10_000
        assert bench.clock.now_us >= started_us + SLOW.interval_us

    play(scenario)

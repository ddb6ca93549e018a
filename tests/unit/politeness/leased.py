"""Leased shares as the suite of all ledgers sees them: what is obtained in the background has arrived."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from limpet.membership import Lease, Observer, Timing
from limpet.politeness.keys import Key
from limpet.politeness.leasedshares import LeasedShares
from limpet.politeness.shares import Blocked, Shares
from limpet.testing.loop import EPOCH_US
from limpet.testing.memory_leases import MemoryLeaseTable
from limpet.testing.memory_shares import MemoryShareTable

T = TypeVar("T")
ROUNDS = 5


class HandClock:
    """Boot time as a test sets it."""

    def __init__(self, boot_us: int = 0) -> None:
        self.now_us = boot_us

    def wall_us(self) -> int:
        return EPOCH_US + self.now_us

    def monotonic(self) -> float:
        return self.now_us / 1e6

    def boot_us(self) -> int:
        return self.now_us

    def boot_id(self) -> str:
        return "hand"

    async def sleep(self, seconds: float) -> None:
        self.now_us += int(seconds * 1e6)


class Nodes:
    """Several processes over one table; the first owns all shards, the others none."""

    def __init__(self, born_us: int) -> None:
        self.clock = HandClock(born_us)
        self.table = MemoryShareTable()
        self._loop = asyncio.new_event_loop()
        self._open: dict[int, LeasedShares] = {}

    def slot(self, number: int) -> Shares:
        if number not in self._open:
            lease = Lease(f"incarnation{number}", self.clock, 10**15)
            lease.renewed(0)
            self._open[number] = LeasedShares(
                self.table,
                self.clock,
                lease=lambda: lease,
                observer=Observer(MemoryLeaseTable(), self.clock, Timing()),
                owned=lambda: 0 if number else 32,
                shards=32,
                turn_seconds=0.0,
                unasked_budget_us=0,
            )
        return Settled(self, self._open[number])

    def settle(self) -> None:
        for shares in self._open.values():
            self._loop.run_until_complete(shares.step())

    def close(self) -> None:
        self._loop.close()


class Settled:
    """`Shares` that waits until it gets its share, or would not in any time."""

    def __init__(self, nodes: Nodes, shares: LeasedShares) -> None:
        self._nodes = nodes
        self._shares = shares

    def _until(self, ask: Callable[[], T], good: Callable[[T], bool]) -> T:
        for _ in range(ROUNDS):
            if good(answer := ask()):
                break
            self._nodes.settle()
        return answer

    def blocked(self, keys: Sequence[Key], now_us: int) -> Blocked | None:
        self._nodes.clock.now_us = now_us
        return self._until(lambda: self._shares.blocked(keys, now_us), lambda answer: answer is None)

    def take(self, keys: Sequence[Key], now_us: int, *, day: int, budget: int) -> bool:
        self._nodes.clock.now_us = now_us
        return self._until(lambda: self._shares.take(keys, now_us, day=day, budget=budget), bool)

    def give(self, keys: Sequence[Key]) -> None:
        self._shares.give(keys)
        self._nodes.settle()

    def refund(self, day: int) -> None:
        self._shares.refund(day)
        self._nodes.clock.now_us += 1
        self._nodes.settle()
        self._nodes.settle()  # who looked before it was given back looks again

    def requests(self, day: int) -> int:
        return self._shares.requests(day)

    def restore(self, day: int, requests: int) -> None:
        self._shares.restore(day, requests)
        self._nodes.settle()

    def begin(self, key: Key, now_us: int) -> None:
        self._shares.begin(key, now_us)

    def trouble(self, key: Key, host: str, until_us: int, now_us: int) -> int:
        self._nodes.clock.now_us = now_us
        self._shares.trouble(key, host, until_us, now_us)
        self._nodes.settle()
        return self._shares.trouble(key, host, until_us, now_us)

"""Being there: an incarnation that beats, and a fresh one when its lease was lost."""

import asyncio
from collections.abc import Callable

from limpet.clock import Clock
from limpet.membership.lease import Lease
from limpet.membership.table import Beat, LeaseTable
from limpet.membership.timing import Timing
from limpet.model.errors import Definite, Indefinite

RETRIES_A_RENEWAL = 4
"""How often a renewal that failed is tried again before the next would be due."""


class Presence:
    """Keeps the lease of this process, in any role.

    `lease` is the one in force: whoever acts under it keeps the object, not the presence, since after a lapse there is
    another one. `wants` names the shards to have, for others to see; a change is told with the next beat, at once.
    """

    def __init__(
        self, table: LeaseTable, clock: Clock, timing: Timing, *, role: str, new_incarnation: Callable[[], str]
    ) -> None:
        self.role = role
        self.wants: Callable[[], frozenset[int]] = frozenset
        self.lapses = 0
        self._table = table
        self._clock = clock
        self._timing = timing
        self._new_incarnation = new_incarnation
        self._count = 0
        self._told: frozenset[int] | None = None
        self._next_us = 0
        self.lease = self.new_lease(new_incarnation())

    def new_lease(self, incarnation: str) -> Lease:
        """The lease of a fresh incarnation."""
        return Lease(incarnation, self._clock, self._timing.lease_us)

    async def run(self, stop: asyncio.Event) -> None:
        """Beat until `stop`; then the incarnation is no more, and the table is told if it can be."""
        try:
            while not stop.is_set():
                await self.step()
                await nap(self._clock, self._timing.poll_seconds / RETRIES_A_RENEWAL, stop)
        finally:
            self.lease.end()
        try:
            await self._table.forget(self.lease.incarnation)
        except (Definite, Indefinite):
            return  # it will be found dead

    async def step(self) -> None:
        """Renew if it is time to, or if there is something to tell."""
        if self.lease.gone():
            self._begin_anew()
        wants = self.wants()
        if self._clock.boot_us() < self._next_us and wants == self._told:
            return
        lease, sent_us = self.lease, self._clock.boot_us()
        self._count += 1
        try:
            await self._table.beat(Beat(lease.incarnation, self.role, self._count, wants))
        except (Definite, Indefinite):
            self._next_us = self._clock.boot_us() + self._timing.renewal_us // RETRIES_A_RENEWAL
            self._told = wants
            return
        lease.renewed(sent_us)
        self._next_us = sent_us + self._timing.renewal_us
        self._told = wants

    def _begin_anew(self) -> None:
        self.lapses += 1
        self.lease = self.new_lease(self._new_incarnation())
        self._count = 0
        self._next_us = 0


async def nap(clock: Clock, seconds: float, until: asyncio.Event) -> None:
    """Sleep for `seconds`, or until the event is set."""
    if until.is_set():
        return
    sleep = asyncio.ensure_future(clock.sleep(seconds))
    event = asyncio.ensure_future(until.wait())
    try:
        await asyncio.wait({sleep, event}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        sleep.cancel()
        event.cancel()

"""Ceilings that span the nodes of a crawl, as leased shares: no share, no send.

Three kinds, each obtained in the background (`run`) and used without waiting:

- what sites share (platforms, addresses) goes by turns: see `limpet.politeness.turns`;
- the crawl's own pace is divided by the shards that a process owns, of all shards;
- the budget of a day is drawn in portions: see `limpet.politeness.dayportions`.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from limpet.clock import Clock
from limpet.membership import Lease, Observer
from limpet.membership.presence import nap
from limpet.model.errors import Definite, Indefinite
from limpet.politeness.dayportions import DayPortions
from limpet.politeness.keys import DAY_SECONDS, GLOBAL, Key
from limpet.politeness.shares import Blocked, LocalShares
from limpet.politeness.sharetable import ShareTable
from limpet.politeness.turns import Turns

TURN_SECONDS: Final = 5.0
STEP_SECONDS: Final = 0.25
ASK_POLL_US: Final = 100_000
"""When to ask again for a share that is being obtained."""

UNASKED_BUDGET_US: Final = 60_000_000


class LeasedShares:
    """`Shares` of one process among several that have a `ShareTable` in common.

    `lease` is the one in force now (`Presence.lease`): without it nothing is granted. `observer` tells who is dead.
    `owned` counts the shards that are this process's now, of `shards`. Nothing is granted unless `run` is running.
    Rehearsals put in parts that are wrong.
    """

    turns_type: type[Turns] = Turns
    portions_type: type[DayPortions] = DayPortions

    def __init__(
        self,
        table: ShareTable,
        clock: Clock,
        *,
        lease: Callable[[], Lease],
        observer: Observer,
        owned: Callable[[], int],
        shards: int,
        turn_seconds: float = TURN_SECONDS,
        unasked_budget_us: int = UNASKED_BUDGET_US,
    ) -> None:
        self._clock = clock
        self._lease = lease
        self._owned = owned
        self._shards = shards
        self._ledger = LocalShares(clock.boot_us())
        turn_us = int(turn_seconds * 1e6)
        self._turns = self.turns_type(table, clock, self._ledger, lease=lease, observer=observer, turn_us=turn_us)
        self._portions = self.portions_type(table, lambda: owned() / shards, unasked_budget_us)
        self._last: Lease | None = None

    # -- see `Shares` ------------------------------------------------------------------------------------------------
    def blocked(self, keys: Sequence[Key], now_us: int) -> Blocked | None:
        """See `Shares.blocked`."""
        if not keys:
            return None
        if not self._lease().alive():
            return Blocked(keys[0], ASK_POLL_US)
        mine, lacking = self._mine(keys)
        if lacking is not None:
            return Blocked(lacking, ASK_POLL_US)
        found = self._ledger.blocked(mine, now_us)
        if found is not None:
            return Blocked(next(key for key in keys if key.name == found.key.name), found.us)
        for key in keys:
            if key.name == GLOBAL and not self._budgeted():
                return Blocked(key, ASK_POLL_US)
        return None

    def take(self, keys: Sequence[Key], now_us: int, *, day: int, budget: int) -> bool:
        """See `Shares.take`."""
        if not self._lease().alive() or (budget > 0 and not self._asks(day, budget)):
            return False
        mine, lacking = self._mine(keys)
        if lacking is not None or not self._ledger.take(mine, now_us, day=day, budget=0):
            return False
        if budget > 0:
            self._portions.spend()
        for key in keys:
            if _by_turns(key):
                self._turns.used(key)
        return True

    def give(self, keys: Sequence[Key]) -> None:
        """See `Shares.give`."""
        self._ledger.give(keys)
        for key in keys:
            if _by_turns(key):
                self._turns.closed(key)

    def refund(self, day: int) -> None:
        """See `Shares.refund`."""
        self._portions.refund(day)

    def requests(self, day: int) -> int:
        """See `Shares.requests`: of all nodes; what others have drawn and not yet sent is among them."""
        return self._portions.requests(day)

    def restore(self, day: int, requests: int) -> None:
        """See `Shares.restore`: of all nodes together."""
        self._portions.restore(day, requests)
        self._turns.wake.set()

    def begin(self, key: Key, now_us: int) -> None:
        """See `Shares.begin`."""
        self._ledger.begin(key, now_us)

    def trouble(self, key: Key, host: str, until_us: int, now_us: int) -> int:
        """See `Shares.trouble`. Others' news count as far as they have arrived; they hear of this in a moment."""
        until = self._ledger.trouble(key, host, until_us, now_us)
        self._turns.told(key, host, self._clock.wall_us() + until_us - now_us)
        return until

    # -- shares of ours ----------------------------------------------------------------------------------------------
    def _mine(self, keys: Sequence[Key]) -> tuple[list[Key], Key | None]:
        """The keys as far as they are ours, and the first that is not at all.

        Turns are asked for in the order of names, the next when the one before is ours: so two nodes never wait for
        each other.
        """
        mine: list[Key] = []
        for key in sorted(keys, key=lambda key: key.name):
            part = self._part(key, keys)
            if part is None:
                return mine, key
            mine.append(part)
        return mine, None

    def _part(self, key: Key, needs: Sequence[Key]) -> Key | None:
        if _by_turns(key):
            return self._turns.narrowed(key, needs)
        owned = self._owned()
        return replace(key, interval_us=-(-key.interval_us * self._shards // owned)) if owned > 0 else None

    def _asks(self, day: int, budget: int) -> bool:
        has = self._portions.asked(day, budget, self._clock.boot_us())
        if not has:
            self._turns.wake.set()
        return has

    def _budgeted(self) -> bool:
        """Whether a request may be paid for now; before the first `take` nobody knows of a budget."""
        day, budget = self._clock.wall_us() // (DAY_SECONDS * 1_000_000), self._portions.budget
        return budget == 0 or self._asks(day, budget)

    # -- in the background -------------------------------------------------------------------------------------------
    async def run(self, stop: asyncio.Event) -> None:
        """Obtain and pass on shares until `stop`."""
        while not stop.is_set():
            self._turns.wake.clear()
            await self.step()
            await nap(self._clock, STEP_SECONDS, self._turns.wake if not stop.is_set() else stop)

    async def step(self) -> None:
        """Look after everything once; what the table refuses is tried again by the next."""
        lease = self._lease()
        if lease is not self._last:
            self._last = lease
            self._portions.lapse()
        try:
            await self._turns.step()
            if lease.alive():
                await self._portions.step(lease.incarnation, self._clock.boot_us())
        except (Definite, Indefinite):
            return


def _by_turns(key: Key) -> bool:
    return key.name != GLOBAL

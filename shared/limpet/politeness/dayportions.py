"""The budget of a day among nodes: each draws a portion at a time from the row of the day.

What all have drawn never exceeds the budget, whatever becomes of nodes and shards during the day. A node that dies
takes with it what it had drawn and not spent: two thousandths of its part of a day at most.
"""

import math
from collections.abc import Callable
from typing import Final

from limpet.model.errors import Definite, Indefinite
from limpet.politeness.sharetable import Drawn, ShareTable

PORTIONS_A_DAY: Final = 1_440
LOOK_US: Final = 2_000_000
"""How old the known count of all nodes may become."""


class DayPortions:
    """What this process may still send of a day's budget.

    `fraction` is the part of the crawl's shards that it owns, which sets the size of its portions and nothing else.
    What nobody asked for during `idle_us` goes back.
    """

    def __init__(self, table: ShareTable, fraction: Callable[[], float], idle_us: int) -> None:
        self._table = table
        self._fraction = fraction
        self._idle_us = idle_us
        self.budget = 0
        self._day = 0
        self._left = 0
        self._known = 0  # drawn by all, as last seen
        self._restored = 0
        self._lacking = False
        self._asked_us: int | None = None
        self._looked_us: int | None = None

    def asked(self, day: int, budget: int, now_us: int) -> bool:
        """Whether a request of `day` may be sent; also the wish for more."""
        self._turn_to(day)
        self.budget = budget
        self._asked_us = now_us
        self._lacking = self._left <= 0
        return not self._lacking

    def spend(self) -> None:
        """One request, after `asked` said yes."""
        self._left -= 1

    def refund(self, day: int) -> None:
        """One that was not sent after all."""
        if day == self._day:
            self._left += 1

    def requests(self, day: int) -> int:
        """Requests sent on a day, by all nodes, as far as is known: those that others have drawn count as sent."""
        self._turn_to(day)
        return max(self._known, self._restored) - self._left

    def restore(self, day: int, requests: int) -> None:
        """At least so many were sent on `day`."""
        self._turn_to(day)
        self._restored = max(self._restored, requests)

    def _turn_to(self, day: int) -> None:
        if day > self._day:
            self._day, self._left, self._known, self._restored = day, 0, 0, 0

    def lapse(self) -> None:
        """Another incarnation from now on: it starts with nothing."""
        self._left = 0

    async def step(self, me: str, now_us: int) -> None:
        """Draw when little is left, return what nobody asks for, pass on what was restored. Raises as the table."""
        day, wish = self._day, self._wish(now_us)
        fresh = self._looked_us is not None and now_us - self._looked_us < min(LOOK_US, self._idle_us)
        if day == 0 or (wish == 0 and fresh and self._restored <= self._known):
            return
        self._looked_us = now_us
        row = await self._table.drawn(day)
        before = max(row.requests, self._restored)
        change = max(-self._left, wish) if wish < 0 else max(0, min(wish, self.budget - before))
        if wish < 0:
            self._left += change  # given up before it is given back
        if before + change != row.requests:
            new = Drawn(row.version + 1, me, before + change)
            done = await self._set(day, new)
            if not done:
                if done is False and day == self._day:
                    self._left -= min(0, change)  # nothing went back
                return
            row = new
        if day == self._day:
            self._known = row.requests
            self._left += max(0, change)
            self._lacking = self._lacking and self._left <= 0

    def _wish(self, now_us: int) -> int:
        if self._asked_us is None or now_us - self._asked_us > self._idle_us:
            return -self._left
        portion = max(1, math.ceil(self.budget * self._fraction() / PORTIONS_A_DAY))
        ahead = portion > 1 and self._left * 2 < portion  # a small budget is drawn when it is needed
        return portion if self._lacking or ahead else 0

    async def _set(self, day: int, new: Drawn) -> bool | None:
        """Whether `new` is there; None = nobody knows, or it may still arrive: what was drawn or went back is lost."""
        try:
            return await self._table.set_drawn(day, new)
        except Definite:
            return False
        except Indefinite:
            try:
                return True if await self._table.drawn(day) == new else None
            except (Definite, Indefinite):
                return None

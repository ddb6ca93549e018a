"""Portions of a day's budget, where the table refuses or does not answer."""

import asyncio

import pytest

from limpet.model.errors import Definite, Indefinite
from limpet.politeness.dayportions import DayPortions
from limpet.politeness.sharetable import Drawn
from limpet.testing.memory_shares import MemoryShareTable

DAY = 20_000
BUDGET = 14_400
IDLE_US = 60_000_000


class FirstDenied(MemoryShareTable):
    """Once, when told to: somebody else is faster, the write is refused, or its answer is lost, done or not."""

    def __init__(self) -> None:
        super().__init__()
        self.fate = ""

    async def set_drawn(self, day: int, new: Drawn) -> bool:
        """See `ShareTable.set_drawn`."""
        fate, self.fate = self.fate, ""
        if fate == "raced":
            now = await self.drawn(day)
            await super().set_drawn(day, Drawn(now.version + 1, "other", now.requests + 7))
        elif fate == "refused":
            raise Definite("not now")
        elif fate == "lost":
            raise Indefinite("the request was lost")
        done = await super().set_drawn(day, new)
        if fate == "unanswered":
            raise Indefinite("the reply was lost")
        return done


@pytest.mark.parametrize(("fate", "counted"), [("raced", 7), ("refused", 0), ("unanswered", 0), ("lost", 5), ("", 0)])
def test_what_nobody_asks_for_goes_back(fate: str, counted: int) -> None:
    """Also when the first try was refused or overtaken. Only what nobody knows of stays counted as drawn."""

    async def main() -> None:
        table = FirstDenied()
        portions = DayPortions(table, lambda: 0.5, IDLE_US)
        assert not portions.asked(DAY, BUDGET, 0)
        await portions.step("me", 0)
        assert portions.asked(DAY, BUDGET, 0)
        assert (await table.drawn(DAY)).requests == 5
        table.fate = fate
        for later in (1, 2):
            await portions.step("me", IDLE_US + later)
        assert (await table.drawn(DAY)).requests == counted

    asyncio.run(main())


@pytest.mark.parametrize("fate", ["raced", "refused", "unanswered", "lost"])
def test_nothing_is_spent_that_was_not_drawn(fate: str) -> None:
    """What a node may send of a day never exceeds what the row counts."""

    async def main() -> None:
        table = FirstDenied()
        table.fate = fate
        portions, spent = DayPortions(table, lambda: 0.5, IDLE_US), 0
        for now_us in range(20):
            while portions.asked(DAY, 12, now_us):
                portions.spend()
                spent += 1
            await portions.step("me", now_us)
        others = 7 if fate == "raced" else 0
        lost = 1 if fate == "lost" else 0
        assert spent + others + lost >= 12
        assert spent + others <= (await table.drawn(DAY)).requests <= 12

    asyncio.run(main())

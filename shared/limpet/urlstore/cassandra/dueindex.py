"""The due index: which URLs wait, when, in two levels that are written in any order and read forward.

An entry stands at a position: its due time, or now if that is later, so that a reader who never turns back will meet
it. Readers stay `lag` behind now for what is still on its way. A writer whose writes have become slow puts its entries
so far ahead of now that row and entry are there before a reader comes by; one whose write took longer than half of the
lag all the same enters the row again, farther ahead. Entries are written before their rows, and never taken out: one is
a row's as long as the row names it, and readers pass the others. Parts that lie behind the cursors are dropped whole.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from limpet.clock import Clock
from limpet.urlstore.cassandra.pace import AHEAD_US_MAX
from limpet.urlstore.cassandra.rows import Entry
from limpet.urlstore.cassandra.session import Row, Session
from limpet.urlstore.types import Lane

FOREVER_US: Final = 2**63 - 1
START: Final = (-1, b"")
"""Before every entry."""
KNOWN_MAX: Final = 50_000
"""Parts and wake entries that a process remembers to have written; after that it forgets all and writes them again."""
TICKS_A_LAG: Final = 4
"""Wake entries of one authority within a quarter of the lag are one."""


class DueIndex:
    """The entries of one shard."""

    def __init__(self, session: Session, shard: int, clock: Clock) -> None:
        self._session, self._shard, self._clock = session, shard, clock
        self._slot_us = session.settings.slot_us
        self._lag_us = session.settings.lag_us
        self._tick_us = max(1, self._lag_us // TICKS_A_LAG)
        self._pace = session.pace
        self._known: set[tuple[object, ...]] = set()
        self._under_way: dict[tuple[object, ...], asyncio.Future[list[Row]]] = {}

    @property
    def safe_us(self) -> int:
        """Nothing is on its way any more that would stand before this."""
        return self._clock.wall_us() - self._lag_us

    def slot(self, at_us: int) -> int:
        """The slot of a position."""
        return at_us // self._slot_us

    async def enter(self, authority: str, host: str, lane: int, due_us: int, fp: bytes, *, ahead_us: int = 0) -> int:
        """Write an entry; its position, which the row has to name (`lane`, `entry_us`). Ask `late_us` afterwards.

        It stands at least `ahead_us` ahead of now.
        """
        began_us = self._clock.wall_us()
        at_us = max(due_us, began_us + max(ahead_us, self._pace.ahead_us))
        slot = self.slot(at_us)
        entry = self._session.run("due_enter", authority=authority, lane=int(lane), slot=slot, at_us=at_us, fp=fp)
        part: dict[str, int | str] = {"authority": authority, "lane": int(lane), "slot": slot}
        await asyncio.gather(entry, self._once("part_enter", **part), self.wake(authority, host, at_us))
        self._pace.took(self._clock.wall_us() - began_us)
        return at_us

    async def wake(self, authority: str, host: str, at_us: int) -> None:
        """Have the shard's owner look at an authority at about that time."""
        tick_us = at_us - at_us % self._tick_us
        slot = self.slot(tick_us)
        entry: dict[str, int | str] = {
            "shard": self._shard,
            "slot": slot,
            "at_us": tick_us,
            "authority": authority,
            "host": host,
        }
        await asyncio.gather(
            self._once("wake_enter", **entry), self._once("wake_slot_enter", shard=self._shard, slot=slot)
        )

    def late_us(self, at_us: int) -> int:
        """How long ago a position was, if a reader may have gone by before entry and row could be read; otherwise 0."""
        past_us = min(self._clock.wall_us() - at_us, AHEAD_US_MAX)
        if past_us <= self._lag_us // 2:
            return 0
        self._pace.took(past_us)
        return past_us

    async def after(
        self, authority: str, lane: int, place: tuple[int, bytes], until_us: int = FOREVER_US, page: int = 100
    ) -> AsyncGenerator[list[Entry], None]:
        """Entries of a lane after `place` (position, fingerprint) up to a time, in order, a page at a time."""
        for slot in await self._parts(authority, lane, self.slot(place[0]), self.slot(until_us)):
            while True:
                found = await self._entries(authority, lane, slot, place, until_us, page)
                if found:
                    yield found
                    place = (found[-1].at_us, found[-1].fp)
                if len(found) < page:
                    break

    async def cursors(self, authority: str) -> dict[int, tuple[int, bytes]]:
        """The durable cursor of each lane."""
        rows = await self._session.run("cursors_get", authority=authority)
        return {int(lane): START for lane in Lane} | {row["lane"]: (row["at_us"], row["fp"]) for row in rows}

    async def entries(self, authority: str, until_us: int = FOREVER_US) -> AsyncIterator[list[Entry]]:
        """Everything in the index of an authority from the durable cursors on, lane by lane."""
        places = await self.cursors(authority)
        for lane in Lane:
            async for found in self.after(authority, lane, places[lane], until_us):
                yield found

    async def passed(self, authority: str, lane: int, at_us: int) -> bool:
        """Whether the durable cursor has gone by a position, or may have at this moment: its row is met no more."""
        return (await self.cursors(authority))[int(lane)][0] > at_us

    async def authorities(self, low_us: int, high_us: int) -> AsyncIterator[list[Row]]:
        """Wake entries (`at_us`, `authority`, `host`) between two times, in order, a page at a time."""
        for slot in await self._wake_slots(self.slot(low_us), self.slot(high_us)):
            async for rows in self._session.pages("wakes", shard=self._shard, slot=slot, low=low_us, high=high_us):
                yield rows

    async def drop_parts(self, authority: str, lane: int, low: int, high: int) -> None:
        """Drop the parts of a lane from slot `low` up to, not including, `high`."""
        for row in await self._session.run("parts_from", authority=authority, lane=int(lane), slot=low):
            if row["slot"] >= high:
                return
            await self._session.run("due_drop", authority=authority, lane=int(lane), slot=row["slot"])

    async def _parts(self, authority: str, lane: int, low: int, high: int) -> list[int]:
        """The parts of a lane between two slots. One that may be empty is not asked after."""
        if low == high:
            return [low]
        rows = await self._session.run("parts_from", authority=authority, lane=int(lane), slot=low)
        return [row["slot"] for row in rows if row["slot"] <= high]

    async def _wake_slots(self, low: int, high: int) -> list[int]:
        """The same of the first level."""
        if low == high:
            return [low]
        rows = await self._session.run("wake_slots_from", shard=self._shard, slot=low)
        return [row["slot"] for row in rows if row["slot"] <= high]

    async def _entries(
        self, authority: str, lane: int, slot: int, place: tuple[int, bytes], until_us: int, page: int
    ) -> list[Entry]:
        rows = await self._session.run(
            "due_after",
            authority=authority,
            lane=int(lane),
            slot=slot,
            at_us=place[0],
            fp=place[1],
            until_us=until_us,
            entries_max=page,
        )
        return [Entry(int(lane), row["at_us"], row["fp"]) for row in rows]

    async def _once(self, name: str, **values: int | str) -> None:
        """A write that need not be repeated once it was acknowledged."""
        key = (name, *values.values())
        if key in self._known:
            return
        under_way = self._under_way.get(key)
        if under_way is None:
            under_way = asyncio.ensure_future(self._session.run(name, **values))
            self._under_way[key] = under_way
            under_way.add_done_callback(lambda done: self._written(key, done))
        await asyncio.shield(under_way)

    def _written(self, key: tuple[object, ...], done: asyncio.Future[list[Row]]) -> None:
        del self._under_way[key]
        if done.cancelled() or done.exception() is not None:
            return
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known.add(key)

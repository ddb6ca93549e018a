"""The owner's reading of its lanes: what is live, from the cursors on, and what came up on the way."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from enum import Enum
from typing import Final, NamedTuple

from limpet.clock import Clock
from limpet.urlstore.cassandra.cursors import Cursors, Wakes, Window
from limpet.urlstore.cassandra.dueindex import FOREVER_US, DueIndex
from limpet.urlstore.cassandra.rows import NOBODY, Entry, complete, is_at, waits
from limpet.urlstore.cassandra.session import Row, Session
from limpet.urlstore.types import Lane

PAGE: Final = 64
"""Entries that are read at a time."""
ANEW_SECONDS: Final = 60.0
"""So often a lane is read from its cursor on, also where nothing was found before."""


class Standing(Enum):
    """What an entry is worth."""

    LIVE = "live"  # its row waits, and names it
    HELD = "held"  # its row is leased from it
    STALE = "stale"  # its row is elsewhere or at rest, or is not there


class Held(NamedTuple):
    """A lease, and the entry it stands on."""

    authority: str
    entry: Entry
    token: bytes
    lease_us: int


def standing(entry: Entry, row: Row | None) -> Standing:
    """What the row says of an entry."""
    if row is None or not complete(row) or not is_at(row, entry):
        return Standing.STALE
    if row["claim"] != NOBODY:
        return Standing.HELD
    return Standing.LIVE if waits(row) else Standing.STALE


class Reading:
    """Reads the lanes of a shard's authorities. Remembers every lease it made or met, by fingerprint."""

    def __init__(self, session: Session, index: DueIndex, cursors: Cursors, wakes: Wakes, clock: Clock) -> None:
        self._session, self._index = session, index
        self._cursors, self._wakes, self._clock = cursors, wakes, clock
        self.leases: dict[bytes, Held] = {}

    async def live(
        self, authority: str, lane: Lane, until_us: int, now_us: int, chunk: int
    ) -> AsyncGenerator[tuple[Entry, Row], None]:
        """Live entries of a lane up to a time with their rows, in order; rows are read `chunk` at a time.

        Where nothing was found up to what is safe, the next reading begins there, so that an empty lane of a long crawl
        is one question. The durable cursor does not move for that.
        """
        window = (await self._cursors.windows(authority))[lane]
        moving = clear = True
        safe_us, now = self._index.safe_us, self._clock.monotonic()
        if now - window.read_at > ANEW_SECONDS:
            window.read, window.read_at = window.place, now
        place = max(window.place, window.read)
        async with aclosing(self._index.after(authority, lane, place, until_us, PAGE)) as pages:
            async for entries in pages:
                waiting = [entry for entry in entries if window.is_open(entry, now_us)]
                for begin in range(0, len(waiting), chunk):
                    for entry, row in await self._look(authority, window, waiting[begin : begin + chunk]):
                        yield entry, row
                moving = moving and window.advance(entries, safe_us)
                clear = clear and all(one.at_us > safe_us or (one.at_us, one.fp) <= window.place for one in entries)
        if clear:
            window.read = max(window.read, (min(safe_us, until_us), b""))

    async def next_due(self, authority: str) -> int | None:
        """See `UrlStore.next_due`."""
        now_us = self._clock.wall_us()
        found: list[tuple[int, str]] = []
        for lane in Lane:
            async with aclosing(self.live(authority, lane, FOREVER_US, now_us, 4)) as rows:
                async for entry, row in rows:
                    found.append((entry.at_us, row["host"]))
                    break
        earliest = min(found, default=None)
        await self._cursors.save(authority)
        if earliest is not None and earliest[0] <= now_us:
            self._wakes.busy(authority, earliest[1])
        else:
            self._rest(authority)
        return None if earliest is None else earliest[0]

    def hold(self, authority: str, entry: Entry, token: bytes, lease_us: int) -> None:
        """A lease that is, or may be, there."""
        self.leases[entry.fp] = Held(authority, entry, token, lease_us)
        window = self._cursors.loaded(authority).get(entry.lane)
        if window is not None:
            window.hold(entry, lease_us)

    def let_go(self, fp: bytes, token: bytes, *, at: tuple[int, int] | None) -> None:
        """A lease is over; its row is now at `at` (lane, position), None = at rest."""
        held = self.leases.get(fp)
        if held is None or held.token != token:
            return
        del self.leases[fp]
        window = self._cursors.loaded(held.authority).get(held.entry.lane)
        if window is None:
            return
        window.free(held.entry)
        if at != (held.entry.lane, held.entry.at_us):
            window.pass_by(held.entry)

    def _rest(self, authority: str) -> None:
        holding = any(window.holds() for window in self._cursors.loaded(authority).values())
        self._wakes.rest(authority, holding=holding)
        if not holding:
            self._cursors.forget(authority)

    async def _look(self, authority: str, window: Window, entries: Sequence[Entry]) -> list[tuple[Entry, Row]]:
        """The live ones of these entries, with their rows; what the others are worth is remembered."""
        rows = await asyncio.gather(*(self._session.one("url_get", fp=entry.fp) for entry in entries))
        found: list[tuple[Entry, Row]] = []
        for entry, row in zip(entries, rows, strict=True):
            worth = standing(entry, row)
            if row is not None and worth is Standing.LIVE:
                found.append((entry, row))
            elif row is not None and worth is Standing.HELD:
                self.hold(authority, entry, row["claim"], row["lease_us"])
            elif entry.at_us <= self._index.safe_us:
                window.pass_by(entry)
        return found

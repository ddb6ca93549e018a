"""Turns at the ceilings of keys: one incarnation at a time may start under a key, the others stand in line.

An interval between starts cannot be divided among nodes without starts that come too close, so it is not divided: who
has the turn keeps it exactly, and whoever is next begins where it ended (`Turn.rest_us`). Connections that are open
when a turn ends are written into the row and count against the next until they are closed.

A turn is held as long as the incarnation's lease, and passed on when somebody waits: after `turn_us` of use, or when
nobody here has asked for a while. Nobody has to return what he does not use: a turn that was forgotten here is passed
on when another asks for it. What a dead incarnation held is free when its last request has ended for certain.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from limpet.clock import Clock
from limpet.membership import Lease, Observer
from limpet.model.errors import Definite, Indefinite
from limpet.politeness.keys import Key
from limpet.politeness.shares import LocalShares
from limpet.politeness.sharetable import ShareTable, Turn

UNASKED_US: Final = 2_000_000
"""A turn that nobody asked for so long is not wanted."""

AGAIN_US: Final = 2_000_000
"""Who waits looks at the row by himself so often, should a notice be lost."""

UNUSED_TURNS: Final = 6
"""A turn that waits for another key is kept unused as long as so many turns."""

SEATS_MAX: Final = 65_536


class _Seat:
    """What this process knows of its place at one key."""

    __slots__ = (
        "asked_us",
        "dirty",
        "held_by",
        "key",
        "needs",
        "others",
        "passing",
        "tended_us",
        "told",
        "unsure",
        "used_us",
        "waited_for",
        "won_us",
    )

    def __init__(self, key: Key) -> None:
        self.key = key
        self.needs: Sequence[Key] = ()  # what the last to ask needs besides
        self.told: dict[str, int] = {}  # to be passed on: host -> until when, wall clock
        self.asked_us = -UNASKED_US
        self.tended_us = -AGAIN_US
        self.unsure = 0  # the highest version that a write of unknown fate of ours had
        self.dirty = True
        self.sit_nowhere()

    def sit_nowhere(self) -> None:
        self.held_by: Lease | None = None
        self.won_us = 0
        self.used_us: int | None = None
        self.others = 0  # connections that are open elsewhere
        self.waited_for = False
        self.passing = False


class Turns:
    """The turns of one process. `ledger` counts its own connections and starts, `turn_us` is how long a turn lasts."""

    def __init__(
        self,
        table: ShareTable,
        clock: Clock,
        ledger: LocalShares,
        *,
        lease: Callable[[], Lease],
        observer: Observer,
        turn_us: int,
    ) -> None:
        self._table = table
        self._clock = clock
        self._ledger = ledger
        self._lease = lease
        self._observer = observer
        self._turn_us = turn_us
        self._seats: dict[str, _Seat] = {}
        self._marks: dict[str, str] = {}
        self._named_us: dict[str, int] = {}  # when an incarnation was first found in a row
        self._last: Lease | None = None
        self._sent = 0
        self.wake = asyncio.Event()

    # -- without waiting ---------------------------------------------------------------------------------------------
    def narrowed(self, key: Key, needs: Sequence[Key]) -> Key | None:
        """The key as far as it is ours now, None = it is not: then it was asked for, with what else is needed."""
        now_us = self._clock.boot_us()
        seat = self._seats.get(key.name)
        if seat is None:
            seat = self._seats[key.name] = _Seat(key)
        seat.key = key  # of which a notice knows the name only
        if now_us - seat.asked_us >= UNASKED_US and seat.held_by is None:
            seat.dirty = True
            self.wake.set()
        seat.asked_us = now_us
        if len(needs) > 1:
            seat.needs = needs
        if not self._holds(seat):
            for other in seat.needs:  # they are kept meanwhile
                if (held := self._seats.get(other.name)) is not None and held.held_by is not None:
                    held.asked_us = now_us
            return None
        if not key.connections_max or not seat.others:
            return key
        left = key.connections_max - seat.others
        return replace(key, connections_max=left) if left > 0 else None

    def used(self, key: Key) -> None:
        """A start under the key."""
        seat = self._seats[key.name]
        if seat.used_us is None:
            seat.used_us = self._clock.boot_us()

    def closed(self, key: Key) -> None:
        """A connection under the key was closed."""
        seat = self._seats.get(key.name)
        if seat is None:
            seat = self._seats[key.name] = _Seat(key)
        if seat.held_by is None:
            seat.dirty = True
            self.wake.set()

    def told(self, key: Key, host: str, until_wall_us: int) -> None:
        """A host of the key has to wait; others are to know."""
        seat = self._seats.get(key.name)
        if seat is None:
            seat = self._seats[key.name] = _Seat(key)
        seat.told[host] = max(until_wall_us, seat.told.get(host, 0))
        seat.dirty = True
        self.wake.set()

    def _holds(self, seat: _Seat) -> bool:
        return seat.held_by is not None and seat.held_by is self._lease() and seat.held_by.alive()

    # -- in the background -------------------------------------------------------------------------------------------
    async def step(self) -> None:
        """Look after every key that needs it, once."""
        lease = self._lease()
        if lease is not self._last:
            self._last = lease
            self._marks.clear()
            for seat in self._seats.values():
                seat.sit_nowhere()
                seat.unsure = 0
        if not lease.alive():
            return
        await self._read_notices(lease)
        due = [seat for seat in self._seats.values() if self._is_due(seat)]
        await asyncio.gather(*(self._tend_safely(seat, lease) for seat in due))
        if len(self._seats) > SEATS_MAX:
            self._forget()

    async def _read_notices(self, lease: Lease) -> None:
        marks = await self._table.notices(lease.incarnation)
        for name, mark in marks.items():
            if self._marks.get(name) != mark:
                self._seats.setdefault(name, _Seat(Key(name))).dirty = True
        self._marks = marks

    def _is_due(self, seat: _Seat) -> bool:
        if seat.dirty:
            return True
        now_us = self._clock.boot_us()
        if seat.held_by is not None:
            over = seat.waited_for and self._is_over(seat, now_us)
            return over or (seat.others > 0 and now_us - seat.tended_us >= AGAIN_US)
        return self._wanted(seat, now_us) and now_us - seat.tended_us >= AGAIN_US

    def _wanted(self, seat: _Seat, now_us: int) -> bool:
        return now_us - seat.asked_us < UNASKED_US

    def _is_over(self, seat: _Seat, now_us: int) -> bool:
        if not self._wanted(seat, now_us):
            return True
        if seat.used_us is not None:
            return now_us - seat.used_us >= self._turn_us
        return now_us - seat.won_us >= UNUSED_TURNS * self._turn_us

    async def _tend_safely(self, seat: _Seat, lease: Lease) -> None:
        try:
            await self._tend(seat, lease)
        except (Definite, Indefinite):
            seat.dirty = True

    async def _tend(self, seat: _Seat, lease: Lease) -> None:
        """Read the row, decide, write; sit down if it is our turn."""
        seat.dirty = False
        seat.tended_us = self._clock.boot_us()
        told = bool(seat.told)
        await self._tell(seat)
        row = await self._table.turn(seat.key.name)
        me = lease.incarnation
        if told and row.holder not in {"", me}:
            await self._notify(row.holder, seat)
        if told or seat.held_by is not None:
            await self._hear(seat)
        if row.holder != me:
            seat.held_by = None
        elif seat.held_by is None and row.version >= seat.unsure and self._may_sit(seat):
            await self._sit(seat, row, lease)
            return
        new = self._next(seat, row, me)
        if new is None:
            self._note(seat, row, me)
        elif await self._write(seat, new):
            await self._written(seat, row, new, lease)

    def _may_sit(self, seat: _Seat) -> bool:
        return not seat.passing and self._wanted(seat, self._clock.boot_us())

    async def _written(self, seat: _Seat, row: Turn, new: Turn, lease: Lease) -> None:
        me = lease.incarnation
        seat.passing = False
        if new.holder == me and seat.held_by is None and self._may_sit(seat):
            await self._sit(seat, new, lease)
        else:
            self._note(seat, new, me)
        if new.holder not in {"", me}:
            await self._notify(new.holder, seat)
        if row.holder in {"", me} or new.holder != row.holder:
            return
        if len(new.queue) > len(row.queue):
            await self._notify(row.holder, seat)

    async def _sit(self, seat: _Seat, row: Turn, lease: Lease) -> None:
        """Our turn: what the row says was read after it became ours."""
        await self._hear(seat)
        now_us = self._clock.boot_us()
        if row.rest_us:
            self._ledger.hold_back(seat.key, now_us + row.rest_us)
        self._note(seat, row, lease.incarnation)
        seat.held_by, seat.won_us, seat.used_us = lease, now_us, None

    def _note(self, seat: _Seat, row: Turn, me: str) -> None:
        seat.others = sum(count for who, count in row.open.items() if who != me and not self._gone(who))
        seat.waited_for = any(who != me for who in row.queue)

    # -- what the row should be --------------------------------------------------------------------------------------
    def _next(self, seat: _Seat, row: Turn, me: str) -> Turn | None:
        """The row after our move, None = there is none to make."""
        now_us = self._clock.boot_us()
        wanted = self._wanted(seat, now_us)
        if row.holder == me:
            over = self._is_over(seat, now_us) if seat.held_by is not None else seat.passing or not wanted
            if over:
                return self._passed_on(seat, row, me, now_us, wanted=wanted)
            return self._move(seat, row, me, holder=me) if seat.held_by is None else None  # past what was unsure
        if wanted and (not row.holder or self._gone(row.holder)):
            rest_us = row.rest_us if not row.holder else seat.key.interval_us
            return replace(self._move(seat, row, me, holder=me), rest_us=rest_us)
        if wanted and me not in row.queue:
            moved = self._move(seat, row, me, holder=row.holder)
            return replace(moved, queue=(*moved.queue, me))
        if row.open.get(me, 0) != self._ledger.open_of(seat.key.name):
            return self._move(seat, row, me, holder=row.holder)
        return None

    def _passed_on(self, seat: _Seat, row: Turn, me: str, now_us: int, *, wanted: bool) -> Turn | None:
        line = [who for who in row.queue if who != me and not self._gone(who)]
        if not line:
            seat.passing = False
            return None
        rest_us = self._ledger.rest_us(seat.key, now_us)
        if seat.held_by is None:
            rest_us = max(rest_us, row.rest_us)  # the ledger may not know of the starts before: see `_sit`
        seat.held_by, seat.passing = None, True  # given up before it is given away
        moved = self._move(seat, row, me, holder=line[0])
        return replace(moved, rest_us=rest_us, queue=(*line[1:], me) if wanted else tuple(line[1:]))

    def _move(self, seat: _Seat, row: Turn, me: str, *, holder: str) -> Turn:
        """The next version, with our open connections in it unless the turn is ours, and without those of the gone."""
        open_now = {who: count for who, count in row.open.items() if who != me and not self._gone(who)}
        if holder != me and (mine := self._ledger.open_of(seat.key.name)):
            open_now[me] = mine
        queue = tuple(who for who in row.queue if who != holder and not self._gone(who))
        return replace(row, version=row.version + 1, by=me, holder=holder, open=open_now, queue=queue)

    def _gone(self, incarnation: str) -> bool:
        """Whether whatever it had sent has ended, for certain."""
        since_us = self._named_us.setdefault(incarnation, self._clock.boot_us())
        return self._observer.fetched_out(incarnation) or self._observer.left(incarnation, since_us)

    # -- the table ---------------------------------------------------------------------------------------------------
    async def _write(self, seat: _Seat, new: Turn) -> bool:
        try:
            done = await self._table.set_turn(seat.key.name, new)
        except Definite:
            done = False
        except Indefinite:
            seat.unsure = max(seat.unsure, new.version)
            done = await self._table.turn(seat.key.name) == new
        if not done:
            seat.dirty = True  # somebody else was first: look again
        return done

    async def _tell(self, seat: _Seat) -> None:
        for host, until_us in list(seat.told.items()):
            seconds = (until_us - self._clock.wall_us()) / 1e6
            if seconds > 0:
                await self._table.tell(seat.key.name, host, until_us, seconds)
            if seat.told.get(host) == until_us:
                del seat.told[host]

    async def _hear(self, seat: _Seat) -> None:
        now_us, wall_us = self._clock.boot_us(), self._clock.wall_us()
        for host, until_us in (await self._table.told(seat.key.name)).items():
            if until_us > wall_us:
                self._ledger.trouble(seat.key, host, now_us + until_us - wall_us, now_us)

    async def _notify(self, incarnation: str, seat: _Seat) -> None:
        self._sent += 1
        await self._table.notify(incarnation, seat.key.name, f"{self._lease().incarnation} {self._sent}")

    def _forget(self) -> None:
        """Seats that nobody has asked for in a long time; their turns are ours until another wants them."""
        idle = sorted(
            (seat.asked_us, name)
            for name, seat in self._seats.items()
            if not seat.dirty and not seat.unsure and not self._ledger.open_of(name)
        )
        for _, name in idle[: len(self._seats) - SEATS_MAX // 2]:
            del self._seats[name]

"""How far the owner of a shard has read: one window for each lane it works on, and the shard's wake cursor.

A cursor passes an entry only when its disposition is durable: its row is elsewhere or at rest, and the entry is so old
that nothing can be on its way any more. What is leased is not passed, so that the next owner meets it.
"""

from collections.abc import Sequence
from typing import Final

from limpet.clock import Clock
from limpet.urlstore.cassandra.dueindex import DueIndex
from limpet.urlstore.cassandra.rows import Entry
from limpet.urlstore.cassandra.session import Session
from limpet.urlstore.types import Lane, Queue

SAVE_SECONDS: Final = 10.0
"""A cursor that moves is written this often: what was not written is only read again."""
PASSED: Final = -1


class Window:
    """What is known of the entries of one lane after its cursor. Pure: no clock, no store."""

    def __init__(self, place: tuple[int, bytes]) -> None:
        self.place = place
        self.saved = place
        self.read = place  # nothing lies between the cursor and here; forgotten now and then, see `Reading.live`
        self.read_at = 0.0
        self._marks: dict[tuple[int, bytes], int] = {}  # PASSED, or until when the row is leased

    def pass_by(self, entry: Entry) -> None:
        """The entry is dealt with for good."""
        if (entry.at_us, entry.fp) > self.place:
            self._marks[entry.at_us, entry.fp] = PASSED

    def hold(self, entry: Entry, lease_us: int) -> None:
        """Its row is leased until then."""
        self._marks[entry.at_us, entry.fp] = lease_us

    def free(self, entry: Entry) -> None:
        """Its row has to be looked at again."""
        self._marks.pop((entry.at_us, entry.fp), None)

    def is_open(self, entry: Entry, now_us: int) -> bool:
        """Whether its row has to be looked at: it is not known to be passed, or leased at `now_us`."""
        mark = self._marks.get((entry.at_us, entry.fp))
        return mark is None or (mark != PASSED and mark <= now_us)

    def holds(self) -> bool:
        """Whether a row is leased, as far as is known."""
        return any(mark != PASSED for mark in self._marks.values())

    def advance(self, entries: Sequence[Entry], safe_us: int) -> bool:
        """Move over the passed entries at the head of `entries`, which follow the cursor. Whether it moved over all."""
        for entry in entries:
            key = (entry.at_us, entry.fp)
            if key <= self.place:
                continue
            if self._marks.get(key) != PASSED or entry.at_us > safe_us:
                return False
            self.place = key
            del self._marks[key]
        return True


class Cursors:
    """The windows of a shard's owner, durable as far as they were saved."""

    def __init__(self, session: Session, index: DueIndex, clock: Clock) -> None:
        self._session, self._index, self._clock = session, index, clock
        self._windows: dict[str, dict[int, Window]] = {}
        self._saved_at: dict[str, float] = {}

    async def windows(self, authority: str) -> dict[int, Window]:
        """Both lanes of an authority."""
        found = self._windows.get(authority)
        if found is None:
            places = await self._index.cursors(authority)
            found = self._windows.setdefault(authority, {int(lane): Window(places[lane]) for lane in Lane})
        return found

    def loaded(self, authority: str) -> dict[int, Window]:
        """Its windows, if there are any in memory."""
        return self._windows.get(authority, {})

    async def save(self, authority: str) -> None:
        """Write the cursors of an authority if they moved far enough, then drop the parts that they are past."""
        now = self._clock.monotonic()
        since = now - self._saved_at.get(authority, 0.0)
        for lane, window in self.loaded(authority).items():
            low, high = self._index.slot(window.saved[0]), self._index.slot(window.place[0])
            if window.place == window.saved or (low == high and since < SAVE_SECONDS):
                continue
            at_us, fp = window.place
            await self._session.run("cursor_put", authority=authority, lane=lane, at_us=at_us, fp=fp)
            window.saved = (at_us, fp)
            self._saved_at[authority] = now
            if low < high:
                await self._index.drop_parts(authority, lane, low, high)

    def forget(self, authority: str) -> None:
        """Nothing of it is waiting or leased: its place is read again when it is needed."""
        self._windows.pop(authority, None)
        self._saved_at.pop(authority, None)


class Wakes:
    """The first level as the shard's owner reads it, and the authorities it has to come back to."""

    def __init__(self, session: Session, index: DueIndex, shard: int, clock: Clock) -> None:
        self._session, self._index, self._shard, self._clock = session, index, shard, clock
        self._margin_us = 2 * session.settings.lag_us
        self._read_us: int | None = None  # wake entries up to here were read
        self._saved_us = -1  # the durable cursor
        self._met: dict[tuple[int, str], str] = {}  # wake entries so young that more may come to stand beside them
        self._awake: dict[str, str] = {}  # authority -> host: woken, and not known to be at rest
        self._idle: set[str] = set()  # of them, those that had nothing to claim when last looked at

    async def woken(self) -> list[Queue]:
        """Authorities that were woken since the last call, and those whose wake entry has only now come to rest."""
        now_us = self._clock.wall_us()
        if self._read_us is None:
            self._saved_us = self._read_us = await self.durable_us()
        found: dict[str, Queue] = {}
        known = set(self._met)
        try:
            async for rows in self._index.authorities(self._read_us - self._margin_us, now_us):
                for row in rows:
                    self._meet(found, row["at_us"], row["authority"], row["host"])
        except BaseException:
            self._met = {key: host for key, host in self._met.items() if key in known}  # nobody is told: once more
            raise
        self._settle(found, now_us)
        if self._index.slot(now_us) > self._index.slot(max(self._read_us, 0)):
            await self._checkpoint(self._read_us - self._margin_us)
        self._read_us = now_us
        return list(found.values())

    async def durable_us(self) -> int:
        """Where the durable cursor stands: everything that is not at rest was woken since."""
        row = await self._session.one("wake_cursor_get", shard=self._shard)
        return row["at_us"] if row else -1

    def busy(self, authority: str, host: str) -> None:
        """It has something to claim or something leased."""
        self._awake[authority] = host
        self._idle.discard(authority)

    def rest(self, authority: str, *, holding: bool) -> None:
        """Nothing to claim now; `holding`: but something is leased, so that the next owner has to look at it."""
        if not holding:
            self._awake.pop(authority, None)
            self._idle.discard(authority)
        elif authority in self._awake:
            self._idle.add(authority)

    def _meet(self, found: dict[str, Queue], at_us: int, authority: str, host: str) -> None:
        if (at_us, authority) in self._met:
            return
        self._met[at_us, authority] = host
        self._awake.setdefault(authority, host)
        found.setdefault(authority, Queue(authority=authority, host=host, due_us=at_us))

    def _settle(self, found: dict[str, Queue], now_us: int) -> None:
        """Entries of the same tick may have followed the wake entry until now: look once more."""
        for key in [key for key in self._met if key[0] <= now_us - self._margin_us]:
            (at_us, authority), host = key, self._met.pop(key)
            if authority not in self._awake or authority in self._idle:
                self._awake.setdefault(authority, host)
                found.setdefault(authority, Queue(authority=authority, host=host, due_us=at_us))

    async def _checkpoint(self, to_us: int) -> None:
        """Wake again what is not at rest, then move the durable cursor and drop the slots that it is past."""
        if to_us <= self._saved_us:
            return
        now_us = self._clock.wall_us()
        for authority, host in list(self._awake.items()):
            await self._index.wake(authority, host, now_us)
        await self._session.run("wake_cursor_put", shard=self._shard, at_us=to_us)
        low, high = self._index.slot(max(self._saved_us, 0)), self._index.slot(to_us)
        self._saved_us = to_us
        for row in await self._session.run("wake_slots_from", shard=self._shard, slot=low):
            if row["slot"] >= high:
                break
            await self._session.run("wake_drop", shard=self._shard, slot=row["slot"])

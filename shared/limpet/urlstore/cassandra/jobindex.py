"""Where parse jobs wait: read forward by time, never deleted.

Entry first, then the job's row. Every open job has an entry at or after the cursor, at the time when it becomes
eligible (its due time, or the end of its lease): whoever moves a job enters that time beforehand. An entry whose job
has moved on is passed over. The cursor stays `LAG_US` behind now; a writer that took longer than half of that enters
its job again. The sweep is the last net.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple

from limpet.clock import Clock
from limpet.urlstore.cassandra.session import Session

SLOT_US: Final = 3_600_000_000
LAG_US: Final = 60_000_000
STEP_US: Final = 10_000_000
"""The cursor is written when it has moved this far."""
FOREVER_US: Final = 2**63 - 1
SLOTS_KNOWN_MAX: Final = 4096
LOOKED_MAX: Final = 100_000
AGAIN_SECONDS: Final = 5.0


class Entry(NamedTuple):
    """A job that somebody should look at, and when."""

    at_us: int
    fp: bytes
    fetched_us: int


class Entered(NamedTuple):
    """An entry that was written, and when that began (monotonic seconds)."""

    entry: Entry
    began: float


class Looked:
    """Entries that a process has looked at: most of them need no second look. Pure; times are monotonic seconds.

    An entry whose job was seen in a state that has an entry of its own is settled. One whose job was not there, or at
    rest, may belong to a write that is still under way: it is looked at again now and then, for as long as the lag.
    """

    def __init__(self) -> None:
        self._settled: set[Entry] = set()
        self._open: dict[Entry, tuple[float, float]] = {}  # when it was looked at first and last

    def needs(self, entry: Entry, now: float) -> bool:
        """Whether to look at it."""
        if entry in self._settled:
            return False
        times = self._open.get(entry)
        return times is None or now - times[1] >= AGAIN_SECONDS

    def note(self, entry: Entry, now: float, *, settled: bool) -> None:
        """What was seen."""
        first = self._open.pop(entry, (now, now))[0]
        if len(self._settled) + len(self._open) >= LOOKED_MAX:
            self._settled.clear()
            self._open.clear()
        if settled or now - first > LAG_US / 1e6:
            self._settled.add(entry)
        else:
            self._open[entry] = (first, now)

    def forget(self, entry: Entry) -> None:
        """It was written again."""
        self._settled.discard(entry)
        self._open.pop(entry, None)


class JobIndex:
    """The entries of one shard."""

    def __init__(self, session: Session, shard: int, clock: Clock) -> None:
        self._session, self._shard, self._clock = session, shard, clock
        self._slots: set[int] = set()
        self._cursor_us = 0
        self._looked = Looked()

    async def enter(self, fp: bytes, fetched_us: int, at_us: int) -> Entered:
        """Before the job's row is written. The entry keeps clear of the cursor, which may move at this moment."""
        began = self._clock.monotonic()
        cursor_us = await self.cursor()
        if cursor_us and at_us < cursor_us + LAG_US // 2:
            at_us = cursor_us + LAG_US  # not after now
        entry = Entry(max(at_us, 0), fp, fetched_us)
        self._looked.forget(entry)
        slot = entry.at_us // SLOT_US
        if slot not in self._slots:
            await self._session.run("job_slot_enter", shard=self._shard, slot=slot)
            if len(self._slots) >= SLOTS_KNOWN_MAX:
                self._slots.clear()
            self._slots.add(slot)
        await self._session.run("job_enter", shard=self._shard, slot=slot, **entry._asdict())
        return Entered(entry, began)

    async def confirm(self, entered: Entered) -> None:
        """After the job's row was written: once more, if a reader may have gone by before it was there."""
        if (self._clock.monotonic() - entered.began) * 1e6 > LAG_US / 2:
            _, fp, fetched_us = entered.entry
            await self.enter(fp, fetched_us, 0)

    async def cursor(self) -> int:
        """From where on entries have to be read."""
        row = await self._session.one("job_cursor_get", shard=self._shard)
        self._cursor_us = max(self._cursor_us, row["at_us"] if row else 0)
        return self._cursor_us

    async def entries(self, to_us: int = FOREVER_US) -> AsyncIterator[list[Entry]]:
        """Entries from the cursor up to a time, earliest first, a page at a time."""
        from_us = self._cursor_us or await self.cursor()
        async for slots in self._session.pages("job_slots", shard=self._shard, slot=from_us // SLOT_US):
            for slot in sorted(row["slot"] for row in slots):
                if slot > to_us // SLOT_US:
                    return
                bounds = {"from_us": from_us, "to_us": to_us}
                async for rows in self._session.pages("job_entries", shard=self._shard, slot=slot, **bounds):
                    yield [Entry(row["at_us"], row["fp"], row["fetched_us"]) for row in rows]

    def unseen(self, entries: Sequence[Entry]) -> list[Entry]:
        """Those that have to be looked at."""
        now = self._clock.monotonic()
        return [entry for entry in entries if self._looked.needs(entry, now)]

    def note(self, entry: Entry, *, settled: bool) -> None:
        """It was looked at. `settled`: its job is in a state that has an entry of its own."""
        self._looked.note(entry, self._clock.monotonic(), settled=settled)

    async def advance(self, to_us: int) -> None:
        """Everything before `to_us` is disposed of."""
        if to_us >= self._cursor_us + STEP_US:
            await self._session.run("job_cursor_put", shard=self._shard, at_us=to_us)
            self._cursor_us = to_us

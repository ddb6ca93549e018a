"""Recovery's side of a shard: leases that ended without a word, and orphan records that find their row.

There is no index of leases: no cursor passes the entry of a leased row, so whoever reads the lanes from the durable
cursors on meets them all, near the front, because claims are made in order.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from limpet.model.lifecycle import Actor, State, move
from limpet.model.outcome import Outcome
from limpet.urlstore import counters
from limpet.urlstore.cassandra.batches import EXPIRE, Groups
from limpet.urlstore.cassandra.completion import Outcomes
from limpet.urlstore.cassandra.cursors import Wakes
from limpet.urlstore.cassandra.hooks import Ledger
from limpet.urlstore.cassandra.moves import Moves
from limpet.urlstore.cassandra.reading import Reading, Standing, standing
from limpet.urlstore.cassandra.rows import NO_ENTRY, NOBODY, Entry, complete, encode, url_row
from limpet.urlstore.cassandra.session import Row, Session
from limpet.urlstore.types import Lane, UrlRow, held_by_another

SUSPECTED_POISON: Final = "suspected_poison"
WAITING: Final = frozenset({State.DUE, State.LEASED, State.CANCELLED})
FOREVER_US: Final = 2**63 - 1
LIVE_RUN_MAX: Final = 128
"""So many waiting rows in a row, and no lease is expected behind them: a batch of claims is much smaller."""
LOOK: Final = 32
AUTHORITIES_AT_ONCE: Final = 32


class Leases:
    """Finds the leases of a shard, whoever made them."""

    def __init__(self, session: Session, reading: Reading, moves: Moves, wakes: Wakes) -> None:
        self._session, self._reading, self._moves = session, reading, moves
        self._wakes = wakes

    async def scan(self, until_us: int) -> list[Row]:
        """Leased rows of every authority that has something left up to a time."""
        found: dict[bytes, Row] = {}
        waiting: dict[str, None] = {}
        async for rows in self._moves.index.authorities(await self._wakes.durable_us(), until_us):
            waiting |= dict.fromkeys(row["authority"] for row in rows)
        authorities = list(waiting)
        for begin in range(0, len(authorities), AUTHORITIES_AT_ONCE):
            some = authorities[begin : begin + AUTHORITIES_AT_ONCE]
            for rows in await asyncio.gather(*(self._of_authority(one, until_us) for one in some)):
                found |= {row["fp"]: row for row in rows}
        return list(found.values())

    async def _of_authority(self, authority: str, until_us: int) -> list[Row]:
        places = await self._moves.index.cursors(authority)
        found: list[Row] = []
        for lane in Lane:
            live_run = 0
            async for entries in self._moves.index.after(authority, lane, places[lane], until_us, LOOK):
                rows = await asyncio.gather(*(self._session.one("url_get", fp=entry.fp) for entry in entries))
                leased = self._leased(authority, entries, rows)
                live_run = 0 if leased else live_run + len(entries)
                found += leased
                if live_run >= LIVE_RUN_MAX:
                    break
        return found

    def _leased(self, authority: str, entries: Sequence[Entry], rows: Sequence[Row | None]) -> list[Row]:
        found = []
        for entry, row in zip(entries, rows, strict=True):
            if row is not None and standing(entry, row) is Standing.HELD:
                self._reading.hold(authority, entry, row["claim"], row["lease_us"])
                found.append(row)
        return found

    async def known(self, over_us: int) -> list[Row]:
        """Leased rows among those that this process made or met, of which the lease is over by `over_us`."""
        over = [fp for fp, held in self._reading.leases.items() if held.lease_us <= over_us]
        rows = await asyncio.gather(*(self._session.one("url_get", fp=fp) for fp in over))
        leased = []
        for fp, row in zip(over, rows, strict=True):
            if row is None or row["claim"] != self._reading.leases[fp].token:
                held = self._reading.leases[fp]
                self._reading.let_go(fp, held.token, at=None if row is None else (row["lane"], row["entry_us"]))
            else:
                leased.append(row)
        return leased


class Expiry:
    """See `UrlStore.expire` and `UrlStore.adopt`."""

    def __init__(
        self,
        leases: Leases,
        reading: Reading,
        moves: Moves,
        outcomes: Outcomes,
        ledger: Ledger,
        *,
        owner: bool,
        groups: Groups,
    ) -> None:
        self._leases, self._reading, self._moves = leases, reading, moves
        self._outcomes, self._ledger = outcomes, ledger
        self._owner, self._scanned, self._groups = owner, False, groups

    async def expire(self, now_us: int, over_us: int, poison_after: int) -> list[tuple[UrlRow, State]]:
        """End leases that end by `over_us`. An owner looks at the whole shard once, then at what it leased itself."""
        if not (self._owner and self._scanned):
            await self._leases.scan(FOREVER_US)
            self._scanned = True
        rows = [row for row in await self._leases.known(over_us) if row["lease_us"] <= over_us]
        states = await self._groups.each(EXPIRE, rows, lambda row: self._interrupt(row, now_us, poison_after))
        return [(url_row(row), state) for row, state in zip(rows, states, strict=True) if state is not None]

    async def _interrupt(self, row: Row, now_us: int, poison_after: int) -> State | None:
        # The first interruption strikes a URL in company; all later ones, until a success, strike it alone.
        poison = row["alone"] and row["interruptions"] >= poison_after
        state = State.REVIEW if poison else State.DUE
        move(State.LEASED, state, Actor.RECOVERY)
        lane, at_us = int(Lane.SOON), NO_ENTRY
        if poison:
            await self._ledger.notify("review", row["host"], SUSPECTED_POISON, row["url"], now_us)
        else:
            at_us = await self._moves.index.enter(row["authority"], row["host"], lane, now_us, row["fp"])
        ruling = await self._moves.writes.guarded(
            "url_interrupt",
            row["fp"],
            lambda now: now["claim"] == row["claim"] and now["lease_us"] == row["lease_us"],
            claim=row["claim"],
            lease_us=row["lease_us"],
            state=state.value,
            reason=SUSPECTED_POISON if poison else "",
            due_us=0 if poison else now_us,
            lane=lane,
            entry_us=at_us,
            interruptions=row["interruptions"] + 1,
        )
        if not ruling.applied:
            return None
        self._reading.let_go(row["fp"], row["claim"], at=None if poison else (lane, at_us))
        self._ledger.add(counters.INTERRUPTIONS)
        if not poison:
            await self._moves.confirm(row, lane, at_us)
        return state

    async def adopt(self, outcome: Outcome, state: State, reason: str, now_us: int) -> bool:
        """Insert the outcome of an orphan record, and move its row if that still waits for one."""
        row = await self._moves.writes.settled(outcome.fp)
        if row is None or not complete(row):
            return False
        source = State(row["state"])
        older = row["latest_us"] < outcome.fetched_us
        waits = source in WAITING and older and not held_by_another(row["holder"], outcome)
        move(source if waits else State.LEASED, state, Actor.RECOVERY)
        if await self._outcomes.exists(outcome.fp, outcome.fetched_us):
            return False
        await self._outcomes.announce(outcome)
        if waits:
            adopted = await self._end_waiting(row, outcome, state, reason, now_us)
            if adopted is None:  # it moved on meanwhile: judge it anew
                return await self.adopt(outcome, state, reason, now_us)
        else:
            adopted = await self._outcomes.insert(outcome, state, now_us, self._moves.writes.stamp())
        if adopted:
            self._ledger.add(counters.ADOPTED)
            self._outcomes.count(outcome)
        return adopted

    async def _end_waiting(self, row: Row, outcome: Outcome, state: State, reason: str, now_us: int) -> bool | None:
        ruling = await self._moves.writes.guarded(
            "url_adopt",
            row["fp"],
            lambda now: now["key"] == row["key"] and now["state"] == row["state"] and now["claim"] == row["claim"],
            proof=self._proof(outcome),
            key=row["key"],
            was=row["state"],
            claim=row["claim"],
            state=state.value,
            reason=reason,
            lane=row["lane"],
            fetched_us=outcome.fetched_us,
            outcome=encode(outcome),
            completed_us=now_us,
        )
        if not ruling.applied:
            return None
        if row["claim"] != NOBODY:
            self._reading.let_go(row["fp"], row["claim"], at=None)
        return True

    def _proof(self, outcome: Outcome) -> Callable[[bytes], Awaitable[bool]]:
        return lambda stamp: self._outcomes.written(outcome, stamp)

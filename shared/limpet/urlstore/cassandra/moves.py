"""Rows that change their place: the entry of the due index first, then the row, under a guard."""

from typing import Final

from limpet.model.lifecycle import Actor, State, move
from limpet.urlstore.cassandra.dueindex import DueIndex
from limpet.urlstore.cassandra.rows import NO_ENTRY, NOBODY
from limpet.urlstore.cassandra.session import Row
from limpet.urlstore.cassandra.writes import Writes
from limpet.urlstore.types import Lane

TURNS_MAX: Final = 3
"""How often a late entry is written anew; after that it is left to the sweep."""


class Moves:
    """Guarded moves of rows, for everybody who makes one due or takes one out."""

    def __init__(self, index: DueIndex, writes: Writes) -> None:
        self.index = index
        self.writes = writes

    async def move(
        self,
        row: Row,
        target: State,
        actor: Actor,
        *,
        reason: str = "",
        due: tuple[Lane, int] | None = None,
        failures: int = 0,
        interruptions: int = 0,
    ) -> bool:
        """Move a row (as read by `url_get`) to `target`, ending its lease if it has one. False: it has changed since.

        `due`: lane and due time of a row that is to wait; its entry is written first. Raises `IllegalTransitionError`,
        and `Indefinite` when nobody could be asked what became of it.
        """
        was = State(row["state"])
        move(was, target, actor)
        lane, due_us = due or (Lane(row["lane"]), 0)
        at_us = NO_ENTRY
        if due is not None:
            at_us = await self.index.enter(row["authority"], row["host"], lane, due_us, row["fp"])
        ruling = await self.writes.guarded(
            "url_move",
            row["fp"],
            lambda now: now["key"] == row["key"] and now["state"] == was and now["claim"] == row["claim"],
            key=row["key"],
            was=was.value,
            claim=row["claim"],
            state=target.value,
            reason=reason,
            due_us=due_us,
            lane=int(lane),
            entry_us=at_us,
            failures=failures,
            interruptions=interruptions,
            latest_us=row["latest_us"],
        )
        if ruling.applied and due is not None:
            await self.confirm(row, lane, at_us)
        return ruling.applied

    async def reenter(self, row: Row) -> bool:
        """Write the entry of a waiting row anew: cursors have passed the one it names. False: the row has changed."""
        return await self._reenter(row, row["lane"], row["entry_us"], 0) is not None

    async def confirm(self, row: Row, lane: int, at_us: int) -> None:
        """After a row was written with its entry at `at_us`: once more, if that took so long that it may be missed.

        Twice as far ahead as that was late: writing an entry takes as long again.
        """
        place: int | None = at_us
        for _ in range(TURNS_MAX):
            late_us = 0 if place is None else self.index.late_us(place)
            if place is None or not late_us:
                return
            place = await self._reenter(row, lane, place, 2 * late_us)

    async def _reenter(self, row: Row, lane: int, was: int, ahead_us: int) -> int | None:
        at_us = await self.index.enter(row["authority"], row["host"], lane, was, row["fp"], ahead_us=ahead_us)
        ruling = await self.writes.guarded(
            "url_reenter",
            row["fp"],
            lambda now: now["claim"] == NOBODY and now["lane"] == lane and now["entry_us"] == was,
            lane=int(lane),
            was=was,
            entry_us=at_us,
        )
        return at_us if ruling.applied else None

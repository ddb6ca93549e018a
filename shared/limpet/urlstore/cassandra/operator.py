"""Moves of many rows of a host or an authority: cancelled and put back by an operator, re-armed, waited out.

Nothing is scanned whole: what waits or is leased is in the due index of the authorities, from their cursors on; what is
denied or cancelled is in the lists of `limpet.urlstore.cassandra.exits`. Each row moves under its own guard, so a death
leaves every row whole and the rest for the next call, and a row that moved meanwhile is left alone.
"""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final

from limpet.model.lifecycle import Actor, State
from limpet.urlstore import counters
from limpet.urlstore.cassandra.batches import CANCEL, REARM, UNCANCEL, UNRECORDED, WAIT_OUT, Groups, Trade
from limpet.urlstore.cassandra.exits import Exits
from limpet.urlstore.cassandra.guarded import each
from limpet.urlstore.cassandra.hosts import Hosts
from limpet.urlstore.cassandra.moves import Moves
from limpet.urlstore.cassandra.reading import PAGE, Standing, standing
from limpet.urlstore.cassandra.rows import NOBODY, url_row
from limpet.urlstore.cassandra.session import Row, Session
from limpet.urlstore.port import EVERYTHING
from limpet.urlstore.types import Lane, UrlRow

REARMABLE: Final = frozenset({State.FAILED, State.PARKED, State.REVIEW, State.GONE, State.CANCELLED})
SCANS_MAX: Final = 64
"""Passes that are kept open between calls; one that is closed begins anew."""

Count = Callable[[str, int], None]
Notify = Callable[[str, str, str, str, int, int], Awaitable[None]]
"""Kind, host, reason, sample, now, count."""


class _Pass:
    """Rows of a pass, as many at a time as are wanted."""

    def __init__(self, pages: AsyncGenerator[list[Row], None]) -> None:
        self._pages = pages
        self._rest: list[Row] = []

    async def next(self, wanted: int) -> list[Row] | None:
        """Up to `wanted` rows; None at the end."""
        while not self._rest:
            page = await anext(self._pages, None)
            if page is None:
                return None
            self._rest = page
        some, self._rest = self._rest[:wanted], self._rest[wanted:]
        return some

    async def close(self) -> None:
        """It will not be gone on with."""
        await self._pages.aclose()


class Operator:
    """See the module. `ended` is told every row whose lease was ended, as it was."""

    def __init__(
        self,
        session: Session,
        hosts: Hosts,
        exits: Exits,
        moves: Moves,
        *,
        count: Count,
        notify: Notify,
        ended: Callable[[Row], None],
        groups: Groups = UNRECORDED,
    ) -> None:
        self._groups = groups
        self._session, self._hosts, self._exits, self._moves = session, hosts, exits, moves
        self._count, self._notify, self._ended = count, notify, ended
        self._scans: OrderedDict[tuple[str, ...], _Pass] = OrderedDict()

    # -- hosts ---------------------------------------------------------------------------------------------------------
    async def cancel(self, host: str, reason: str, limit: int, under: Sequence[str] = EVERYTHING) -> int:
        """See `UrlStore.cancel`."""

        async def cancel(row: Row) -> bool:
            await self._exits.cancelled(host, reason, row["fp"])
            if not await self._moves.move(row, State.CANCELLED, Actor.OPERATOR, reason=reason):
                return False
            if row["claim"] != NOBODY:
                self._ended(row)
            self._count(counters.CANCELLED, 1)
            return True

        place = (host, reason, *under)
        return await self._some(CANCEL, place, lambda: self._queued(host, under), cancel, limit)

    async def uncancel(self, host: str, reason: str, now_us: int, limit: int, but: Sequence[str] = ()) -> int:
        """See `UrlStore.uncancel`."""

        async def uncancel(row: Row) -> bool:
            return await self._rearm(row, Actor.OPERATOR, Lane.NEW, now_us)

        place = (host, reason, *but)
        return await self._some(UNCANCEL, place, lambda: self._cancelled(host, reason, but), uncancel, limit)

    async def cancelled_hosts(self, reason: str) -> list[str]:
        """See `UrlStore.cancelled_hosts`."""
        return await self._exits.hosts(reason)

    # -- authorities ---------------------------------------------------------------------------------------------------
    async def rearm_denied(self, authority: str, now_us: int) -> int:
        """See `UrlStore.rearm_denied`."""

        async def rearm(row: Row) -> bool:
            return await self._rearm(row, Actor.CRAWLNODE, Lane.NEW, now_us)

        began_us, count, left = self._exits.now_us(), 0, 0
        async for rows in self._exits.of_authority(authority):
            moved = sum(await self._groups.each(REARM, rows, rearm))
            count, left = count + moved, left + len(rows) - moved
        if not left:
            await self._exits.forget_authority(authority, began_us)
        return count

    async def wait_out(self, authority: str, reason: str, now_us: int) -> int:
        """See `UrlStore.wait_out`. People are told first: a death in between tells them twice, never not at all."""

        async def fail(row: Row) -> bool:
            return await self._moves.move(row, State.FAILED, Actor.CRAWLNODE, reason=reason)

        count = 0
        async with aclosing(self._of_authority(authority)) as pages:
            async for found in pages:
                rows = [row for row in found if row["state"] == State.DUE]
                if rows:
                    await self._notify("failed", rows[0]["host"], reason, authority, now_us, len(rows))
                    count += sum(await self._groups.each(WAIT_OUT, rows, fail))
        self._count(counters.WAITED_OUT, count)
        return count

    # -- URLs ----------------------------------------------------------------------------------------------------------
    async def rearm(self, fps: Sequence[bytes], now_us: int) -> int:
        """See `UrlStore.rearm`."""

        async def rearm(fp: bytes) -> bool:
            row = await self._session.one("url_get", fp=fp)
            if row is None or row["state"] not in REARMABLE:
                return False
            return await self._rearm(row, Actor.OPERATOR, Lane.SOON, now_us)

        return sum(await self._groups.each(REARM, dict.fromkeys(fps), rearm))

    async def waiting(self, authority: str) -> AsyncGenerator[list[UrlRow], None]:
        """Rows of an authority that wait or are leased, a page at a time: lane by lane, in the order of their times."""
        async with aclosing(self._of_authority(authority)) as pages:
            async for rows in pages:
                yield [url_row(row) for row in rows]

    async def close(self) -> None:
        """Let go of the passes that are open."""
        while self._scans:
            await self._scans.popitem()[1].close()

    async def _rearm(self, row: Row, actor: Actor, lane: Lane, now_us: int) -> bool:
        if not await self._moves.move(row, State.DUE, actor, due=(lane, now_us)):
            return False
        self._count(counters.REARMED, 1)
        return True

    # -- passes --------------------------------------------------------------------------------------------------------
    async def _some(
        self,
        trade: Trade,
        place: tuple[str, ...],
        scan: Callable[[], AsyncGenerator[list[Row], None]],
        act: Callable[[Row], Awaitable[bool]],
        limit: int,
    ) -> int:
        """Go on with the pass of this place until `limit` rows moved; 0 only after a whole pass that moved nothing.

        Calls that follow each other share one pass: otherwise each would begin with what the earlier ones moved.
        """
        key = (trade.operation, *place)
        count, resumed = 0, key in self._scans
        one = self._scans.pop(key, None) or _Pass(scan())
        while count < limit:
            rows = await one.next(limit - count)
            if rows is None:
                if count or not resumed:
                    return count
                one, resumed = _Pass(scan()), False
                continue
            count += sum(await self._groups.each(trade, rows, act))
        self._scans[key] = one
        if len(self._scans) > SCANS_MAX:
            await self._scans.popitem(last=False)[1].close()
        return count

    async def _queued(self, host: str, under: Sequence[str]) -> AsyncGenerator[list[Row], None]:
        """Rows of a host, under some paths, that wait or are leased: leased first, since they are about to be sent."""
        authorities = await self._hosts.of_host(host)
        for leased in (True, False):
            for authority in authorities:
                async with aclosing(self._of_authority(authority, leased_only=leased)) as pages:
                    async for rows in pages:
                        wanted = State.LEASED if leased else State.DUE
                        found = [row for row in rows if row["state"] == wanted and row["host"] == host]
                        found = [row for row in found if _begins(row, under)]
                        if found:
                            yield found

    async def _of_authority(self, authority: str, *, leased_only: bool = False) -> AsyncGenerator[list[Row], None]:
        """Rows of the due index. Leases stand at the front of each lane: claims are made in order."""
        places = await self._moves.index.cursors(authority)
        for lane in Lane:
            async with aclosing(self._moves.index.after(authority, lane, places[lane], page=PAGE)) as pages:
                async for entries in pages:
                    rows = await each(entries, lambda entry: self._session.one("url_get", fp=entry.fp))
                    ranked = [(standing(entry, row), row) for entry, row in zip(entries, rows, strict=True)]
                    worths = {worth for worth, _ in ranked}
                    yield [row for worth, row in ranked if row is not None and worth is not Standing.STALE]
                    if leased_only and Standing.LIVE in worths and Standing.HELD not in worths:
                        break

    async def _cancelled(self, host: str, reason: str, but: Sequence[str]) -> AsyncGenerator[list[Row], None]:
        began_us, found = self._exits.now_us(), False
        async for rows in self._exits.of_host(host, reason):
            found = found or bool(rows)
            wanted = [row for row in rows if not _begins(row, but)]
            if wanted:
                yield wanted
        if not found:
            await self._exits.forget_host(host, reason, began_us)


def _begins(row: Row, paths: Sequence[str]) -> bool:
    """Whether path and query of a row begin with one of these."""
    path: str = row["url"][len(row["authority"]) :]
    return path.startswith(tuple(paths))

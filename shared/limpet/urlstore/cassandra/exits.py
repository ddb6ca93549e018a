"""Lists of rows that left the queue and may have to be found again: denied by robots, cancelled by an operator.

An entry is written before its row moves, so that the list holds every such row, and others: each is judged by its row.
What was entered before a pass began that found nothing more in that state is forgotten in one write, but for what is so
young that its row may still be on its way.
"""

from collections.abc import AsyncIterator
from typing import Final

from limpet.clock import Clock
from limpet.model.lifecycle import State
from limpet.urlstore.cassandra.guarded import each
from limpet.urlstore.cassandra.rows import complete
from limpet.urlstore.cassandra.session import Row, Session

YOUNG_US: Final = 300_000_000
"""Longer than a clock may be off and a write may take."""
AT_A_TIME: Final = 64


class Exits:
    """The lists of one shard."""

    def __init__(self, session: Session, shard: int, clock: Clock) -> None:
        self._session, self._shard, self._clock = session, shard, clock

    async def denied(self, authority: str, fp: bytes) -> None:
        """Before a row of this authority is denied."""
        await self._session.run("denied_enter", authority=authority, fp=fp)

    async def cancelled(self, host: str, reason: str, fp: bytes) -> None:
        """Before a row of this host is cancelled."""
        await self._session.run("cancelled_host_enter", shard=self._shard, reason=reason, host=host)
        await self._session.run("cancelled_enter", host=host, reason=reason, fp=fp)

    def now_us(self) -> int:
        """When a pass begins."""
        return self._clock.wall_us()

    async def of_authority(self, authority: str) -> AsyncIterator[list[Row]]:
        """Rows of an authority that are denied, some at a time."""
        async for page in self._session.pages("denied_of", authority=authority):
            async for rows in self._judged(page):
                yield [row for row in rows if row["state"] == State.DENIED and row["authority"] == authority]

    async def of_host(self, host: str, reason: str) -> AsyncIterator[list[Row]]:
        """Rows of a host that are cancelled for a reason, some at a time."""
        async for page in self._session.pages("cancelled_of", host=host, reason=reason):
            async for rows in self._judged(page):
                yield [
                    row
                    for row in rows
                    if row["state"] == State.CANCELLED and row["host"] == host and row["reason"] == reason
                ]

    async def hosts(self, reason: str) -> list[str]:
        """See `UrlStore.cancelled_hosts`."""
        found = await self._session.run("cancelled_hosts_of", shard=self._shard, reason=reason)
        names = sorted(row["host"] for row in found)
        holds = await each(names, lambda host: self._holds(host, reason))
        return [host for host, held in zip(names, holds, strict=True) if held]

    async def forget_authority(self, authority: str, began_us: int) -> None:
        """A pass that began then left nothing denied."""
        await self._session.run("denied_drop", authority=authority, before_us=began_us - YOUNG_US)

    async def forget_host(self, host: str, reason: str, began_us: int) -> None:
        """A pass that began then found nothing cancelled for that reason."""
        before_us = began_us - YOUNG_US
        await self._session.run("cancelled_drop", host=host, reason=reason, before_us=before_us)
        await self._session.run("cancelled_host_drop", shard=self._shard, reason=reason, host=host, before_us=before_us)

    async def _holds(self, host: str, reason: str) -> bool:
        began_us = self.now_us()
        async for rows in self.of_host(host, reason):
            if rows:
                return True
        await self.forget_host(host, reason, began_us)
        return False

    async def _judged(self, page: list[Row]) -> AsyncIterator[list[Row]]:
        for begin in range(0, len(page), AT_A_TIME):
            some = page[begin : begin + AT_A_TIME]
            rows = await each(some, lambda entry: self._session.one("url_get", fp=entry["fp"]))
            yield [row for row in rows if row is not None and complete(row)]

"""Requests for robots.txt, for the log: rows that are written once and are gone by themselves after 90 days."""

import zlib
from collections.abc import AsyncIterator
from typing import Any, Final

from limpet.model.outcome import UNSENT
from limpet.urlstore.cassandra import codec
from limpet.urlstore.cassandra.guarded import each
from limpet.urlstore.cassandra.ledger import Requests
from limpet.urlstore.cassandra.session import Session
from limpet.urlstore.types import RobotsFetch

DAY_US: Final = 86_400_000_000
PARTS: Final = 16
"""Partitions of a shard's day; fixed for good."""


class RobotsFetches:
    """Those of one shard. Where two put the same one at once, the owner and who adopts from it, both may count it."""

    def __init__(self, session: Session, shard: int, requests: Requests) -> None:
        self._session, self._shard, self._requests = session, shard, requests
        self._days: set[int] = set()  # that are entered: one more each day

    async def put(self, fetch: RobotsFetch) -> bool:
        """See `UrlStore.put_robots_fetch`. Where a death or a lost answer comes before the count it is not counted."""
        outcome = fetch.outcome
        place = self._place(outcome.url, outcome.fetched_us)
        if await self._session.one("robots_fetch_get", **place) is not None:
            return False
        if place["day"] not in self._days:
            await self._session.run("robots_day_put", shard=self._shard, day=place["day"])
            self._days.add(place["day"])
        await self._session.run("robots_fetch_put", **place, data=codec.encode(fetch))
        if outcome.failure not in UNSENT:
            await self._requests.count(place["day"], 1)
        return True

    async def has(self, url: str, fetched_us: int) -> bool:
        """See `UrlStore.has_robots_fetch`."""
        return await self._session.one("robots_fetch_get", **self._place(url, fetched_us)) is not None

    async def all(self) -> list[RobotsFetch]:
        """See `UrlStore.robots_fetches`."""
        days = [row["day"] for row in await self._session.run("robots_days", shard=self._shard)]
        found = await each([(day, part) for day in days for part in range(PARTS)], self._of_part)
        return sorted((one for fetches in found for one in fetches), key=lambda one: one.outcome.fetched_us)

    async def pages(self) -> AsyncIterator[list[RobotsFetch]]:
        """All that are kept, some at a time, day by day."""
        for row in await self._session.run("robots_days", shard=self._shard):
            for part in range(PARTS):
                place = {"shard": self._shard, "day": row["day"], "part": part}
                async for rows in self._session.pages("robots_fetches_of_part", **place):
                    yield [codec.robots_fetch(row["data"]) for row in rows]

    async def _of_part(self, place: tuple[int, int]) -> list[RobotsFetch]:
        day, part = place
        rows = await self._session.run("robots_fetches_of_part", shard=self._shard, day=day, part=part)
        return [codec.robots_fetch(row["data"]) for row in rows]

    def _place(self, url: str, fetched_us: int) -> dict[str, Any]:
        part = zlib.crc32(url.encode()) % PARTS
        day = fetched_us // DAY_US
        return {"shard": self._shard, "day": day, "part": part, "fetched_us": fetched_us, "url": codec.clipped(url)}

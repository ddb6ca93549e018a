"""What can be read of a shard's rows and outcomes, by anybody. Whole listings walk the token ring, and are dear."""

from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.segments.port import Location
from limpet.urlstore.cassandra.dueindex import FOREVER_US, DueIndex
from limpet.urlstore.cassandra.rows import clash_row, complete, outcome, url_row
from limpet.urlstore.cassandra.session import Session
from limpet.urlstore.types import UrlRow

RING: tuple[int, int] = (-(2**63), 2**63 - 1)


class View:
    """Reads one shard of the keyspace."""

    def __init__(self, session: Session, shard: int, index: DueIndex) -> None:
        self._session, self._shard, self._index = session, shard, index

    async def row(self, fp: bytes) -> UrlRow | None:
        """See `UrlStore.row`."""
        row = await self._session.one("url_get", fp=fp)
        return url_row(row) if row is not None and complete(row) else None

    async def rows(self, state: State | None) -> list[UrlRow]:
        """See `UrlStore.rows`. Reads every row of the keyspace."""
        found = []
        async for page in self._session.pages("url_scan", low=RING[0], high=RING[1]):
            found += [
                url_row(row)
                for row in page
                if complete(row) and row["shard"] == self._shard and (state is None or row["state"] == state)
            ]
        found.sort(key=lambda row: (row.admitted_us, row.fp))
        return found + (await self.clashing() if state in {None, State.REVIEW} else [])

    async def clashing(self) -> list[UrlRow]:
        """Candidates in review because their fingerprint is taken."""
        rows = await self._session.run("clashes", shard=self._shard)
        return [clash_row(row["candidate"], row["admitted_us"]) for row in rows]

    async def outcomes(self, fp: bytes) -> list[Outcome]:
        """See `UrlStore.outcomes`."""
        return [outcome(row["outcome"]) for row in await self._session.run("outcomes_of", fp=fp)]

    async def all_outcomes(self) -> list[Outcome]:
        """See `UrlStore.all_outcomes`. Reads every outcome of the keyspace."""
        found = []
        async for page in self._session.pages("outcome_scan", low=RING[0], high=RING[1]):
            found += [
                (row["completed_us"], row["fp"], row["fetched_us"], row["outcome"])
                for row in page
                if row["shard"] == self._shard and row["fetched_us"] is not None
            ]
        return [outcome(data) for *_, data in sorted(found)]

    async def recorded(self, segment: str, offset: int) -> list[Location]:
        """See `UrlStore.recorded`."""
        found = []
        for row in await self._session.run("records_from", segment=segment, offset=offset):
            place = Location(segment, row["offset"], row["length"])
            if row["shard"] == self._shard and place in [one.location for one in await self.outcomes(row["fp"])]:
                found.append(place)
        return sorted(found)

    async def queued(self, low_us: int) -> dict[str, str]:
        """Authorities that were, or will be, woken from a time on, with their hosts."""
        found: dict[str, str] = {}
        async for rows in self._index.authorities(low_us, FOREVER_US):
            found |= {row["authority"]: row["host"] for row in rows}
        return found

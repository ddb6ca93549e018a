"""Fetched outcomes that nobody parsed, as sweeps listed them, each asked after before it is told."""

from typing import Final

from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.urlstore.cassandra.guarded import each
from limpet.urlstore.cassandra.parse import Parse
from limpet.urlstore.cassandra.rows import outcome
from limpet.urlstore.cassandra.session import Row, Session

PARSED_KNOWN_MAX: Final = 65_536
AT_A_TIME: Final = 64


class Unparsed:
    """Of one shard. What was found to be parsed is not asked after again."""

    def __init__(self, session: Session, shard: int, parse: Parse) -> None:
        self._session, self._shard, self._parse = session, shard, parse
        self._parsed: set[tuple[int, bytes, int]] = set()

    async def find(self, version: int, before_us: int, limit: int) -> list[Outcome]:
        """See `UrlStore.unparsed`: what the last sweeps found of it."""
        found: dict[tuple[bytes, int], Outcome] = {}
        async for page in self._session.pages("unparsed_before", shard=self._shard, before_us=before_us):
            for begin in range(0, len(page), AT_A_TIME):
                some = page[begin : begin + AT_A_TIME]
                for one in await each(some, lambda row: self._judged(version, row)):
                    if one is not None:
                        found[one.fp, one.fetched_us] = one
                if len(found) >= limit:
                    return list(found.values())[:limit]
        return list(found.values())

    async def _judged(self, version: int, row: Row) -> Outcome | None:
        fp, fetched_us = row["fp"], row["fetched_us"]
        if (version, fp, fetched_us) in self._parsed:
            return None
        stored = await self._session.one("outcome_get", fp=fp, fetched_us=fetched_us)
        if stored is None or stored["ended"] != State.FETCHED:
            return None
        if await self._parse.parsed(fp, fetched_us, version):
            if len(self._parsed) >= PARSED_KNOWN_MAX:
                self._parsed.clear()
            self._parsed.add((version, fp, fetched_us))
            return None
        return outcome(stored["outcome"])

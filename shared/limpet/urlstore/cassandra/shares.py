"""The table of leased shares on Cassandra."""

import math
from typing import Final

import msgspec

from limpet.politeness.sharetable import Drawn, Turn
from limpet.urlstore.cassandra.session import Session, Verdict

TTL_SECONDS_MAX: Final = 7 * 86_400
_encode = msgspec.msgpack.Encoder().encode
_turn = msgspec.msgpack.Decoder(Turn).decode


class CassandraShareTable:
    """`ShareTable` over a session, which bounds each call (`cassandra.request_seconds_max`; reads are tried twice)."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def turn(self, key: str) -> Turn:
        """See `ShareTable.turn`."""
        row = await self._session.settled("turn_get", key=key)
        return Turn() if row is None else _turn(row["turn"])

    async def set_turn(self, key: str, new: Turn) -> bool:
        """See `ShareTable.set_turn`."""
        cells = {"key": key, "version": new.version, "made_by": new.by, "turn": _encode(new)}
        if new.version == 1:
            verdict = await self._session.conditional("turn_first", **cells)
        else:
            verdict = await self._session.conditional("turn_change", **cells, old_version=new.version - 1)
        return verdict.applied or (_by_us(verdict, new) and await self.turn(key) == new)

    async def drawn(self, day: int) -> Drawn:
        """See `ShareTable.drawn`."""
        row = await self._session.settled("drawn_get", day=day)
        return Drawn() if row is None else Drawn(row["version"], row["made_by"], row["requests"])

    async def set_drawn(self, day: int, new: Drawn) -> bool:
        """See `ShareTable.set_drawn`."""
        cells = {"day": day, "version": new.version, "made_by": new.by, "requests": new.requests}
        if new.version == 1:
            verdict = await self._session.conditional("drawn_first", **cells)
        else:
            verdict = await self._session.conditional("drawn_change", **cells, old_version=new.version - 1)
        return verdict.applied or (_by_us(verdict, new) and await self.drawn(day) == new)

    async def told(self, key: str) -> dict[str, int]:
        """See `ShareTable.told`."""
        return {row["host"]: row["until_us"] for row in await self._session.run("told_get", key=key)}

    async def tell(self, key: str, host: str, until_us: int, seconds: float) -> None:
        """See `ShareTable.tell`."""
        ttl = min(TTL_SECONDS_MAX, max(1, math.ceil(seconds)))
        await self._session.run("told_put", key=key, host=host, until_us=until_us, ttl=ttl, until_as_timestamp=until_us)

    async def notify(self, incarnation: str, key: str, mark: str) -> None:
        """See `ShareTable.notify`."""
        await self._session.run("nudge_put", incarnation=incarnation, key=key, mark=mark)

    async def notices(self, incarnation: str) -> dict[str, str]:
        """See `ShareTable.notices`."""
        return {row["key"]: row["mark"] for row in await self._session.run("nudge_get", incarnation=incarnation)}


def _by_us(verdict: Verdict, new: Turn | Drawn) -> bool:
    """Whether a version of ours is there, though the write of `new` was not applied.

    A server that tried twice says so of what it wrote itself; but it may also be an earlier attempt of ours of which
    nobody knew, and which says something else.
    """
    row = verdict.row
    return row is not None and row["version"] == new.version and row.get("made_by") == new.by

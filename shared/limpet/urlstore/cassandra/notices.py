"""Notices of a shard: aggregated per kind, host and reason until delivered.

Each writer has a row of its own for a notice and day, and raises its count; delivery writes beside it up to which count
people were told. What is shown is the difference. Delivery goes by the counts that were shown, so one that is late,
doubled or overtaken by a writer takes nothing off that nobody saw. Days are dropped whole, once they are delivered and
`DAYS_KEPT` later days have notices; what is noticed as late as that goes to a younger day, clear of what is dropped.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from limpet.urlstore.cassandra import codec
from limpet.urlstore.cassandra.batches import DELIVER, UNRECORDED, Groups
from limpet.urlstore.cassandra.session import Row, Session
from limpet.urlstore.types import DAMAGED_SEGMENT, Notice

DAY_US: Final = 86_400_000_000
SHOWN_MAX: Final = 65_536
DAYS_KEPT: Final = 3
DAYS_WRITTEN: Final = 2

Key = tuple[str, str, str]


class _Part(NamedTuple):
    """One writer's row of one day, as it was shown."""

    day: int
    writer: str
    told: int


class Notices:
    """See the module."""

    def __init__(self, session: Session, shard: int, writer: str, groups: Groups = UNRECORDED) -> None:
        self._session, self._shard, self._writer, self._groups = session, shard, writer, groups
        self._shown: OrderedDict[Notice, list[_Part]] = OrderedDict()
        self._quiet: set[int] = set()  # days that nobody writes to any more, delivered whole
        self._lock = asyncio.Lock()

    async def add(self, key: Key, sample: str, now_us: int, count: int) -> None:
        """See `UrlStore.notify`. `key`: kind, host and reason."""
        kind, _, reason = key = (codec.clipped(key[0]), codec.clipped(key[1]), codec.clipped(key[2]))
        async with self._lock:
            days = await self._stored_days()
            day = max([now_us // DAY_US, *days[-DAYS_WRITTEN:][:1]])
            place = self._place(day, key, self._writer)
            if kind == DAMAGED_SEGMENT:
                await self._session.run("damage_put", shard=self._shard, reason=reason)
            if day not in days:
                await self._session.run("notice_day_put", shard=self._shard, day=day)
            cells = _raised(await self._session.one("notice_get", **place), codec.clipped(sample), now_us, count)
            await self._session.run("notice_put", **place, **cells)

    async def undelivered(self) -> list[Notice]:
        """See `UrlStore.notices`."""
        groups: dict[Key, list[tuple[int, Row]]] = {}
        days = await self._stored_days()
        for day in days:
            left = [] if day in self._quiet else await self._left(day)
            if not left and day not in days[-DAYS_WRITTEN:]:
                self._quiet.add(day)
            for row in left:
                groups.setdefault((row["kind"], row["host"], row["reason"]), []).append((day, row))
        return sorted((self._shows(key, rows) for key, rows in groups.items()), key=_age)

    async def delivered(self, notices: Sequence[Notice]) -> None:
        """See `UrlStore.delivered`. What this store did not show is not taken off: it is shown again."""
        told = [(notice, part) for notice in notices for part in self._shown.get(notice, ())]

        async def note(one: tuple[Notice, _Part]) -> None:
            notice, part = one
            place = self._place(part.day, (notice.kind, notice.host, notice.reason), part.writer)
            await self._session.run("notice_deliver", **place, delivered=part.told)

        await self._groups.each(DELIVER, told, note)
        await self._drop()

    async def damages(self) -> list[str]:
        """Where damage was found, delivered or not."""
        return [row["reason"] for row in await self._session.run("damages", shard=self._shard)]

    def _shows(self, key: Key, rows: Sequence[tuple[int, Row]]) -> Notice:
        first = min((row for _, row in rows), key=lambda row: (row["first_us"], row["sample"]))
        notice = Notice(
            id=_id(key, first["first_us"]),
            kind=key[0],
            host=key[1],
            reason=key[2],
            count=sum(row["count"] - (row["delivered"] or 0) for _, row in rows),
            sample=first["sample"],
            first_us=first["first_us"],
            last_us=max(row["last_us"] for _, row in rows),
        )
        self._shown[notice] = [_Part(day, row["writer"], row["count"]) for day, row in rows]
        self._shown.move_to_end(notice)
        if len(self._shown) > SHOWN_MAX:
            self._shown.popitem(last=False)
        return notice

    async def _drop(self) -> None:
        for day in (await self._stored_days())[:-DAYS_KEPT]:
            if day not in self._quiet and await self._left(day):
                continue
            await self._session.run("notices_drop", shard=self._shard, day=day)
            await self._session.run("notice_day_drop", shard=self._shard, day=day)
            self._quiet.discard(day)

    async def _left(self, day: int) -> list[Row]:
        """What was noticed on a day and not delivered."""
        rows = await self._session.run("notices_of_day", shard=self._shard, day=day)
        return [row for row in rows if row["count"] > (row["delivered"] or 0)]

    async def _stored_days(self) -> list[int]:
        return [row["day"] for row in await self._session.run("notice_days", shard=self._shard)]

    def _place(self, day: int, key: Key, writer: str) -> dict[str, Any]:
        kind, host, reason = key
        return {"shard": self._shard, "day": day, "kind": kind, "host": host, "reason": reason, "writer": writer}


def _raised(stored: Row | None, sample: str, now_us: int, count: int) -> dict[str, Any]:
    """This writer's row with `count` more; a new beginning where all of it was delivered."""
    if stored is None or stored["count"] is None:
        return {"count": count, "sample": sample, "first_us": now_us, "last_us": now_us}
    total = stored["count"] + count
    if (stored["delivered"] or 0) >= stored["count"]:
        return {"count": total, "sample": sample, "first_us": now_us, "last_us": now_us}
    kept = {"sample": stored["sample"], "first_us": stored["first_us"]}
    return {"count": total, **kept, "last_us": max(stored["last_us"], now_us)}


def _age(notice: Notice) -> tuple[int, str, str, str]:
    return notice.first_us, notice.kind, notice.host, notice.reason


def _id(key: Key, first_us: int) -> int:
    """The same for a notice until all of it was delivered."""
    text = "\0".join((*key, str(first_us)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest())

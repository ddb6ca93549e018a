"""Hosts and authorities of a shard: what politeness and robots must remember, and how many URLs a host has.

Politeness has one writer, the owner of the shard, whose epoch leads the timestamps. The count of URLs has another,
admission; each of its incarnations raises a cell of its own.
"""

import asyncio
import zlib
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import msgspec

from limpet.urlstore.cassandra import codec
from limpet.urlstore.cassandra.batches import COUNT_HOSTS, UNRECORDED, Groups
from limpet.urlstore.cassandra.guarded import each
from limpet.urlstore.cassandra.led import Led
from limpet.urlstore.cassandra.session import Row, Session
from limpet.urlstore.types import AuthorityRow, HostRow

PARTS: Final = 16
"""Partitions of a shard's hosts; fixed for good."""

KNOWN_MAX: Final = 65_536

PAGE_ROWS: Final = 1_000
LAST_NAME: Final = "\U0010ffff"
"""Behind every name of a host."""


def part_of(name: str) -> int:
    """The partition of a host or an authority."""
    return zlib.crc32(name.encode()) % PARTS


class Hosts:
    """Host and authority rows of one shard. `writer` names this object among all that ever write to the shard."""

    def __init__(self, session: Session, shard: int, led: Led, writer: str, groups: Groups = UNRECORDED) -> None:
        self._session, self._shard, self._led, self._writer = session, shard, led, writer
        self._groups = groups
        self._met: OrderedDict[str, None] = OrderedDict()
        self._counted: dict[str, int] = {}
        self._generation = 0
        self._counting = asyncio.Lock()

    # -- politeness ----------------------------------------------------------------------------------------------------
    async def host(self, host: str) -> HostRow | None:
        """See `UrlStore.host`."""
        place = self._place(host) | {"host": host}
        stored, urls = await asyncio.gather(
            self._session.one("host_get", **place), self._session.run("host_urls_get", **place)
        )
        if stored is None and not urls:
            return None
        return _row(host, stored["data"] if stored else b"", sum(row["urls"] for row in urls))

    async def put_host(self, row: HostRow) -> None:
        """See `UrlStore.put_host`. Raises `Definite` without an epoch."""
        data = codec.encode(msgspec.structs.replace(row, urls=0))
        led = self._led.next("put_host")
        await self._session.run("host_put", **self._place(row.host), host=row.host, data=data, led=led)

    async def hosts(self) -> list[HostRow]:
        """See `UrlStore.hosts`."""
        return [row for rows in await each(range(PARTS), self._of_part) for row in rows]

    async def pages(self, rows_max: int = PAGE_ROWS) -> AsyncIterator[list[HostRow]]:
        """Every host, some at a time, in bounded memory: in the order of parts, then of names."""
        for part in range(PARTS):
            place, after = {"shard": self._shard, "part": part}, ""
            while after != LAST_NAME:
                counted = await self._session.run("host_urls_after", **place, after=after, rows_max=rows_max)
                until = LAST_NAME if len(counted) < rows_max else _whole_until(counted)
                urls: Counter[str] = Counter()
                for row in counted:
                    urls[row["host"]] += row["urls"]
                if len(urls) == 1 and until != LAST_NAME:  # more writers than rows were asked for
                    rows = await self._session.run("host_urls_get", **place, host=until)
                    urls[until] = sum(row["urls"] for row in rows)
                kept = await self._session.run("hosts_between", **place, after=after, until=until)
                data = {row["host"]: row["data"] for row in kept}
                names = sorted(host for host in data.keys() | urls.keys() if host <= until)
                yield [_row(host, data.get(host, b""), urls[host]) for host in names]
                after = until

    async def _of_part(self, part: int) -> list[HostRow]:
        place = {"shard": self._shard, "part": part}
        data = {row["host"]: row["data"] for row in await self._session.run("hosts_of_part", **place)}
        urls: dict[str, int] = {}
        for row in await self._session.run("host_urls_of_part", **place):
            urls[row["host"]] = urls.get(row["host"], 0) + row["urls"]
        return [_row(host, data.get(host, b""), urls.get(host, 0)) for host in sorted(data.keys() | urls.keys())]

    # -- robots --------------------------------------------------------------------------------------------------------
    async def authority(self, authority: str) -> AuthorityRow | None:
        """See `UrlStore.authority`."""
        row = await self._session.one("authority_get", **self._place(authority), authority=authority)
        if row is None:
            return None
        return codec.authority(row["data"]) if row["data"] else AuthorityRow(authority=authority, host=row["host"])

    async def put_authority(self, row: AuthorityRow) -> None:
        """See `UrlStore.put_authority`. Raises `Definite` without an epoch."""
        led = self._led.next("put_authority")
        await self.meet(row.authority, row.host)
        place = self._place(row.authority)
        await self._session.run("authority_put", **place, authority=row.authority, data=codec.encode(row), led=led)

    async def authorities(self) -> list[AuthorityRow]:
        """Every authority of the shard."""

        async def of_part(part: int) -> list[AuthorityRow]:
            rows = await self._session.run("authorities_of_part", shard=self._shard, part=part)
            return [
                codec.authority(row["data"])
                if row["data"]
                else AuthorityRow(authority=row["authority"], host=row["host"])
                for row in rows
            ]

        return [row for rows in await each(range(PARTS), of_part) for row in rows]

    async def robots_pages(self) -> AsyncIterator[list[AuthorityRow]]:
        """Authorities of which robots remembers something, some at a time."""
        for part in range(PARTS):
            async for rows in self._session.pages("authorities_of_part", shard=self._shard, part=part):
                yield [codec.authority(row["data"]) for row in rows if row["data"]]

    async def of_host(self, host: str) -> list[str]:
        """The authorities of a host."""
        rows = await self._session.run("authorities_of_host", shard=self._shard, host=host)
        return [row["authority"] for row in rows]

    # -- discovery -----------------------------------------------------------------------------------------------------
    async def meet(self, authority: str, host: str) -> None:
        """Before the first row of an authority is written. Idempotent, and mostly remembered."""
        if authority in self._met:
            self._met.move_to_end(authority)
            return
        await asyncio.gather(
            self._session.run("authority_meet", **self._place(authority), authority=authority, host=host),
            self._session.run("host_authority_meet", shard=self._shard, host=host, authority=authority),
        )
        self._met[authority] = None
        if len(self._met) > KNOWN_MAX:
            self._met.popitem(last=False)

    async def count(self, born: Mapping[str, int]) -> None:
        """Rows that were admitted, by host. A death before this leaves a host's count too low by one batch."""
        async with self._counting:
            if len(self._counted) > KNOWN_MAX:  # other cells, from nothing: those there stay what they are
                self._counted.clear()
                self._generation += 1
            for host, rows in born.items():
                self._counted[host] = self._counted.get(host, 0) + rows
            await self._groups.each(COUNT_HOSTS, born, self._put_count)

    async def _put_count(self, host: str) -> None:
        place = self._place(host) | {"host": host}
        writer = f"{self._writer}.{self._generation}"
        await self._session.run("host_urls_put", **place, writer=writer, urls=self._counted[host])

    def _place(self, name: str) -> dict[str, int]:
        return {"shard": self._shard, "part": part_of(name)}


def _whole_until(counted: Sequence[Row]) -> str:
    """The last host of which all rows are there; the only one, when there is but one."""
    last: str = counted[-1]["host"]
    before: list[str] = [row["host"] for row in counted if row["host"] != last]
    return before[-1] if before else last


def _row(host: str, data: bytes, urls: int) -> HostRow:
    stored = codec.host(data) if data else HostRow(host=host)
    return msgspec.structs.replace(stored, urls=urls)

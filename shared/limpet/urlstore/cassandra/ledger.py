"""What is counted and told about a shard: seeds, rejected links, requests of a day, totals, repair items.

Many write here at once: crawl node, parser, admission, reconciler, operators. So nobody reads a shared cell in order to
change it. A count is a cell for each writer, which only that writer raises, written at the timestamp of its own value:
replays and the order of arrival do not matter, and readers add the writers up. What is counted twice is only what a
caller says twice.
"""

import asyncio
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Final

from limpet.clock import Clock
from limpet.urlstore import counters
from limpet.urlstore.cassandra import codec
from limpet.urlstore.cassandra.batches import COUNT_REJECTS, UNRECORDED, Groups
from limpet.urlstore.cassandra.guarded import each
from limpet.urlstore.cassandra.session import Session
from limpet.urlstore.types import Reject, RepairItem

SAMPLES_MAX: Final = 10
PARTS: Final = 16
"""Partitions of a shard's rejected links; fixed for good."""
REJECTS_KNOWN_MAX: Final = 16_384


class Seeds:
    """Seeds of one shard."""

    def __init__(self, session: Session, shard: int) -> None:
        self._session, self._shard = session, shard

    async def add(self, url: str) -> None:
        """See `UrlStore.add_seed`."""
        await self._session.run("seed_put", shard=self._shard, url=url)

    async def all(self) -> list[str]:
        """See `UrlStore.seeds`."""
        return [row["url"] for row in await self._session.run("seeds", shard=self._shard)]


class _Own:
    """What this writer counted of one host and rule."""

    def __init__(self) -> None:
        self.count = 0
        self.samples: list[str] = []

    def add(self, reject: Reject) -> None:
        self.count += reject.count
        if reject.sample and len(self.samples) < SAMPLES_MAX and reject.sample not in self.samples:
            self.samples.append(reject.sample)


class Rejects:
    """Links that rules turned away, per host and rule."""

    def __init__(self, session: Session, shard: int, writer: str, groups: Groups = UNRECORDED) -> None:
        self._session, self._shard, self._writer, self._groups = session, shard, writer, groups
        self._own: dict[tuple[str, str], _Own] = {}
        self._generation = 0
        self._lock = asyncio.Lock()

    async def count(self, rejects: Sequence[Reject]) -> None:
        """See `UrlStore.count_rejects`."""
        async with self._lock:
            if len(self._own) > REJECTS_KNOWN_MAX:  # other cells, from nothing: those there stay what they are
                self._own.clear()
                self._generation += 1
            for reject in rejects:
                self._own.setdefault((reject.host, reject.rule), _Own()).add(reject)
            keys = dict.fromkeys((reject.host, reject.rule) for reject in rejects)
            await self._groups.each(COUNT_REJECTS, keys, self._put)

    async def all(self) -> list[Reject]:
        """See `UrlStore.rejects`."""
        merged: dict[tuple[str, str], _Own] = {}
        for rows in await each(range(PARTS), self._of_part):
            for host, rule, count, samples in rows:
                total = merged.setdefault((host, rule), _Own())
                total.add(Reject(host=host, rule=rule, count=count, sample=""))
                for sample in samples:
                    total.add(Reject(host=host, rule=rule, count=0, sample=sample))
        return [
            Reject(host=host, rule=rule, count=0 if place else total.count, sample=sample)
            for (host, rule), total in sorted(merged.items())
            for place, sample in enumerate(total.samples or [""])
        ]

    async def rules_of(self, host: str, url: str) -> list[str]:
        """Rules of which `url` is among the samples of its host."""
        place = {"shard": self._shard, "part": zlib.crc32(host.encode()) % PARTS}
        rows = await self._session.run("rejects_of_host", **place, host=host)
        return sorted({row["rule"] for row in rows if url in codec.texts(row["samples"])})

    async def by_rule(self) -> Counter[str]:
        """How many links each rule turned away."""
        counts: Counter[str] = Counter()
        for part in range(PARTS):
            async for rows in self._session.pages("rejects_of_part", shard=self._shard, part=part):
                for row in rows:
                    counts[row["rule"]] += row["count"]
        return counts

    async def _of_part(self, part: int) -> list[tuple[str, str, int, list[str]]]:
        rows = await self._session.run("rejects_of_part", shard=self._shard, part=part)
        return [(row["host"], row["rule"], row["count"], codec.texts(row["samples"])) for row in rows]

    async def _put(self, key: tuple[str, str]) -> None:
        own = self._own[key]
        await self._session.run(
            "reject_put",
            shard=self._shard,
            part=zlib.crc32(key[0].encode()) % PARTS,
            host=key[0],
            rule=key[1],
            writer=f"{self._writer}.{self._generation}",
            count=own.count,
            samples=codec.encode(own.samples),
        )


class Requests:
    """Requests of a UTC day. Those of outcomes are noted in memory and written with the next `flush`."""

    def __init__(self, session: Session, shard: int, writer: str) -> None:
        self._session, self._shard, self._writer = session, shard, writer
        self._own: Counter[int] = Counter()
        self._unwritten: set[int] = set()
        self._lock = asyncio.Lock()

    def note(self, day: int, requests: int = 1) -> None:
        """An outcome counts itself."""
        self._own[day] += requests
        self._unwritten.add(day)

    async def count(self, day: int, requests: int) -> None:
        """Requests that are durable when this returns."""
        self.note(day, requests)
        await self.flush()

    async def flush(self) -> None:
        """What was noted so far is durable afterwards."""
        async with self._lock:
            for day in sorted(self._unwritten):
                self._unwritten.discard(day)
                try:
                    place = {"shard": self._shard, "day": day}
                    await self._session.run("requests_put", **place, writer=self._writer, count=self._own[day])
                except BaseException:
                    self._unwritten.add(day)
                    raise

    async def of(self, day: int) -> int:
        """See `UrlStore.requests`."""
        rows = await self._session.run("requests_get", shard=self._shard, day=day)
        others: list[int] = [row["count"] for row in rows if row["writer"] != self._writer]
        return self._own[day] + sum(others)


class Totals:
    """Counters that no recount can find: kept in memory, written whole with each `flush`. A death loses what is not."""

    def __init__(self, session: Session, shard: int, writer: str, clock: Clock) -> None:
        self._session, self._shard, self._writer, self._clock = session, shard, writer, clock
        self._own: Counter[str] = Counter()
        self._number = 0
        self._written = self._number
        self._lock = asyncio.Lock()

    def add(self, name: str, count: int = 1) -> None:
        """Count a total of `limpet.urlstore.counters`; gauges are the sweep's."""
        if name in counters.TOTALS and count:
            self._own[name] += count
            self._number += 1

    async def flush(self) -> None:
        """What was counted so far is durable afterwards."""
        async with self._lock:
            number = self._number
            if number == self._written:
                return
            data, at_us = codec.encode(dict(self._own)), self._clock.wall_us()
            await self._session.run(
                "tally_put", shard=self._shard, writer=self._writer, data=data, at_us=at_us, number=number
            )
            self._written = number

    async def all(self) -> dict[str, int]:
        """The sums over all writers; of this one as they are now, of others as they last wrote them."""
        total = Counter(self._own)
        for row in await self._session.run("tallies", shard=self._shard):
            if row["writer"] != self._writer:
                total.update(codec.numbers(row["data"]))
        return dict(total)


class Repairs:
    """Findings of the reconciler that are open."""

    def __init__(self, session: Session, shard: int) -> None:
        self._session, self._shard = session, shard

    async def open(self, item: RepairItem) -> None:
        """See `UrlStore.put_repair`. One that may or may not have been opened may be opened again: it is once."""
        subject, detail = codec.clipped(item.subject), codec.clipped(item.detail)
        cells = {"kind": item.kind, "subject": subject, "detail": detail, "created_us": item.created_us}
        await self._session.conditional("repair_open", shard=self._shard, **cells)

    async def close(self, kind: str, subject: str) -> None:
        """See `UrlStore.close_repair`."""
        await self._session.conditional("repair_close", shard=self._shard, kind=kind, subject=codec.clipped(subject))

    async def all(self) -> list[RepairItem]:
        """See `UrlStore.repairs`."""
        found = [RepairItem(**row) for row in await self._session.run("repairs", shard=self._shard)]
        return sorted(found, key=lambda item: (item.created_us, item.kind, item.subject))

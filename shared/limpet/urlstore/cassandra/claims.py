"""Leasing what is due, one authority at a time; renewing leases, and handing them back.

A claim reads the lanes from their cursors on and leases each row by one conditional write that finds it where it was
read. What another process did meanwhile shows as a write that was not applied.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import NamedTuple
from weakref import WeakValueDictionary

from limpet.model.errors import Definite, Indefinite
from limpet.model.lifecycle import Actor, State, move
from limpet.urlstore.cassandra.batches import CLAIM, HAND_BACK, RENEW, Groups
from limpet.urlstore.cassandra.cursors import Cursors, Wakes
from limpet.urlstore.cassandra.moves import Moves
from limpet.urlstore.cassandra.reading import Reading
from limpet.urlstore.cassandra.rows import NOBODY, Entry, way
from limpet.urlstore.cassandra.session import Row, Session
from limpet.urlstore.types import Claim, Lane


class Request(NamedTuple):
    """What `claim` was asked for."""

    authority: str
    limit: int
    now_us: int
    lease_us: int
    holder: str


class Claims:
    """The crawl node's side of a shard, but for completions."""

    def __init__(
        self, session: Session, reading: Reading, cursors: Cursors, wakes: Wakes, moves: Moves, groups: Groups
    ) -> None:
        self._session, self._reading = session, reading
        self._cursors, self._wakes, self._moves = cursors, wakes, moves
        self._groups = groups
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def claim(self, request: Request) -> list[Claim]:
        """See `UrlStore.claim`."""
        lock = self._locks.setdefault(request.authority, asyncio.Lock())
        async with lock:
            picked = await self._pick(request)
            leased: dict[Entry, Claim] = {}

            async def lease(one: tuple[Entry, Row]) -> None:
                claim = await self._lease(request, *one)
                if claim is not None:
                    leased[one[0]] = claim

            try:
                await self._groups.each(CLAIM, picked, lease)
            except (Definite, Indefinite):
                if not leased:  # otherwise what is ours is told, and expiry looks after the rest
                    raise
            await self._cursors.save(request.authority)
        return [leased[entry] for entry, _ in picked if entry in leased]

    async def _pick(self, request: Request) -> list[tuple[Entry, Row]]:
        """What is to be leased together: a row that was interrupted goes alone."""
        picked: list[tuple[Entry, Row]] = []
        for lane in Lane:
            chunk = max(1, request.limit - len(picked))
            rows = self._reading.live(request.authority, lane, request.now_us, request.now_us, chunk)
            async with aclosing(rows):
                async for entry, row in rows:
                    if row["interruptions"] > 0:
                        return picked or [(entry, row)]
                    picked.append((entry, row))
                    if len(picked) >= request.limit:
                        return picked
        return picked

    async def _lease(self, request: Request, entry: Entry, row: Row) -> Claim | None:
        """One conditional write; None when the row is no more as it was read."""
        move(State(row["state"]), State.LEASED, Actor.CRAWLNODE)
        token = self._moves.writes.stamp()
        as_read = {name: row[name] for name in ("key", "state", "lane", "entry_us")}
        kept = {name: row[name] for name in ("reason", "due_us", "failures", "interruptions", "latest_us")}
        alone = row["interruptions"] > 0
        leasing = self._moves.writes.guarded(
            "url_claim",
            entry.fp,
            lambda now: now["claim"] == NOBODY and all(now[name] == value for name, value in as_read.items()),
            stamp=token,
            lease_us=request.lease_us,
            holder=request.holder,
            alone=alone,
            **as_read,
            **kept,
        )
        try:
            ruling, via = await asyncio.gather(leasing, self._via(row))
        except Indefinite:
            self._reading.hold(request.authority, entry, token, request.lease_us)  # it may be: expiry looks
            raise
        if not ruling.applied:
            return None
        self._reading.hold(request.authority, entry, token, request.lease_us)
        self._wakes.busy(request.authority, row["host"])
        come = way(row)
        return Claim(
            fp=entry.fp,
            token=token,
            url=row["url"],
            host=row["host"],
            authority=row["authority"],
            lease_us=request.lease_us,
            depth=come.depth,
            hops=come.hops,
            seed=come.seed,
            failures=row["failures"],
            interruptions=row["interruptions"],
            alone=alone,
            latest_us=row["latest_us"],
            due_us=row["due_us"],
            via=via,
        )

    async def _via(self, row: Row) -> str:
        """URL of the page that a row was found on."""
        fp = way(row).via
        found = await self._session.one("url_of", fp=fp) if fp else None
        return found["url"] or "" if found else ""

    async def renew(self, claims: Sequence[Claim], now_us: int, lease_us: int) -> list[bool]:
        """See `UrlStore.renew`."""
        return await self._groups.each(RENEW, claims, lambda claim: self._renew(claim, now_us, lease_us))

    async def _renew(self, claim: Claim, now_us: int, lease_us: int) -> bool:
        def runs(row: Row) -> bool:
            return bool(row["claim"] == claim.token and row["lease_us"] > now_us)

        ruling = await self._moves.writes.guarded(
            "url_renew",
            claim.fp,
            lambda row: runs(row) and row["lease_us"] < lease_us,
            claim=claim.token,
            now_us=now_us,
            lease_us=lease_us,
        )
        renewed = ruling.applied or (ruling.row is not None and runs(ruling.row))
        held = self._reading.leases.get(claim.fp)
        if renewed and held is not None and held.token == claim.token:
            self._reading.hold(held.authority, held.entry, held.token, max(held.lease_us, lease_us))
        return renewed

    async def hand_back(self, claims: Sequence[Claim], due_us: int) -> None:
        """See `UrlStore.hand_back`."""
        await self._groups.each(HAND_BACK, claims, lambda claim: self._hand_back(claim, due_us))

    async def _hand_back(self, claim: Claim, due_us: int) -> None:
        row = await self._session.one("url_get", fp=claim.fp)
        if row is None or row["claim"] != claim.token:
            return
        move(State.LEASED, State.DUE, Actor.CRAWLNODE)
        lane, at_us = row["lane"], row["entry_us"]  # no cursor passes what is leased: the old entry will do
        if due_us:
            at_us = await self._moves.index.enter(row["authority"], row["host"], lane, due_us, claim.fp)
        ruling = await self._moves.writes.guarded(
            "url_hand_back",
            claim.fp,
            lambda now: bool(now["claim"] == claim.token),
            claim=claim.token,
            due_us=due_us or row["due_us"],
            lane=lane,
            entry_us=at_us,
        )
        self._reading.let_go(claim.fp, claim.token, at=(lane, at_us))
        if ruling.applied and due_us:
            await self._moves.confirm(row, lane, at_us)

"""Admission's side of a shard: due entry, blind row, read back."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

from limpet.model.lifecycle import Actor, State, move
from limpet.urlstore import counters
from limpet.urlstore.cassandra.batches import ADMIT, Groups
from limpet.urlstore.cassandra.hooks import Ledger
from limpet.urlstore.cassandra.moves import Moves
from limpet.urlstore.cassandra.rows import NO_ENTRY, complete, discovery_cells, encode, way, way_cells
from limpet.urlstore.cassandra.session import Row, Session
from limpet.urlstore.types import AdmitResult, Candidate, Lane, leads_on


def born(candidate: Candidate) -> State:
    """The state in which a candidate becomes a row."""
    if candidate.cancelled:
        return State.CANCELLED
    return State.PARKED if candidate.parked else State.DUE


class Discovery:
    """See `UrlStore.admit`."""

    def __init__(self, session: Session, shard: int, moves: Moves, ledger: Ledger, groups: Groups) -> None:
        self._session, self._shard = session, shard
        self._moves, self._ledger, self._groups = moves, ledger, groups

    async def admit(self, candidates: Sequence[Candidate], now_us: int) -> list[AdmitResult]:
        """Everything is encoded before anything is written; candidates of one fingerprint go one after the other."""
        for candidate in candidates:
            _check(candidate)
        turns: dict[bytes, list[int]] = {}
        for place, candidate in enumerate(candidates):
            turns.setdefault(candidate.fp, []).append(place)
        results = [AdmitResult.KNOWN] * len(candidates)

        async def in_turn(places: list[int]) -> None:
            for place in places:
                results[place] = await self._admit(candidates[place], now_us)

        try:
            await self._groups.each(ADMIT, turns.values(), in_turn)
        finally:  # what was admitted before something failed is known when the batch comes again
            await self._count(candidates, results)
        return results

    async def _count(self, candidates: Sequence[Candidate], results: Sequence[AdmitResult]) -> None:
        fresh = Counter(one.host for one, result in zip(candidates, results, strict=True) if result is AdmitResult.NEW)
        if fresh:
            await self._ledger.count(fresh)
            self._ledger.add(counters.ADMITTED, fresh.total())

    async def _admit(self, candidate: Candidate, now_us: int) -> AdmitResult:
        row = await self._session.one("url_get", fp=candidate.fp)
        if row is not None and complete(row):
            return await self._known(candidate, row, now_us)
        await self._insert(candidate, now_us)
        row = await self._session.one("url_get", fp=candidate.fp)
        if row is None or row["key"] != candidate.key:
            return await self._clash(candidate, now_us)
        return AdmitResult.NEW

    async def _insert(self, candidate: Candidate, now_us: int) -> None:
        state = born(candidate)
        move(None, state, Actor.ADMISSION)
        work: list[Any] = [self._ledger.meet(candidate.authority, candidate.host)]
        at_us = NO_ENTRY
        if state is State.CANCELLED:
            work.append(self._ledger.cancelled(candidate.host, candidate.cancelled, candidate.fp))
        if state is State.DUE:
            place = (candidate.authority, candidate.host, Lane.NEW, candidate.due_us, candidate.fp)
            work.append(self._moves.index.enter(*place))
        done = await asyncio.gather(*work)
        if state is State.DUE:
            at_us = done[-1]
        cells = discovery_cells(candidate, self._shard, state, at_us, now_us)
        await self._session.together(("url_discover", cells), ("url_nearer", way_cells(candidate)))
        if state is State.DUE:
            row = {"fp": candidate.fp, "authority": candidate.authority, "host": candidate.host}
            await self._moves.confirm(row, Lane.NEW, at_us)

    async def _known(self, candidate: Candidate, row: Row, now_us: int) -> AdmitResult:
        """A row keeps the shortest way from a seed; what was published with a longer one has to be published again."""
        if row["key"] != candidate.key:
            return await self._clash(candidate, now_us)
        come = way(row)
        if not leads_on(come.hops) or candidate.depth > come.depth or not leads_on(candidate.hops):
            return AdmitResult.KNOWN
        if candidate.depth < come.depth:
            await self._session.run("url_nearer", **way_cells(candidate))
        farther = any(output.depth > candidate.depth for output in await self._ledger.outputs(candidate.fp))
        return AdmitResult.NEARER if farther else AdmitResult.KNOWN

    async def _clash(self, candidate: Candidate, now_us: int) -> AdmitResult:
        move(None, State.REVIEW, Actor.ADMISSION)
        verdict = await self._session.conditional(
            "clash_insert",
            shard=self._shard,
            fp=candidate.fp,
            key=candidate.key,
            candidate=encode(candidate),
            admitted_us=now_us,
        )
        if verdict.applied:
            self._ledger.add(counters.CLASHES)
        return AdmitResult.CLASH


def _check(candidate: Candidate) -> None:
    """Raises ValueError for text that cannot be stored."""
    encode(candidate)

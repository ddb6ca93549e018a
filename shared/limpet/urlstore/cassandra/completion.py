"""The end of a claim: outcome, state, due time and lease in one guarded write, and what has to be there before it."""

import asyncio
from typing import Any, Final

from limpet.model.errors import Definite, Indefinite
from limpet.model.lifecycle import Actor, State, move
from limpet.model.outcome import UNSENT, Outcome
from limpet.urlstore import counters
from limpet.urlstore.cassandra.hooks import Ledger
from limpet.urlstore.cassandra.moves import Moves
from limpet.urlstore.cassandra.reading import Reading
from limpet.urlstore.cassandra.rows import NO_ENTRY, encode
from limpet.urlstore.cassandra.session import Row, Session
from limpet.urlstore.types import Claim, Completion

SUCCESS: Final = frozenset({State.FETCHED, State.GONE})
DAY_US: Final = 86_400_000_000


def is_due(completion: Completion) -> bool:
    """Whether the row waits in the due index afterwards."""
    return completion.state is State.DUE or (completion.state is State.FETCHED and completion.due_us > 0)


class Outcomes:
    """Writes outcomes with what points at them."""

    def __init__(self, session: Session, shard: int, ledger: Ledger) -> None:
        self._session, self._shard, self._ledger = session, shard, ledger

    async def announce(self, outcome: Outcome) -> None:
        """Before the outcome: recovery finds the record that it is going to name."""
        place = outcome.location
        if place is not None:
            await self._session.run(
                "record_insert",
                segment=place.segment,
                offset=place.offset,
                fp=outcome.fp,
                fetched_us=outcome.fetched_us,
                shard=self._shard,
                length=place.length,
            )

    async def row(self, fp: bytes) -> Row | None:
        """The row that an outcome belongs to."""
        return await self._session.one("url_get", fp=fp)

    async def written(self, outcome: Outcome, stamp: bytes) -> bool:
        """Whether the stored outcome is from the write with that stamp, whose answer was lost."""
        try:
            row = await self._session.settled("outcome_written", fp=outcome.fp, fetched_us=outcome.fetched_us)
        except Definite as error:
            raise Indefinite(f"an outcome of {outcome.fp.hex()} may or may not be written ({error})") from error
        return row is not None and row["written"] == stamp

    async def exists(self, fp: bytes, fetched_us: int) -> bool:
        """Whether there is an outcome of that time."""
        return await self._session.one("outcome_written", fp=fp, fetched_us=fetched_us) is not None

    async def insert(self, outcome: Outcome, state: State, now_us: int, stamp: bytes) -> bool:
        """The outcome of a row that does not wait for one; False when it was there."""
        try:
            verdict = await self._session.conditional(
                "outcome_insert",
                fp=outcome.fp,
                fetched_us=outcome.fetched_us,
                outcome=encode(outcome),
                state=state.value,
                completed_us=now_us,
                stamp=stamp,
            )
        except Indefinite:
            if await self.written(outcome, stamp):
                return True
            raise
        return verdict.applied or await self.written(outcome, stamp)

    def count(self, outcome: Outcome) -> None:
        """Of an outcome that is new."""
        if outcome.failure not in UNSENT:
            self._ledger.note(outcome.fetched_us // DAY_US)
        self._ledger.add(counters.OUTCOMES)
        self._ledger.add(counters.BYTES, outcome.wire_bytes)
        if outcome.location is not None:
            self._ledger.add(counters.RECORDS)


class Completions:
    """See `UrlStore.complete`, but for the host row."""

    def __init__(self, reading: Reading, moves: Moves, outcomes: Outcomes, ledger: Ledger) -> None:
        self._reading, self._moves = reading, moves
        self._outcomes, self._ledger = outcomes, ledger

    def check(self, completion: Completion) -> None:
        """Raises `IllegalTransitionError` before anything is written."""
        move(State.LEASED, completion.state, Actor.CRAWLNODE)

    async def complete(self, completion: Completion) -> bool:
        """End a claim; False when its lease is over or another's."""
        self.check(completion)
        claim = completion.claim
        at_us = await self._prepare(completion)
        if at_us is None:
            self._ledger.add(counters.LATE_COMPLETIONS)
            return False
        if not await self._write(completion, at_us):
            self._ledger.add(counters.LATE_COMPLETIONS)
            return False
        self._reading.let_go(claim.fp, claim.token, at=(int(completion.lane), at_us) if is_due(completion) else None)
        self._ledger.add(counters.COMPLETIONS)
        if completion.outcome is not None:
            self._outcomes.count(completion.outcome)
        if is_due(completion):
            row = {"fp": claim.fp, "authority": claim.authority, "host": claim.host}
            await self._moves.confirm(row, int(completion.lane), at_us)
        return True

    async def _prepare(self, completion: Completion) -> int | None:
        """What has to be durable before the row says so; the row's position then. None: it is too late already."""
        claim = completion.claim
        if claim.lease_us <= completion.now_us and not self._renewed(claim, completion.now_us):
            row = await self._outcomes.row(claim.fp)
            if row is None or row["claim"] != claim.token or row["lease_us"] <= completion.now_us:
                return None
        work: list[Any] = []
        if completion.outcome is not None:
            work.append(self._outcomes.announce(completion.outcome))
        if completion.state is State.DENIED:
            work.append(self._ledger.denied(claim.authority, claim.fp))
        if is_due(completion):
            work.append(self._enter(completion))
        done = await asyncio.gather(*work)
        return int(done[-1]) if is_due(completion) else NO_ENTRY

    def _renewed(self, claim: Claim, now_us: int) -> bool:
        held = self._reading.leases.get(claim.fp)
        return held is not None and held.token == claim.token and held.lease_us > now_us

    async def _enter(self, completion: Completion) -> int:
        claim = completion.claim
        return await self._moves.index.enter(
            claim.authority, claim.host, int(completion.lane), completion.due_us, claim.fp
        )

    async def _write(self, completion: Completion, at_us: int) -> bool:
        claim, outcome = completion.claim, completion.outcome
        success = completion.state in SUCCESS

        def ours(row: Row) -> bool:
            return bool(row["claim"] == claim.token and row["lease_us"] > completion.now_us)

        cells: dict[str, Any] = {
            "state": completion.state.value,
            "reason": completion.reason,
            "due_us": completion.due_us,
            "lane": int(completion.lane),
            "entry_us": at_us,
            "failures": 0 if success else completion.failures,
            "interruptions": 0 if success else claim.interruptions,
            "claim": claim.token,
            "now_us": completion.now_us,
        }
        if outcome is None:
            return (await self._moves.writes.guarded("url_end", claim.fp, ours, **cells)).applied
        ruling = await self._moves.writes.guarded(
            "url_complete",
            claim.fp,
            ours,
            proof=lambda stamp: self._outcomes.written(outcome, stamp),
            fetched_us=outcome.fetched_us,
            outcome=encode(outcome),
            **cells,
        )
        return ruling.applied

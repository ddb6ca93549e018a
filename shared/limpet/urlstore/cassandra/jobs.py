"""Parse jobs: a second and later attempt, in the partition of the outputs it is about."""

from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec

from limpet.clock import Clock
from limpet.runtime.randomness import Random
from limpet.urlstore.cassandra import codec
from limpet.urlstore.cassandra.guarded import TRIES_MAX, attempt, contended, each, settled
from limpet.urlstore.cassandra.jobindex import LAG_US, Entry, JobIndex
from limpet.urlstore.cassandra.session import Row, Session
from limpet.urlstore.types import Job

TOKEN_BYTES: Final = 16
OPEN: Final = "open"
REVIEW: Final = "review"
DONE: Final = "done"
"""Stays in the store, and counts as absent."""
LOOK: Final = 16
"""Jobs that are read at a time: mostly one is wanted."""


class Jobs:
    """The jobs of one shard."""

    def __init__(self, session: Session, shard: int, random: Random, clock: Clock) -> None:
        self._session, self._shard, self._random = session, shard, random
        self._index = JobIndex(session, shard, clock)

    async def put(self, job: Job) -> None:
        """See `UrlStore.put_job`."""
        if job.state not in {OPEN, REVIEW}:
            raise ValueError(f"a job is open or in review, not {job.state!r}")
        free = msgspec.structs.replace(job, reason=codec.clipped(job.reason), token=b"", lease_us=0)
        for _ in range(TRIES_MAX):
            stored = await self._get(job.fp, job.fetched_us)
            if not _may_replace(stored, job):
                return
            if await self._write(stored, free):
                return
        raise contended("put_job")

    async def claim(self, limit: int, now_us: int, lease_us: int) -> list[Job]:
        """See `UrlStore.claim_jobs`."""
        claimed: list[Job] = []
        passed_us = now_us
        async for entry, job in self._waiting(now_us):
            is_open = job is not None and job.state == OPEN
            if job is None or not is_open or not _eligible(job, now_us):
                self._index.note(entry, settled=is_open)
                continue
            held = await self._lease(job, lease_us)
            if held is None:
                continue  # somebody else was first, or the write was lost: looked at again next time
            self._index.note(entry, settled=True)
            claimed.append(held)
            if len(claimed) >= limit:
                passed_us = entry.at_us
                break
        await self._index.advance(min(passed_us, now_us - LAG_US))
        return claimed

    async def _waiting(self, to_us: int) -> AsyncIterator[tuple[Entry, Job | None]]:
        """Entries up to a time that have to be looked at, with their jobs."""
        async for page in self._index.entries(to_us):
            unseen = self._index.unseen(page)
            for begin in range(0, len(unseen), LOOK):
                some = unseen[begin : begin + LOOK]
                jobs = await each(some, lambda entry: self._get(entry.fp, entry.fetched_us))
                for found in zip(some, jobs, strict=True):
                    yield found

    async def all(self) -> list[Job]:
        """See `UrlStore.jobs`."""
        found = [job async for job in self._unended()]
        return sorted(found, key=lambda job: (job.due_us, job.fp, job.fetched_us))

    async def rearm(self, now_us: int) -> int:
        """See `UrlStore.rearm_jobs`."""
        count = 0
        async for job in self.in_review():
            fresh = msgspec.structs.replace(job, state=OPEN, attempt=2, due_us=now_us, token=b"", lease_us=0)
            count += await self._write(job, fresh)
        return count

    async def release(self, now_us: int) -> None:
        """End every lease. The token stays: whoever claims the job next knows that its holder is gone."""
        async for job in self._unended():
            if job.state == OPEN and job.lease_us > 0:
                await self._write(job, msgspec.structs.replace(job, lease_us=0), at_us=now_us)

    async def settle(self, job: Job, state: str) -> bool:
        """A job that its holder is done with: `DONE`, or `OPEN` and free at once. False: it is another's."""
        cells = {"fp": job.fp, "fetched_us": job.fetched_us}
        if state == OPEN:
            await self._index.enter(job.fp, job.fetched_us, job.due_us)
        verdict = await attempt(self._session, "job_settle", **cells, state=state, hold=b"", lease_us=0, held=job.token)
        if verdict is not None and verdict.applied:
            return True
        row = await settled(self._session, "job_get", **cells)
        return row is not None and row["hold"] == b"" and row["state"] == state

    async def _write(self, stored: Job | None, job: Job, at_us: int = -1) -> bool:
        """Entry, then row, if that still is as it was read. False: somebody else changed it meanwhile.

        What was not applied, or may have been, is asked after: it happened if the row says exactly what it wrote.
        Cassandra answers "not applied" also for a write that another one finished on its way.
        """
        entered = None
        if job.state == OPEN:
            entered = await self._index.enter(job.fp, job.fetched_us, max(job.due_us, job.lease_us, at_us))
        else:
            key = {"fp": job.fp, "fetched_us": job.fetched_us}
            await self._session.run("job_review_enter", shard=self._shard, **key)
        name, params = _statement(stored, job)
        verdict = await attempt(self._session, name, **params)
        applied = (verdict is not None and verdict.applied) or await self._is(job)
        if applied and entered is not None:
            await self._index.confirm(entered)
        return applied

    async def _is(self, job: Job) -> bool:
        row = await settled(self._session, "job_get", fp=job.fp, fetched_us=job.fetched_us)
        return row is not None and _job(job.fp, job.fetched_us, row) == job

    async def _lease(self, job: Job, lease_us: int) -> Job | None:
        """Hold it under a fresh token. A job whose holder let the lease run out has used an attempt up."""
        used = job.attempt + 1 if job.token else job.attempt
        token = self._random.token(TOKEN_BYTES)
        held = msgspec.structs.replace(job, token=token, lease_us=lease_us, attempt=used)
        return held if await self._write(job, held) else None

    async def _get(self, fp: bytes, fetched_us: int) -> Job | None:
        row = await self._session.one("job_get", fp=fp, fetched_us=fetched_us)
        return None if row is None else _job(fp, fetched_us, row)

    async def _unended(self) -> AsyncIterator[Job]:
        """Every job that is open or in review, each once."""
        met: set[tuple[bytes, int]] = set()
        async for page in self._index.entries():
            fresh = {entry[1:]: entry for entry in page if entry[1:] not in met}
            met |= fresh.keys()
            for job in await each(fresh.values(), lambda entry: self._get(entry.fp, entry.fetched_us)):
                if job is not None and job.state == OPEN:
                    yield job
        async for job in self.in_review():
            yield job

    async def in_review(self) -> AsyncIterator[Job]:
        """Jobs that wait for a person, a page at a time."""
        async for page in self._session.pages("job_reviews", shard=self._shard):
            for job in await each(page, lambda row: self._get(row["fp"], row["fetched_us"])):
                if job is not None and job.state == REVIEW:
                    yield job


def _may_replace(stored: Job | None, job: Job) -> bool:
    if job.token:
        return stored is not None and stored.state != DONE and stored.token == job.token
    return stored is None or stored.state == DONE or stored.attempt < job.attempt


def _eligible(job: Job, now_us: int) -> bool:
    return job.due_us <= now_us and job.lease_us <= now_us


def _job(fp: bytes, fetched_us: int, row: Row) -> Job:
    return Job(
        fp=fp,
        fetched_us=fetched_us,
        event=row["event"],
        attempt=row["attempt"],
        due_us=row["due_us"],
        reason=row["reason"],
        token=row["hold"],
        lease_us=row["lease_us"],
        state=row["state"],
    )


def _statement(stored: Job | None, job: Job) -> tuple[str, dict[str, Any]]:
    """The guarded write that makes `stored` into `job`."""
    cells = {name: getattr(job, name) for name in job.__struct_fields__ if name != "token"} | {"hold": job.token}
    if stored is None:
        return "job_insert", cells
    guards = {
        "held": stored.token,
        "attempted": stored.attempt,
        "leased_us": stored.lease_us,
        "stood": stored.state,
    }
    return "job_replace", cells | guards

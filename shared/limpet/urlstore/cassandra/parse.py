"""The parser's side of a shard: outputs accepted once, under the token of their job if they have one.

A row may come nearer to a seed while its document is parsed; its links carry the wrong depth then. The row is in
another partition than the output, so no one write can look at both. Instead both sides write first and read afterwards:
admission the depth, then the outputs; acceptance the output, then the depth. One of them sees the other. Acceptance
takes back what it put when it finds itself outdated, and a job ends only after that question.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from limpet.runtime.randomness import Random
from limpet.urlstore import counters
from limpet.urlstore.cassandra import codec
from limpet.urlstore.cassandra.batches import ACCEPT, UNRECORDED, Groups
from limpet.urlstore.cassandra.guarded import TRIES_MAX, attempt, contended, settled
from limpet.urlstore.cassandra.jobs import DONE, OPEN, TOKEN_BYTES, Jobs
from limpet.urlstore.cassandra.session import Row, Session
from limpet.urlstore.cassandra.view import RING
from limpet.urlstore.types import Job, ParseOutput

DEPTH_NONE: Final = 2**31 - 1
"""The depth of an output that was taken back: any other may stand in its place."""

DepthOf = Callable[[bytes], Awaitable[int | None]]
"""The depth of a URL's row as it is now; None without a row."""

Count = Callable[[str, int], None]


class _Put(NamedTuple):
    """What became of one output."""

    won: bool  # it stands, and did not before
    first: bool = False  # and no other stood in its place
    lost_hold: bool = False


class Parse:
    """Outputs of one shard."""

    def __init__(
        self,
        session: Session,
        jobs: Jobs,
        random: Random,
        depth_of: DepthOf,
        count: Count,
        groups: Groups = UNRECORDED,
    ) -> None:
        self._session, self._jobs, self._random = session, jobs, random
        self._depth_of, self._count, self._groups = depth_of, count, groups

    async def accept(self, outputs: Sequence[ParseOutput], job: Job | None) -> list[bool]:
        """See `UrlStore.accept_outputs`. With `job`, every output is one of its document."""
        if job is not None:
            return await self._accept_held(outputs, job)
        groups: dict[bytes, list[int]] = {}
        for place, output in enumerate(outputs):
            groups.setdefault(output.fp, []).append(place)
        results = [False] * len(outputs)

        async def accept(places: list[int]) -> None:
            for place in places:
                results[place] = await self._accept(outputs[place])

        await self._groups.each(ACCEPT, groups.values(), accept)
        return results

    async def output(self, fp: bytes, fetched_us: int, version: int) -> ParseOutput | None:
        """See `UrlStore.output`."""
        row = await self._session.one("output_get", fp=fp, fetched_us=fetched_us, version=version)
        return codec.output(row["output"]) if row and row["output"] else None

    async def outputs(self, fp: bytes) -> list[ParseOutput]:
        """See `UrlStore.outputs`."""
        return [codec.output(row["output"]) for row in await self._session.run("outputs_of", fp=fp) if row["output"]]

    async def published(self, partition: int, source: int, begin: int, end: int) -> list[tuple[bytes, int]]:
        """See `UrlStore.published`. Reads every output of the keyspace."""
        found: set[tuple[bytes, int]] = set()
        async for page in self._session.pages("output_scan", low=RING[0], high=RING[1]):
            found |= {
                (row["fp"], row["fetched_us"])
                for row in page
                if row["output"] and codec.output(row["output"]).went_to(partition, source, begin, end)
            }
        return sorted(found)

    async def parsed(self, fp: bytes, fetched_us: int, version: int) -> bool:
        """Whether a document has an output of that version, or a job that has not ended."""
        rows = await self._session.run("parse_document", fp=fp, fetched_us=fetched_us)
        return any(
            (row["version"] == version and bool(row["output"])) or (row["version"] < 0 and row["state"] != DONE)
            for row in rows
        )

    # -- one output --------------------------------------------------------------------------------------------------
    async def _accept(self, output: ParseOutput) -> bool:
        put = await self._put(output, None, ends=False)
        if await self._outdated(output):
            await self.take_back(output.fp, output.fetched_us, output.parser_version, output.depth)
            return False
        return self._counted(output, put)

    async def _accept_held(self, outputs: Sequence[ParseOutput], job: Job) -> list[bool]:
        nothing = [False] * len(outputs)
        if not job.token:
            return nothing
        if any((output.fp, output.fetched_us) != (job.fp, job.fetched_us) for output in outputs):
            raise ValueError("outputs under a job are of its document")
        results: list[_Put] = []
        ended = False
        for place, output in enumerate(outputs, 1):
            ends = place == len(outputs) and not any(one.depth for one in outputs)
            put = await self._put(output, job, ends=ends)
            if put.lost_hold:
                return nothing
            results.append(put)
            ended = ends
        outdated = [output for output in outputs if await self._outdated(output)]
        for output in outdated:
            await self.take_back(output.fp, output.fetched_us, output.parser_version, output.depth)
        if outdated:
            await self._jobs.settle(job, OPEN)
            return nothing
        if not ended:
            await self._jobs.settle(job, DONE)
        return [self._counted(output, put) for output, put in zip(outputs, results, strict=True)]

    def _counted(self, output: ParseOutput, put: _Put) -> bool:
        if put.first:
            self._count(counters.OUTPUTS, 1)
            self._count(counters.LINKS, output.links)
        return put.won

    async def _outdated(self, output: ParseOutput) -> bool:
        """Whether the row is nearer to a seed than the links of `output` say. Asked after it was put."""
        if not output.depth:
            return False
        depth = await self._depth_of(output.fp)
        return depth is not None and depth < output.depth

    async def _put(self, output: ParseOutput, job: Job | None, *, ends: bool) -> _Put:
        """Insert if absent, or in the place of one with a greater depth; under the token of `job`, in the same write.

        With `ends` the job ends in it as well.
        """
        cells = {"version": output.parser_version, "output": codec.encode(output), "depth": output.depth}
        cells["stamp"] = stamp = self._random.token(TOKEN_BYTES)
        key: dict[str, Any] = {"fp": output.fp, "fetched_us": output.fetched_us}
        for tried in range(TRIES_MAX):
            rows = {} if job is None and not tried else await self._document(key)  # mostly nobody was first
            stored = rows.get(output.parser_version)
            first = stored is None or stored["depth"] == DEPTH_NONE
            if stored is not None and stored["stamp"] == stamp:
                return _Put(won=True, first=True)
            if job is not None and not _holds(rows.get(-1), job):
                return _Put(won=False, lost_hold=True)
            if stored is not None and stored["depth"] <= output.depth:
                if ends and job is not None:
                    return _Put(won=False, lost_hold=not await self._jobs.settle(job, DONE))
                return _Put(won=False)
            name, guards = _statement(stored, job, ends=ends)
            verdict = await attempt(self._session, name, **key, **cells, **guards)
            if verdict is not None and verdict.applied:
                return _Put(won=True, first=first)
            if verdict is None:
                await settled(self._session, "output_get", **key, version=output.parser_version)
        raise contended("accept_outputs")

    async def _document(self, key: dict[str, Any]) -> dict[int, Row]:
        """Outputs by version, and the job as version -1."""
        rows = await self._session.run("parse_document", **key)
        return {row["version"]: row for row in rows if row["version"] < 0 or row["output"] is not None}

    async def take_back(self, fp: bytes, fetched_us: int, version: int, depth: int) -> None:
        """An output whose links were published with `depth` or more stands no longer; a nearer one does."""
        key: dict[str, Any] = {"fp": fp, "fetched_us": fetched_us, "version": version}
        for _ in range(TRIES_MAX):
            row = await self._session.one("output_get", **key)
            if row is None or row["depth"] < depth or row["depth"] == DEPTH_NONE:
                return
            cells = {"output": b"", "depth": DEPTH_NONE, "stamp": b"", "known": row["depth"]}
            verdict = await attempt(self._session, "output_replace", **key, **cells)
            if verdict is None:
                await settled(self._session, "output_get", **key)
        raise contended("accept_outputs")


def _holds(row: Row | None, job: Job) -> bool:
    return row is not None and row["state"] != DONE and row["hold"] == job.token


def _statement(stored: Row | None, job: Job | None, *, ends: bool) -> tuple[str, dict[str, Any]]:
    """The guarded write that puts an output where `stored` is, and its conditions."""
    name = "output_insert" if stored is None else "output_replace"
    guards: dict[str, Any] = {} if stored is None else {"known": stored["depth"]}
    if job is None:
        return name, guards
    state, hold = (DONE, b"") if ends else (OPEN, job.token)
    return f"{name}_held", guards | {"state": state, "hold": hold, "held": job.token}

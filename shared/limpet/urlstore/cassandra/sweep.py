"""The sweep: the last net under everything that is read forward, and the only recount.

Each reconciler walks the piece of the token ring that has the number of its shard, chunk by chunk; the rows it meets
belong to any shard. A pass begins `period` after the last one began, or at once when that one took longer. Its place
and its counts are saved together, so another process goes on where a dead one stopped. It finds

* claimable rows that the cursors of the due index have passed, and leases that nobody ended: entered anew;
* fetched outcomes with neither output nor job: listed for `UrlStore.unparsed`;
* outputs that say a greater depth than their row, with no job to replace them: taken back, and so unparsed;
* open jobs that the cursor of the job index has passed: entered anew;

and counts rows and outcomes by shard. A whole pass overwrites the snapshot of its piece.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from limpet.clock import Clock
from limpet.runtime.randomness import Random
from limpet.urlstore.cassandra import codec, surveying
from limpet.urlstore.cassandra.batches import LIST_UNPARSED, REENTER, UNRECORDED, Groups
from limpet.urlstore.cassandra.dueindex import DueIndex
from limpet.urlstore.cassandra.guarded import each
from limpet.urlstore.cassandra.jobindex import JobIndex
from limpet.urlstore.cassandra.moves import Moves
from limpet.urlstore.cassandra.parse import Parse
from limpet.urlstore.cassandra.rows import NO_ENTRY, NOBODY, waits
from limpet.urlstore.cassandra.session import Row, Session
from limpet.urlstore.cassandra.snapshots import LISTED, piece_key
from limpet.urlstore.cassandra.surveying import Document, Outdated, Waiting
from limpet.urlstore.cassandra.writes import Writes

CHUNKS_A_SAVE: Final = 8
ROWS_MAX: Final = 2**31 - 1
PERIOD_SECONDS: Final = 3_600.0
LEASE_OVER_US: Final = 3_600_000_000
"""A lease that ended so long ago, behind the cursor, is one that nobody knows of."""
FORGET_US: Final = 60_000_000
DAY_SECONDS: Final = 86_400


class Policy(NamedTuple):
    """How a keyspace is swept. `grace_us`: an outcome younger than that is not missed by a parser yet."""

    pieces: int
    parser_version: int
    period_seconds: float = PERIOD_SECONDS
    grace_us: int = 60_000_000
    rows_a_chunk: int = 1_000


class Step(NamedTuple):
    """What one chunk held, and what was found in it. `ended`: it was the last of its piece."""

    urls: int
    reentered: int
    unparsed: int
    outdated: int
    jobs: int
    ended: bool


class _Standing:
    """Where the sweep of a piece is."""

    def __init__(self, piece: int, place: int, began_us: int) -> None:
        self.piece, self.place, self.began_us = piece, place, began_us
        self.ended_us = 0
        self.counts: surveying.Counts = {}
        self.unsaved = 0


class Sweep:
    """The sweep of one piece. `listing` counts what is listed by the shard of the same number."""

    def __init__(
        self,
        session: Session,
        piece: int,
        policy: Policy,
        parse: Parse,
        listing: Callable[[], Awaitable[dict[str, int]]],
        *,
        clock: Clock,
        random: Random,
        groups: Groups = UNRECORDED,
    ) -> None:
        self._groups = groups
        self._session, self._piece, self._policy = session, piece, policy
        self._parse, self._listing, self._clock = parse, listing, clock
        self._writes = Writes(session, random)
        self._moves: dict[int, Moves] = {}
        self._jobs: dict[int, JobIndex] = {}
        self._at: _Standing | None = None
        self._stepped_us = 0
        self._saved: tuple[int, int, int] | None = None

    async def step(self) -> Step | None:
        """The next chunk; None while the period of the last pass runs."""
        now_us = self._clock.wall_us()
        at = self._at
        if at is None or now_us - self._stepped_us > FORGET_US:  # another process may have gone on since
            at = await self._load(at)
        self._stepped_us = now_us
        if at.ended_us:
            if now_us - at.began_us < self._policy.period_seconds * 1e6:
                self._at = at
                return None
            at = self._begin(self._piece, now_us)
        self._at = at
        step = await self._advance(at)
        if step.ended or at.unsaved >= CHUNKS_A_SAVE:
            await self._save(at)
        return step

    async def all_at_once(self) -> None:
        """Every piece from its beginning to its end, now, whatever the period: for small crawls and for checks."""
        for piece in range(self._policy.pieces):
            at = self._begin(piece, self._clock.wall_us())
            while not (await self._advance(at)).ended:
                pass
        await self._list(self._clock.wall_us())

    # -- a chunk -------------------------------------------------------------------------------------------------------
    async def _advance(self, at: _Standing) -> Step:
        _, high = surveying.piece_of_ring(at.piece, self._policy.pieces)
        rows, place = await self._read(at.place, high)
        urls = surveying.by_url(rows)
        parsed: dict[bytes, list[Row]] = {}
        for row in await self._session.run("parse_scan", low=at.place, high=place):
            parsed.setdefault(row["fp"], []).append(row)
        step = await self._repair(urls, parsed, place >= high)
        surveying.count(urls, at.counts)
        at.place = place
        at.unsaved += 1
        if step.ended:
            await self._end(at)
        return step

    async def _read(self, low: int, high: int) -> tuple[list[Row], int]:
        """Whole URLs after a token, and up to which token they are all of them."""
        rows = await self._session.run("sweep_rows", low=low, high=high, rows_max=self._policy.rows_a_chunk)
        if len(rows) < self._policy.rows_a_chunk:
            return rows, high
        last: int = rows[-1]["place"]
        whole = [row for row in rows if row["place"] != last]
        if not whole:  # one URL with more outcomes than a chunk has room for
            return await self._session.run("sweep_rows", low=low, high=last, rows_max=ROWS_MAX), last
        return whole, int(whole[-1]["place"])

    async def _repair(self, urls: Sequence[Sequence[Row]], parsed: dict[bytes, list[Row]], ended: bool) -> Step:
        before_us = self._clock.wall_us() - self._policy.grace_us
        unparsed: list[tuple[Document, int]] = []
        outdated: list[Outdated] = []
        jobs: list[Waiting] = []
        for rows in urls:
            known = parsed.get(rows[0]["fp"], [])
            jobs += surveying.waiting_jobs(rows, known)
            outdated += surveying.outdated(rows, known)
            unparsed += [
                found for found in surveying.unparsed(rows, known, self._policy.parser_version) if found[1] < before_us
            ]
        await each(outdated, self._take_back)
        unparsed += [(one.document, before_us) for one in outdated]
        await self._groups.each(LIST_UNPARSED, unparsed, self._list_unparsed)
        return Step(
            urls=len(urls),
            reentered=await self._reenter([rows[0] for rows in urls]),
            unparsed=len(unparsed),
            outdated=len(outdated),
            jobs=await self._reenter_jobs(jobs),
            ended=ended,
        )

    # -- findings ------------------------------------------------------------------------------------------------------
    async def _reenter(self, rows: Sequence[Row]) -> int:
        """Rows that no reader will meet any more."""
        over_us = self._clock.wall_us() - LEASE_OVER_US
        found = [row for row in rows if (waits(row) if row["claim"] == NOBODY else row["lease_us"] < over_us)]
        authorities = {row["authority"]: row["shard"] for row in found}
        places = dict(
            zip(
                authorities,
                await each(authorities.items(), lambda one: self._moves_of(one[1]).index.cursors(one[0])),
                strict=True,
            )
        )
        passed = [
            row
            for row in found
            if row["entry_us"] == NO_ENTRY or (row["entry_us"], row["fp"]) <= places[row["authority"]][row["lane"]]
        ]
        return sum(await self._groups.each(REENTER, passed, self._enter))

    async def _enter(self, row: Row) -> bool:
        moves = self._moves_of(row["shard"])
        if row["claim"] == NOBODY:
            return await moves.reenter(row)
        lane, was = row["lane"], row["entry_us"]
        at_us = await moves.index.enter(row["authority"], row["host"], lane, was, row["fp"])
        ruling = await self._writes.guarded(
            "sweep_reenter_leased",
            row["fp"],
            lambda now: now["claim"] == row["claim"] and now["entry_us"] == was,
            claim=row["claim"],
            leased_us=row["lease_us"],
            was=was,
            entry_us=at_us,
        )
        return ruling.applied

    async def _list_unparsed(self, found: tuple[Document, int]) -> None:
        document, completed_us = found
        seconds = max(DAY_SECONDS, int(3 * self._policy.period_seconds))
        await self._session.run("unparsed_enter", **document._asdict(), completed_us=completed_us, seconds=seconds)

    async def _take_back(self, one: Outdated) -> None:
        _, fp, fetched_us = one.document
        await self._parse.take_back(fp, fetched_us, one.version, one.depth)

    async def _reenter_jobs(self, jobs: Sequence[Waiting]) -> int:
        cursors: dict[int, int] = {}
        for shard in {job.document.shard for job in jobs}:
            cursors[shard] = await self._jobs_of(shard).cursor()
        passed = [job for job in jobs if job.at_us < cursors[job.document.shard]]

        async def enter(job: Waiting) -> None:
            shard, fp, fetched_us = job.document
            await self._jobs_of(shard).enter(fp, fetched_us, job.at_us)

        await each(passed, enter)
        return len(passed)

    # -- standing ------------------------------------------------------------------------------------------------------
    def _begin(self, piece: int, now_us: int) -> _Standing:
        return _Standing(piece, surveying.piece_of_ring(piece, self._policy.pieces)[0], now_us)

    async def _load(self, at: _Standing | None) -> _Standing:
        """As it was saved last; `at`, if that was by us."""
        row = await self._session.one("sweep_get", piece=self._piece)
        saved = None if row is None else (row["place"], row["began_us"], row["ended_us"])
        if at is not None and saved == self._saved:
            return at
        self._saved = saved
        if row is None:
            return self._begin(self._piece, self._clock.wall_us())
        at = _Standing(self._piece, row["place"], row["began_us"])
        at.ended_us = row["ended_us"]
        at.counts = {shard: Counter(names) for shard, names in codec.by_shard(row["data"]).items()}
        return at

    async def _save(self, at: _Standing) -> None:
        data = codec.encode(surveying.plain(at.counts))
        cells = {"place": at.place, "began_us": at.began_us, "ended_us": at.ended_us, "data": data}
        await self._session.run("sweep_put", piece=at.piece, **cells)
        self._saved = at.place, at.began_us, at.ended_us
        at.unsaved = 0

    async def _end(self, at: _Standing) -> None:
        """Overwrite the snapshot of the piece, shard by shard."""
        ended_us = self._clock.wall_us()
        piece = piece_key(at.piece, self._policy.pieces)

        async def put(shard: int) -> None:
            cells = {"data": codec.encode(dict(at.counts[shard])), "began_us": at.began_us, "at_us": ended_us}
            await self._session.run("snapshot_put", shard=shard, piece=piece, **cells)

        await each(at.counts, put)
        if at.piece == self._piece:
            await self._list(at.began_us)
        at.ended_us = ended_us  # last: a step that failed here ends the pass again

    async def _list(self, began_us: int) -> None:
        data = codec.encode(await self._listing())
        cells = {"data": data, "began_us": began_us, "at_us": self._clock.wall_us()}
        await self._session.run("snapshot_put", shard=self._piece, piece=LISTED, **cells)

    def _moves_of(self, shard: int) -> Moves:
        if shard not in self._moves:
            self._moves[shard] = Moves(DueIndex(self._session, shard, self._clock), self._writes)
        return self._moves[shard]

    def _jobs_of(self, shard: int) -> JobIndex:
        if shard not in self._jobs:
            self._jobs[shard] = JobIndex(self._session, shard, self._clock)
        return self._jobs[shard]

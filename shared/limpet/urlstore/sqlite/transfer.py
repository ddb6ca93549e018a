"""A shard of any store, copied into an empty SQLite file: for verbs that read files, and for tools that read SQL.

What has no meaning outside its own store stays behind: positions on another bus, attempt marks, and when a URL left the
queue without a request. Copy a crawl that is at rest: of a running one, a row and its outcomes may be of two moments.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.runtime.sqlitefile import SqliteFile
from limpet.runtime.sqlitetx import Tx
from limpet.urlstore import counters
from limpet.urlstore.port import UrlStore
from limpet.urlstore.sqlite import codes, discovery, parse, work
from limpet.urlstore.sqlite.dueindex import DueIndex
from limpet.urlstore.sqlite.names import Names
from limpet.urlstore.types import (
    AuthorityRow,
    Candidate,
    HostRow,
    Job,
    Lane,
    Notice,
    ParseOutput,
    Reject,
    RepairItem,
    RobotsFetch,
    UrlRow,
)

BATCH_ROWS: Final = 200
_DONE: Final = frozenset({State.FETCHED, State.GONE})


class Url(NamedTuple):
    """A URL as it is copied."""

    row: UrlRow
    outcomes: Sequence[Outcome]
    outputs: Sequence[ParseOutput]


class Rest(NamedTuple):
    """What a shard knows beside URLs, hosts and counts."""

    seeds: Sequence[str] = ()
    rejects: Sequence[Reject] = ()
    jobs: Sequence[Job] = ()
    repairs: Sequence[RepairItem] = ()
    notices: Sequence[Notice] = ()


class Target:
    """The file of a shard that a crawl is copied into; it holds nothing yet. Raises what the file raises."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file
        self._index, self._names = DueIndex(), Names()
        self.days: set[int] = set()  # UTC days with outcomes

    async def put_urls(self, urls: Sequence[Url]) -> None:
        """Rows with their outcomes and outputs."""
        await self._file.write(lambda tx: _put_urls(tx, self._names, self._index, urls))
        self.days.update(outcome.fetched_us // work.DAY_US for url in urls for outcome in url.outcomes)

    async def put_hosts(self, hosts: Sequence[HostRow], authorities: Sequence[AuthorityRow]) -> None:
        """What politeness and robots remember."""

        def put(tx: Tx) -> None:
            for host in hosts:
                work.put_host(tx, host)
            for authority in authorities:
                _put_authority(tx, self._names, authority)

        await self._file.write(put)

    async def put_robots_fetches(self, fetches: Sequence[RobotsFetch]) -> None:
        """Requests for robots.txt."""
        for begin in range(0, len(fetches), BATCH_ROWS):
            batch = fetches[begin : begin + BATCH_ROWS]
            await self._file.write(lambda tx, batch=batch: [work.put_robots_fetch(tx, one) for one in batch])  # type: ignore[misc]  # bound now
        self.days.update(fetch.outcome.fetched_us // work.DAY_US for fetch in fetches)

    def counted(self, day: int) -> int:
        """Requests of a UTC day so far: what was copied counted itself."""
        return self._file.read(lambda reader: reader.value("day_get", (day,)) or 0)

    async def count_requests(self, day: int, requests: int) -> None:
        """Requests for robots.txt that are not kept any more."""
        if requests > 0:
            await self._file.write(lambda tx: work.count_requests(tx, day, requests))

    async def put_rest(self, rest: Rest) -> None:
        """Everything else."""
        await self._file.write(lambda tx: _put_rest(tx, rest))


async def rest_of(source: UrlStore) -> Rest:
    """The rest of a shard."""
    return Rest(
        await source.seeds(),
        await source.rejects(),
        await source.jobs(),
        await source.repairs(),
        await source.notices(),
    )


async def copy_shard(source: UrlStore, file: SqliteFile) -> int:
    """Copy everything `source` knows into `file`, which holds nothing yet. The number of URLs.

    Raises what the store and the file raise; begin again with an empty file then.
    """
    target, authorities = Target(file), set[str]()
    rows = await source.rows()
    for begin in range(0, len(rows), BATCH_ROWS):
        urls = await asyncio.gather(*(_url(source, row) for row in rows[begin : begin + BATCH_ROWS]))
        await target.put_urls(urls)
        authorities.update(url.row.authority for url in urls)
    found = await asyncio.gather(*(source.authority(name) for name in sorted(authorities)))
    await target.put_hosts(await source.hosts(), [authority for authority in found if authority is not None])
    await target.put_robots_fetches(await source.robots_fetches())
    for day in sorted(target.days):
        await target.count_requests(day, await source.requests(day) - target.counted(day))
    await target.put_rest(await rest_of(source))
    return len(rows)


async def _url(source: UrlStore, row: UrlRow) -> Url:
    if not row.latest_us:
        return Url(row, [], [])
    outcomes, outputs = await asyncio.gather(source.outcomes(row.fp), source.outputs(row.fp))
    return Url(row, outcomes, outputs)


def _put_urls(tx: Tx, names: Names, index: DueIndex, urls: Sequence[Url]) -> None:
    for url in urls:
        if url.row.reason == codes.CLASH and url.row.state is State.REVIEW:
            _put_clash(tx, url.row)
        else:
            _put_url(tx, names, index, url)


def _put_clash(tx: Tx, row: UrlRow) -> None:
    fields = {name: getattr(row, name) for name in Candidate.__struct_fields__ if name in UrlRow.__struct_fields__}
    candidate = codes.encode(Candidate(**fields))
    tx.run("clash_insert", (row.fp, row.key, candidate, row.admitted_us))
    tx.count(counters.CLASHES)
    tx.count(counters.of_state(State.REVIEW))


def _put_url(tx: Tx, names: Names, index: DueIndex, url: Url) -> None:
    row = url.row
    authority_id, host_id = names.ensure(tx, row.authority, row.host)
    leased = row.state is State.LEASED
    state = (State.FETCHED if row.latest_us else State.DUE) if leased else row.state
    lane = Lane.SOON if row.failures or row.interruptions else Lane.NEW
    key = "" if row.key == row.url else row.key
    found = (row.depth, row.seed, row.admitted_us, row.reason, row.hops, row.kind, row.via, row.url, key)
    url_id = tx.insert("url_insert", (row.fp, authority_id, codes.CODES[state], row.due_us, *found))
    tx.run("host_urls_add", (1, host_id))
    pages = _put_outcomes(tx, (url_id, authority_id), url)
    counted = (row.failures, row.interruptions, pages)
    tx.run("url_complete", (codes.CODES[state], row.reason, row.due_us, lane, *counted, row.latest_us, url_id))
    if leased:
        holder = (row.token, row.lease_us, row.alone, row.holder)
        tx.run("lease_insert", (row.fp, url_id, authority_id, *holder))
    elif state is State.DUE or (state is State.FETCHED and row.due_us > 0):
        index.add(tx, authority_id, lane, row.due_us, url_id)
    tx.count(counters.ADMITTED)
    tx.count(counters.of_state(row.state))


def _put_outcomes(tx: Tx, ids: tuple[int, int], url: Url) -> int:
    """Outcomes and outputs of a row; 1 if it counts among the pages."""
    parsed = {output.fetched_us for output in url.outputs}
    page = 0
    for outcome in url.outcomes:
        state = _given(url.row, outcome, parsed)
        work.put_outcome(tx, ids, outcome, state, outcome.fetched_us)
        page = work.count_page(tx, outcome, state, page)
    outputs = [msgspec.structs.replace(output, positions=()) for output in url.outputs]
    parse.accept_outputs(tx, outputs, None)
    return page


def _given(row: UrlRow, outcome: Outcome, parsed: set[int]) -> State:
    """The state that an outcome gave its row, as far as the row still tells."""
    if outcome.fetched_us == row.latest_us and row.state in _DONE:
        return row.state
    return State.FETCHED if outcome.fetched_us in parsed else State.DUE


def _put_authority(tx: Tx, names: Names, row: AuthorityRow) -> None:
    authority_id, _ = names.ensure(tx, row.authority, row.host)
    tx.run("authority_put", (row.robots, row.robots_digest, row.wait_us, row.wait_reason, authority_id))


def _put_rest(tx: Tx, rest: Rest) -> None:
    for url in rest.seeds:
        tx.run("seed_insert", (url,))
    discovery.count_rejects(tx, rest.rejects)
    for job in rest.jobs:
        parse.put_job(tx, msgspec.structs.replace(job, token=b""))
    for item in rest.repairs:
        if tx.run("repair_insert", (item.kind, item.subject, item.detail, item.created_us)) > 0:
            tx.count(counters.REPAIRS_OPEN)
    for told in rest.notices:
        what = (told.kind, told.host, told.reason, told.count, told.sample)
        tx.run("notice_add", (*what, told.first_us, told.last_us))
        tx.count(counters.NOTICES, told.count)

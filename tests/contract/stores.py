"""Adapters of the urlstore port as the contract suite sees them, records to fill them with, and a recount."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol, TypeVar

from contract.cassandras import empty
from limpet.clock import SystemClock
from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.runtime import InlineRunner, Runner, ThreadRunner
from limpet.runtime.sqlitefile import SqliteFile
from limpet.runtime.sqliteopen import Synchronous
from limpet.schemas.sqlite import shard_schema
from limpet.segments.port import Location
from limpet.testing.chance import SeededRandom
from limpet.urlstore import Candidate, Claim, Completion, Job, ParseOutput, RobotsFetch, UrlStore
from limpet.urlstore.cassandra import CassandraSettings, CassandraUrlStore, Session
from limpet.urlstore.sqlite import SqliteUrlStore

T = TypeVar("T")

A = "https://a.example"
B = "https://b.example"
LEASE_US = 600
POISON = 5


class StoreRig(Protocol):
    """One adapter: a shard that can be opened, closed and killed as often as a test likes."""

    async def open(self) -> UrlStore:
        """The shard as its next owner finds it."""
        ...

    async def close(self) -> None:
        """A clean end of the owner."""
        ...

    async def kill(self) -> None:
        """The owner dies: what was not acknowledged may be lost."""
        ...


class SqliteRig:
    """SQLite, on the loop's thread without syncs or as in life."""

    def __init__(self, folder: Path, *, threaded: bool) -> None:
        self._path = folder / "07.sqlite"
        self._threaded = threaded
        self._seed = 0
        self.runner: Runner | None = None
        self.file: SqliteFile | None = None

    async def open(self) -> UrlStore:
        self.runner = ThreadRunner("store") if self._threaded else InlineRunner()
        synchronous: Synchronous = "FULL" if self._threaded else "OFF"
        self.file = SqliteFile(
            self._path,
            schema=shard_schema(),
            runner=self.runner,
            clock=SystemClock(),
            synchronous=synchronous,
            commit_interval_seconds=0.001 if self._threaded else 0.0,
        )
        self._seed += 1
        return SqliteUrlStore(self.file, 7, SeededRandom(self._seed))

    async def close(self) -> None:
        if self.file is not None and self.runner is not None:
            await self.file.close()
            self.runner.close()
            self.file = self.runner = None

    async def kill(self) -> None:
        if self.file is not None and self.runner is not None:
            self.file.abandon()
            await asyncio.to_thread(self.runner.close)
            while self.file.busy:
                await SystemClock().sleep(0.001)
            self.file = self.runner = None


SERVED = "cassandra"
"""The adapter that needs a real server."""

STORES: dict[str, Callable[[Path], StoreRig]] = {
    "sqlite": lambda folder: SqliteRig(folder, threaded=False),
    "sqlite-threaded": lambda folder: SqliteRig(folder, threaded=True),
}
"""Every adapter; one more is one line more."""


class StillClock:
    """Stands at the beginning of time: the contract's scenarios tell the time themselves."""

    def wall_us(self) -> int:
        return 0

    def monotonic(self) -> float:
        return 0.0

    def boot_us(self) -> int:
        return 0

    def boot_id(self) -> str:
        return "boot"

    async def sleep(self, seconds: float) -> None:
        await SystemClock().sleep(seconds)


class CassandraRig:
    """A shard in a keyspace on a real server, which is emptied first."""

    def __init__(self, settings: CassandraSettings) -> None:
        self._settings = settings
        self._owners = 0
        self.session: Session | None = None
        self.store: CassandraUrlStore | None = None

    async def open(self) -> UrlStore:
        if not self._owners:
            await asyncio.to_thread(empty, self._settings)
        self._owners += 1
        self.session = await Session.open(self._settings)
        random = SeededRandom(self._owners)
        self.store = CassandraUrlStore(self.session, 7, clock=StillClock(), random=random, epoch=self._owners)
        return self.store

    async def close(self) -> None:
        if self.store is not None:
            await self.store.close()
        await self.kill()

    async def kill(self) -> None:
        if self.session is not None:
            await self.session.close()
            self.session = self.store = None


def run(rig: StoreRig, scenario: Callable[[UrlStore], Coroutine[Any, Any, T]]) -> T:
    """`scenario` on a fresh store, which is closed afterwards."""

    async def main() -> T:
        store = await rig.open()
        try:
            return await scenario(store)
        finally:
            await rig.close()

    return asyncio.run(main())


def fp(number: int) -> bytes:
    """A fingerprint. They are in the order of their numbers, so that it is the order of equal due times everywhere."""
    return number.to_bytes(4, "big") + (number * 0x9E3779B97F4A7C15F39CC060 % 2**96).to_bytes(12, "big")


def candidate(number: int, authority: str = A, **changes: Any) -> Candidate:
    """A URL that passed the rules."""
    url = f"{authority}/{number}"
    values: dict[str, Any] = {
        "fp": fp(number),
        "key": url,
        "url": url,
        "host": authority.partition("://")[2].partition(":")[0],
        "authority": authority,
        "depth": 1,
        "hops": "L",
        "kind": "navigation",
    }
    return Candidate(**(values | changes))


def outcome(url: Claim | Candidate, fetched_us: int, **changes: Any) -> Outcome:
    """A page that was fetched and archived."""
    values: dict[str, Any] = {
        "fp": url.fp,
        "fetched_us": fetched_us,
        "url": url.url,
        "status": 200,
        "location": Location("segment.warc.gz", fetched_us, 100),
        "wire_bytes": 1000,
    }
    return Outcome(**(values | changes))


def fetched(claim: Claim, now_us: int, **changes: Any) -> Completion:
    """The claim ended well."""
    values: dict[str, Any] = {
        "claim": claim,
        "state": State.FETCHED,
        "now_us": now_us,
        "outcome": outcome(claim, now_us),
    }
    return Completion(**(values | changes))


def retried(claim: Claim, now_us: int, due_us: int, failures: int = 1) -> Completion:
    """The claim ended in a transient failure."""
    failure = outcome(claim, now_us, status=0, failure="connect", location=None, wire_bytes=0)
    return Completion(
        claim=claim, state=State.DUE, now_us=now_us, reason="connect", due_us=due_us, failures=failures, outcome=failure
    )


def robots_fetch(fetched_us: int, host: str = "a.example", **changes: Any) -> RobotsFetch:
    """A robots.txt that was asked for and archived."""
    values: dict[str, Any] = {
        "fp": b"",
        "fetched_us": fetched_us,
        "url": f"https://{host}/robots.txt",
        "status": 200,
        "location": Location("segment.warc.gz", fetched_us, 100),
    }
    return RobotsFetch(outcome=Outcome(**(values | changes)), hops="LP", via=f"https://{host}/1", cause=fp(1))


def output(number: int, fetched_us: int, **changes: Any) -> ParseOutput:
    """What a parser made of a page."""
    values: dict[str, Any] = {"fp": fp(number), "fetched_us": fetched_us, "parser_version": 1, "links": 3}
    return ParseOutput(**(values | changes))


def job(number: int, fetched_us: int, **changes: Any) -> Job:
    """A second attempt at a parse."""
    values: dict[str, Any] = {
        "fp": fp(number),
        "fetched_us": fetched_us,
        "event": b"event",
        "attempt": 1,
        "due_us": 0,
        "reason": "crash",
    }
    return Job(**(values | changes))


async def claimed(store: UrlStore, now_us: int, limit: int = 1, authority: str = A, lease_us: int = 0) -> list[Claim]:
    """A claim the way a crawl node makes it."""
    return await store.claim(
        authority, limit=limit, now_us=now_us, lease_us=lease_us or now_us + LEASE_US, holder="incarnation"
    )


async def claim_one(store: UrlStore, now_us: int, authority: str = A) -> Claim:
    """The one URL that is due."""
    claims = await claimed(store, now_us, authority=authority)
    assert len(claims) == 1
    return claims[0]


async def interrupt(store: UrlStore, now_us: int) -> State:
    """One claim whose owner dies; the state its row ends in."""
    claim = await claim_one(store, now_us)
    ended = await store.expire(now_us, dead=True, poison_after=POISON)
    assert [row.fp for row, _ in ended] == [claim.fp]
    return ended[0][1]


async def settle(store: UrlStore) -> None:
    """Where gauges and findings come from sweeps, sweep now: a declared difference (docs/urlstore-cassandra.md)."""
    if isinstance(store, CassandraUrlStore):
        await store.recount(2, grace_us=-(10**12))


async def recount(store: UrlStore) -> dict[str, int]:
    """What the counters must say, from the records themselves."""
    states = Counter(row.state for row in await store.rows())
    outcomes = await store.all_outcomes()
    jobs = Counter(job.state for job in await store.jobs())
    return {f"state.{state.value}": states[state] for state in State} | {
        "admitted": sum(1 for row in await store.rows() if row.reason != "clash"),
        "clashes": sum(1 for row in await store.rows() if row.reason == "clash"),
        "outcomes": len(outcomes),
        "bytes": sum(one.wire_bytes for one in outcomes),
        "records": sum(1 for one in outcomes if one.location is not None),
        "pages": len({one.fp for one in outcomes if one.page and one.status == 200}),
        "jobs_open": jobs["open"],
        "jobs_review": jobs["review"],
        "repairs_open": len(await store.repairs()),
        "rejected": sum(one.count for one in await store.rejects()),
    }


async def check_counters(store: UrlStore) -> None:
    """Counters equal a recount, whatever happened."""
    await settle(store)
    counters, counted = await store.counters(), await recount(store)
    assert {name: counters.get(name, 0) for name in counted} == counted


async def check_due_index(store: UrlStore) -> None:
    """Every claimable row has its entry, and every queue a claimable row: the earliest one."""
    waiting: dict[str, int] = {}
    for row in await store.rows():
        if row.state is State.DUE or (row.state is State.FETCHED and row.due_us > 0):
            waiting[row.authority] = min(waiting.get(row.authority, row.due_us), row.due_us)
    assert {queue.authority: queue.due_us for queue in await store.queues()} == waiting


def in_turn(*steps: Awaitable[object]) -> Coroutine[Any, Any, None]:
    """Await one after the other."""

    async def main() -> None:
        for step in steps:
            await step

    return main()

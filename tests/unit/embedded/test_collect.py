"""Collecting from real shard files of another owner."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from limpet.bus.sqlite import SqliteConsumer, SqliteLog, SqliteProducer
from limpet.clock import SystemClock
from limpet.config import Facts
from limpet.embedded.collect import UNKNOWN_US, Collector, finished, quiet
from limpet.embedded.folder import Folder
from limpet.embedded.views import ShardViews, was_left_unclean
from limpet.model.errors import CannotGoOn
from limpet.model.events import LINKS_DISCOVERED
from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.politeness.orders import HostOrder
from limpet.runtime import InlineRunner
from limpet.runtime.sqlitefile import SqliteFile
from limpet.schemas.sqlite import shard_schema
from limpet.testing.chance import SeededRandom
from limpet.urlstore import Candidate, Completion
from limpet.urlstore.sqlite import SqliteUrlStore

FACTS = Facts(crawl="0123456789abcdef", hash_seed=b"s" * 16, suffix_list_digest="d" * 64)
CLOCK = SystemClock()
LATER_US = CLOCK.wall_us() + 3_600_000_000


def candidate(number: int, due_us: int = 1) -> Candidate:
    """One URL of a.example."""
    url = f"http://a.example/{number}"
    return Candidate(
        fp=number.to_bytes(16, "big"),
        key=url,
        url=url,
        host="a.example",
        authority="http://a.example",
        depth=0,
        hops="",
        kind="navigation",
        due_us=due_us,
    )


class Owner:
    """Owns shard 3 of a folder, as a worker would, while views look on."""

    def __init__(self, folder: Folder) -> None:
        self.file = SqliteFile(
            folder.shard_file(3), schema=shard_schema(), runner=InlineRunner(), clock=CLOCK, synchronous="OFF"
        )
        self.store = SqliteUrlStore(self.file, 3, SeededRandom(1))
        self.log = SqliteLog(self.file, 3, CLOCK, own=True)
        self.producer = SqliteProducer(self.file, self.log, CLOCK, retention_us=0)


def with_owner(path: Path, script: Callable[[Owner, Collector], Awaitable[None]]) -> None:
    """Run `script` beside an owner."""

    async def main() -> None:
        folder = Folder.create(path / "crawl", FACTS)
        owner = Owner(folder)
        with ShardViews(folder) as views:
            await script(owner, Collector(views, CLOCK))
        await owner.file.close()

    asyncio.run(main())


def test_an_empty_crawl_is_finished(tmp_path: Path) -> None:
    """Nothing was ever to do: two looks say so."""

    async def script(_: Owner, collector: Collector) -> None:
        first, second = collector.collect(), collector.collect()
        assert finished(first, second, CLOCK.wall_us())
        assert second.states == {}

    with_owner(tmp_path, script)


def test_a_url_keeps_the_crawl_open_until_it_is_done(tmp_path: Path) -> None:
    """Due, then leased, then completed: only the last leaves nothing, and only for the second equal look."""

    async def script(owner: Owner, collector: Collector) -> None:
        now_us = CLOCK.wall_us()
        await owner.store.admit([candidate(1)], now_us)
        due = collector.collect()
        assert due.states == {"due": 1}
        assert not finished(due, collector.collect(), now_us)
        claims = await owner.store.claim("http://a.example", limit=1, now_us=now_us, lease_us=2**60, holder="h")
        leased = collector.collect()
        assert leased.rest is None
        assert collector.collect(whole=True).rest is not None
        assert not finished(collector.collect(whole=True), collector.collect(whole=True), now_us)
        outcome = Outcome(fp=claims[0].fp, fetched_us=now_us, url=claims[0].url, status=200, wire_bytes=77)
        await owner.store.complete(Completion(claim=claims[0], state=State.FETCHED, now_us=now_us, outcome=outcome))
        done = collector.collect()
        assert (done.pages, done.completions, done.wire_bytes, done.states) == (1, 1, 77, {"fetched": 1})
        assert not finished(leased, done, now_us)
        assert finished(done, collector.collect(), now_us)

    with_owner(tmp_path, script)


def test_a_url_due_later_is_left_out_by_patience_only(tmp_path: Path) -> None:
    """What is due after the horizon does not keep the crawl open, what is due before does."""

    async def script(owner: Owner, collector: Collector) -> None:
        later_us = CLOCK.wall_us() + 1_000_000_000
        await owner.store.admit([candidate(1, later_us)], 1)
        first, second = collector.collect(), collector.collect()
        assert finished(first, second, later_us - 1)
        assert not finished(first, second, later_us)

    with_owner(tmp_path, script)


def test_a_message_keeps_the_crawl_open_until_its_offset_is_committed(tmp_path: Path) -> None:
    """A message that was received and not committed is still unread: its reader may die."""

    async def script(owner: Owner, collector: Collector) -> None:
        consumer = SqliteConsumer(owner.file, LINKS_DISCOVERED, 3, {3: owner.log}, CLOCK)
        await owner.producer.publish(LINKS_DISCOVERED, [(3, b"{}")])
        messages = await consumer.receive(10)
        before = collector.collect()
        assert before.rest is not None
        assert before.rest.unread == 1
        assert not quiet(before, collector.collect(), 0)
        await consumer.commit([message.position for message in messages])
        after = collector.collect()
        assert after.rest is not None
        assert after.rest.unread == after.unread == 0
        assert not finished(before, after, 0)
        assert finished(after, collector.collect(), 0)

    with_owner(tmp_path, script)


def test_a_missing_shard_is_never_taken_for_an_empty_one(tmp_path: Path) -> None:
    """Every shard is made with the folder; one that is gone took its URLs along, and that is said."""
    folder = Folder.create(tmp_path, FACTS)
    folder.shard_file(7).unlink()
    with ShardViews(folder) as views, pytest.raises(CannotGoOn, match=r"07\.sqlite is missing: restore it"):
        Collector(views, CLOCK).collect()


def test_a_damaged_shard_is_named(tmp_path: Path) -> None:
    """A shard that is no database is named with the fix."""
    folder = Folder.create(tmp_path, FACTS)
    folder.shard_file(7).write_bytes(b"garbage" * 100)
    with ShardViews(folder) as views, pytest.raises(CannotGoOn, match=r"07\.sqlite.*restore it from a copy"):
        Collector(views, CLOCK).collect()


def test_a_death_leaves_the_folder_unclean(tmp_path: Path) -> None:
    """A shard that is open is not clean; closing it in order makes it so."""

    async def main() -> None:
        folder = Folder.create(tmp_path / "crawl", FACTS)
        assert not was_left_unclean(folder)
        owner = Owner(folder)
        assert was_left_unclean(folder)
        await owner.file.close()
        assert not was_left_unclean(folder)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("order", "patience_seconds", "ends"),
    [
        (HostOrder(paused_us=1), 600.0, True),
        (HostOrder(paused_us=CLOCK.wall_us()), 0.0, True),
        (HostOrder(paused_us=LATER_US), 600.0, False),
        (HostOrder(blocked_us=1), 600.0, True),
        (HostOrder(blocked_us=LATER_US), 0.0, False),
        (HostOrder(gap_seconds=60.0), 600.0, False),
    ],
)
def test_a_stopped_host_does_not_keep_a_run_beyond_patience(
    tmp_path: Path, order: HostOrder, patience_seconds: float, ends: bool
) -> None:
    """A fresh pause holds a run for its patience, an old one does not; what waits is told of with its reason."""

    async def script(owner: Owner, collector: Collector) -> None:
        await owner.store.admit([candidate(1)], 1)
        assert not finished(collector.collect(), collector.collect(), CLOCK.wall_us())
        mine = Collector(collector._views, CLOCK, lambda: {"a.example": order}, patience_seconds)
        first, second = mine.collect(), mine.collect()
        assert finished(first, second, CLOCK.wall_us()) is ends
        assert second.rest is not None
        assert [queue.reason for queue in second.rest.queues] == [order.stopped]
        assert (second.rest.queues[0].effective_us == UNKNOWN_US) is bool(order.stopped)

    with_owner(tmp_path, script)


@pytest.mark.parametrize(("wait_seconds", "ends"), [(0, False), (500, False), (700, True)])
def test_a_budget_keeps_no_run_beyond_patience(tmp_path: Path, wait_seconds: int, ends: bool) -> None:
    """What the day's budget holds back longer than patience ends the run, and is told of with that reason."""

    async def script(owner: Owner, collector: Collector) -> None:
        await owner.store.admit([candidate(1), candidate(2, LATER_US)], 1)
        mine = Collector(collector._views, CLOCK, budget=lambda: wait_seconds * 1_000_000)
        first, second = mine.collect(), mine.collect()
        assert finished(first, second, CLOCK.wall_us() + 600_000_000) is ends
        assert second.rest is not None
        assert second.rest.queues[0].reason == ("budget" if wait_seconds else "")

    with_owner(tmp_path, script)

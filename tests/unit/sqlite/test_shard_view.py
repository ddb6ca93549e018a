"""A shard's file seen from outside, by the same process and by another."""

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from contract.stores import A, B, SqliteRig, candidate, claim_one, claimed, fetched, fp, job, outcome
from limpet.bus.sqlite import SqliteConsumer, SqliteLog, SqliteProducer
from limpet.clock import SystemClock
from limpet.model.events import DOCUMENT_FETCHED, LINKS_DISCOVERED
from limpet.model.lifecycle import State
from limpet.runtime.sqlitefile import SqliteFile, open_read_only
from limpet.schemas.sqlite import shard_schema
from limpet.testing.loop import SimClock, VirtualLoop, run_virtual
from limpet.urlstore import AuthorityRow, HostRow, RepairItem, UrlStore, counters
from limpet.urlstore.sqlite import Anchor, QueueState, ShardView, SqliteUrlStore, Unfinished

T = TypeVar("T")


async def opened(folder: Path) -> tuple[SqliteRig, UrlStore, SqliteFile]:
    """A shard and its file."""
    rig = SqliteRig(folder, threaded=False)
    store = await rig.open()
    assert rig.file is not None
    return rig, store, rig.file


def reader(program: str, path: Path) -> subprocess.Popen[str]:
    """Another process that runs `program` on the file."""
    command = [sys.executable, "-c", textwrap.dedent(program), str(path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_queues_tell_when_they_can_be_sent_and_what_holds_them(tmp_path: Path) -> None:
    """The latest of due time, authority wait and host wait decides, and gives its reason."""

    async def main() -> None:
        rig, store, file = await opened(tmp_path)
        plain = "http://a.example"
        await store.admit([candidate(1, due_us=10), candidate(2, B, due_us=20)], now_us=1)
        await store.admit([candidate(3, plain, due_us=90)], now_us=1)
        await store.put_host(HostRow(host="a.example", wait_us=50, wait_reason="retry_after"))
        await store.put_authority(AuthorityRow(authority=B, host="b.example", wait_us=40, wait_reason="robots"))
        view = ShardView(file)
        assert view.queues() == [
            QueueState(B, "b.example", 20, 40, "robots"),
            QueueState(A, "a.example", 10, 50, "retry_after"),
            QueueState(plain, "a.example", 90, 90, ""),
        ]
        assert view.next_due() == 40
        for authority in (A, B, plain):
            await claim_one(store, 100, authority)
        assert view.queues() == []
        assert view.next_due() is None
        await rig.close()

    asyncio.run(main())


def test_unfinished_counts_what_keeps_a_crawl_from_being_done(tmp_path: Path) -> None:
    """Leases, jobs open and in review, repair items; from the rows themselves."""

    async def main() -> None:
        rig, store, file = await opened(tmp_path)
        view = ShardView(file)
        assert view.unfinished() == Unfinished(0, 0, 0, 0)
        await store.admit([candidate(n) for n in range(3)], now_us=1)
        await claimed(store, 5, limit=2)
        await store.put_job(job(1, 10))
        await store.put_job(job(2, 10, state="review"))
        await store.put_job(job(3, 10, state="review"))
        await store.put_repair(RepairItem(kind="k", subject="s", detail="", created_us=1))
        assert view.unfinished() == Unfinished(leased=2, jobs=1, jobs_in_review=2, repairs=1)
        await rig.close()

    asyncio.run(main())


def test_rows_and_outcomes_come_in_bounded_batches(tmp_path: Path) -> None:
    """Every one once, in order, never more than asked for; a clash is a row in review."""

    async def main() -> None:
        rig, store, file = await opened(tmp_path)
        await store.admit([candidate(n) for n in range(25)], now_us=1)
        await store.admit([candidate(3, key="other", url="https://a.example/other")], now_us=2)
        for claim in await claimed(store, 5, limit=20):
            await store.complete(fetched(claim, 6))
        view = ShardView(file)
        rows = list(view.rows_in_batches(10))
        assert [len(batch) for batch in rows] == [10, 10, 5, 1]
        assert [row for batch in rows for row in batch] == await store.rows()
        assert rows[-1][0].state is State.REVIEW
        outcomes = list(view.outcomes_in_batches(8))
        assert [len(batch) for batch in outcomes] == [8, 8, 4]
        assert [one for batch in outcomes for one in batch] == await store.all_outcomes()
        assert view.row(fp(3)) == await store.row(fp(3))
        assert view.outcomes(fp(3)) == await store.outcomes(fp(3))
        await rig.close()

    asyncio.run(main())


def test_logs_and_offsets_show_what_is_unconsumed(tmp_path: Path) -> None:
    """The end of each partition's log against its committed offset; the start moves with retention."""

    async def main() -> None:
        rig, _, file = await opened(tmp_path)
        clock = SystemClock()
        log = SqliteLog(file, 7, clock, own=True)
        producer = SqliteProducer(file, log, clock, retention_us=0)
        await producer.publish(LINKS_DISCOVERED, [(7, b"a"), (3, b"b"), (7, b"c")])
        await producer.publish(DOCUMENT_FETCHED, [(7, b"d")])
        consumer = SqliteConsumer(file, LINKS_DISCOVERED, 7, {7: log}, clock)
        received = await consumer.receive(9)
        view = ShardView(file)
        assert view.log_end(LINKS_DISCOVERED) == {7: 4, 3: 3}
        assert view.log_end(DOCUMENT_FETCHED) == {7: 5}
        assert view.committed(LINKS_DISCOVERED) == {}
        await consumer.commit([received[0].position])
        assert view.committed(LINKS_DISCOVERED) == {7: {7: 2}}
        assert view.log_start(LINKS_DISCOVERED) == {7: 1, 3: 1}
        assert await producer.trim(10**17, {LINKS_DISCOVERED: {7: 2}}) == 1
        assert view.log_start(LINKS_DISCOVERED) == {7: 2, 3: 1}
        totals = view.counters()
        assert totals[counters.PUBLISHED + LINKS_DISCOVERED] == 3
        assert totals[counters.PUBLISHED + DOCUMENT_FETCHED] == 1
        assert totals[counters.COMMITTED + LINKS_DISCOVERED] == 1
        assert totals[counters.TRIMMED + LINKS_DISCOVERED] == 1
        await rig.close()

    asyncio.run(main())


def test_another_process_sees_what_the_owner_was_answered(tmp_path: Path) -> None:
    """Counters, queues, rows and outcomes, read from the same files while their owner holds them."""
    program = """
        import sys
        from pathlib import Path
        from limpet.runtime.sqlitefile import open_read_only
        from limpet.schemas.sqlite import shard_schema
        from limpet.urlstore.sqlite import ShardView

        file = open_read_only(Path(sys.argv[1]), shard_schema())
        view = ShardView(file)
        for line in sys.stdin:
            rows = sum(len(batch) for batch in view.rows_in_batches(4))
            outcomes = sum(len(batch) for batch in view.outcomes_in_batches(4))
            admitted = view.counters().get("admitted", 0)
            print(rows, outcomes, admitted, len(view.queues()), view.unfinished().leased, flush=True)
    """

    async def main() -> None:
        rig, store, file = await opened(tmp_path)
        with reader(program, file.path) as process:

            def ask() -> str:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write("?\n")
                process.stdin.flush()
                return process.stdout.readline().strip()

            assert ask() == "0 0 0 0 0"
            await store.admit([candidate(n) for n in range(9)] + [candidate(9, B)], now_us=1)
            assert ask() == "10 0 10 2 0"
            claims = await claimed(store, 5, limit=6)
            assert ask() == "10 0 10 2 6"
            for claim in claims[:5]:
                await store.complete(fetched(claim, 6))
            assert ask() == "10 5 10 2 1"
            process.communicate(timeout=20)
            assert process.returncode == 0
        await rig.close()

    asyncio.run(main())


# -- a moved wall clock ------------------------------------------------------------------------------------------------
def test_a_moved_clock_moves_every_wait_and_no_fact(tmp_path: Path) -> None:
    """Due times, leases and waits keep their distance from now; fetch times, and what is due since ever, stay."""

    async def main() -> None:
        rig, store, file = await opened(tmp_path)
        assert isinstance(store, SqliteUrlStore)
        await store.admit([candidate(1, due_us=100), candidate(2), candidate(3, B)], now_us=50)
        claim = await claim_one(store, 60, B)
        await store.put_host(HostRow(host="a.example", wait_us=300, wait_reason="w"))
        await store.put_host(HostRow(host="b.example"))
        await store.put_authority(AuthorityRow(authority=A, host="a.example", wait_us=400))
        await store.put_job(job(1, 10, due_us=500))
        (held,) = await store.claim_jobs(limit=1, now_us=500, lease_us=900)
        await store.adopt(outcome(candidate(2), 44), State.FETCHED, "", 60)
        assert {queue.authority: queue.due_us for queue in await store.queues()} == {A: 100}
        await store.shift_times(1000, Anchor(boot_id="boot", offset_us=1000))
        assert {queue.authority: queue.due_us for queue in await store.queues()} == {A: 1100}
        rows = {row.fp: row for row in await store.rows()}
        assert (rows[fp(1)].due_us, rows[fp(2)].due_us, rows[fp(3)].lease_us) == (1100, 0, claim.lease_us + 1000)
        assert [row.admitted_us for row in rows.values()] == [50, 50, 50]
        assert [one.fetched_us for one in await store.all_outcomes()] == [44]
        assert [(row.host, row.wait_us) for row in await store.hosts()] == [("a.example", 1300), ("b.example", 0)]
        authority = await store.authority(A)
        assert authority is not None
        assert authority.wait_us == 1400
        (moved,) = await store.jobs()
        assert (moved.due_us, moved.lease_us, moved.token) == (1500, 1900, held.token)
        assert store.anchor() == Anchor(boot_id="boot", offset_us=1000)
        assert await store.complete(fetched(claim, claim.lease_us + 999)) is True
        assert file.totals["completions"] == 1
        await rig.close()

    asyncio.run(main())


def test_a_clock_set_back_shortens_no_wait_and_makes_nothing_eternal(tmp_path: Path) -> None:
    """Moving back keeps order and distance; a time that would fall before the epoch is due at once, not "none"."""

    async def main() -> None:
        rig, store, _ = await opened(tmp_path)
        assert isinstance(store, SqliteUrlStore)
        await store.admit([candidate(1, due_us=5000), candidate(2, B, due_us=10)], now_us=1)
        await store.shift_times(-1000)
        assert {queue.authority: queue.due_us for queue in await store.queues()} == {A: 4000, B: 1}
        assert store.anchor() is None
        assert await claimed(store, 3999) == []
        assert len(await claimed(store, 4000)) == 1
        await rig.close()

    asyncio.run(main())


def test_the_anchor_is_remembered(tmp_path: Path) -> None:
    """Across owners, until it is set again."""

    async def main() -> None:
        rig, store, _ = await opened(tmp_path)
        assert isinstance(store, SqliteUrlStore)
        assert store.anchor() is None
        await store.set_anchor(Anchor(boot_id="one", offset_us=1))
        await store.set_anchor(Anchor(boot_id="two", offset_us=2))
        await rig.kill()
        store = await rig.open()
        assert isinstance(store, SqliteUrlStore)
        assert store.anchor() == Anchor(boot_id="two", offset_us=2)
        await rig.close()

    asyncio.run(main())


# -- attempt marks -----------------------------------------------------------------------------------------------------
def test_attempts_at_a_message_are_counted_until_it_is_committed(tmp_path: Path) -> None:
    """Each mark is durable before the attempt begins; a commit past the message takes it away."""

    async def main() -> None:
        rig, _, file = await opened(tmp_path)
        clock = SystemClock()
        log = SqliteLog(file, 7, clock, own=True)
        producer = SqliteProducer(file, log, clock, retention_us=0)
        positions = await producer.publish(DOCUMENT_FETCHED, [(7, b"a"), (7, b"poison"), (7, b"c")])
        consumer = SqliteConsumer(file, DOCUMENT_FETCHED, 7, {7: log}, clock)
        assert consumer.marks() == {}
        assert await consumer.mark(positions[:2]) == [1, 1]
        await consumer.receive(9)
        await consumer.commit(positions[:1])
        for attempt in (2, 3):
            await rig.kill()
            await rig.open()
            assert rig.file is not None
            file = rig.file
            log = SqliteLog(file, 7, clock, own=True)
            consumer = SqliteConsumer(file, DOCUMENT_FETCHED, 7, {7: log}, clock)
            assert consumer.marks() == {positions[1]: attempt - 1}
            assert await consumer.mark([positions[1]]) == [attempt]
        other = SqliteConsumer(file, LINKS_DISCOVERED, 7, {7: log}, clock)
        assert other.marks() == {}
        await consumer.commit([positions[1]])
        assert consumer.marks() == {}
        await rig.close()

    asyncio.run(main())


def test_counters_of_the_bus_agree_after_redelivery(tmp_path: Path) -> None:
    """A message that was received twice and committed once counts once."""

    async def main() -> None:
        rig, _, file = await opened(tmp_path)
        clock = SystemClock()
        log = SqliteLog(file, 7, clock, own=True)
        producer = SqliteProducer(file, log, clock, retention_us=0)
        positions = await producer.publish(LINKS_DISCOVERED, [(7, b"%d" % n) for n in range(5)])
        for _ in range(2):
            consumer = SqliteConsumer(file, LINKS_DISCOVERED, 7, {7: log}, clock)
            assert len(await consumer.receive(9)) == 5
        await consumer.commit(positions[:3])
        await consumer.commit(positions)
        assert file.totals[counters.COMMITTED + LINKS_DISCOVERED] == 5
        await rig.close()

    asyncio.run(main())


def test_every_counter_is_registered(tmp_path: Path) -> None:
    """Nothing is counted under a name that the registry does not know."""

    async def main() -> set[str]:
        rig, store, file = await opened(tmp_path)
        clock = SystemClock()
        log = SqliteLog(file, 7, clock, own=True)
        await SqliteProducer(file, log, clock, retention_us=0).publish(LINKS_DISCOVERED, [(7, b"a")])
        await store.admit([candidate(1), candidate(2, parked="cap")], now_us=1)
        await store.hand_back(await claimed(store, 5), 0, now_us=6)
        await store.complete(fetched(await claim_one(store, 7), 8))
        await store.put_job(job(1, 8))
        await store.notify("k", "h", "r", "s", 9)
        names = set(file.totals)
        await rig.close()
        return names

    names = asyncio.run(main())
    known = counters.GAUGES | counters.TOTALS
    assert {name for name in names - known if not name.startswith(tuple(counters.PREFIXES))} == set()
    assert names & known


def test_a_view_of_an_open_file_and_of_a_read_only_one_agree(tmp_path: Path) -> None:
    """Whoever reads, the answers are the same."""

    async def main() -> None:
        rig, store, file = await opened(tmp_path)
        await store.admit([candidate(n) for n in range(5)], now_us=1)
        await claimed(store, 5, limit=2)
        foreign = open_read_only(file.path, shard_schema())
        inside, outside = ShardView(file), ShardView(foreign)
        assert inside.counters() == outside.counters()
        assert inside.queues() == outside.queues()
        assert inside.unfinished() == outside.unfinished()
        assert list(inside.rows_in_batches(2)) == list(outside.rows_in_batches(2))
        foreign.close()
        await rig.close()

    asyncio.run(main())


def test_retention_reads_no_further_than_it_drops(tmp_path: Path) -> None:
    """A long log is trimmed in bounded steps, and what a slow reader holds up front does not hide the rest for ever."""

    async def main() -> None:
        rig, _, file = await opened(tmp_path)
        log = SqliteLog(file, 7, SystemClock(), own=True)
        producer = SqliteProducer(file, log, SystemClock(), retention_us=0)
        for _ in range(12):
            await producer.publish(LINKS_DISCOVERED, [(3, b"slow")] * 1000)
        last = (await producer.publish(LINKS_DISCOVERED, [(7, b"read")] * 700))[-1].offset
        committed = {LINKS_DISCOVERED: {7: last + 1}}
        steps = [await producer.trim(10**17, committed) for _ in range(6)]
        assert sum(steps) == 700
        assert await producer.trim(10**17, {LINKS_DISCOVERED: {3: last}}) == 10_000
        assert await producer.trim(1, {LINKS_DISCOVERED: {3: last}}) == 0
        await rig.close()

    asyncio.run(main())


class LateAnswer:
    """A commit that is durable at once and heard of a second later."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock

    async def run(self, work: Callable[[], T]) -> T:
        result = work()
        await self._clock.sleep(1)
        return result

    def close(self) -> None:
        """Nothing to stop."""


def test_a_message_that_was_read_before_its_writer_heard_of_it_comes_once(tmp_path: Path) -> None:
    """The first look at a log may see a commit whose answer is under way."""
    loop = VirtualLoop()

    async def main(clock: SimClock) -> None:
        runner = LateAnswer(clock)
        file = SqliteFile(tmp_path / "f", schema=shard_schema(), runner=runner, clock=clock, synchronous="OFF")
        log = SqliteLog(file, 7, clock, own=True)
        producer = SqliteProducer(file, log, clock, retention_us=0)
        consumer = SqliteConsumer(file, LINKS_DISCOVERED, 7, {7: log}, clock)
        publishing = asyncio.create_task(producer.publish(LINKS_DISCOVERED, [(7, b"a"), (7, b"b")]))
        await clock.sleep(0.5)
        assert [message.payload for message in await consumer.receive(9)] == [b"a", b"b"]
        assert not publishing.done()
        await publishing
        assert await consumer.receive(9) == []
        await producer.publish(LINKS_DISCOVERED, [(7, b"c")])
        assert [message.payload for message in await consumer.receive(9)] == [b"c"]
        await file.close()

    run_virtual(main(SimClock(loop)), loop)

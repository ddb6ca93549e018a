"""The sweep on real servers: what was passed over, forgotten or left by a death is found, and everything is counted."""

import asyncio
from collections import Counter

import msgspec
import pytest

from contract.cassandra_room import HOUR_US, Room, fresh_shard, with_session
from contract.stores import job, outcome, output
from limpet.clock import Clock, SystemClock
from limpet.model.lifecycle import State
from limpet.runtime.randomness import SystemRandom
from limpet.urlstore import Claim, Completion, RepairItem
from limpet.urlstore.cassandra import CassandraSettings, Session
from limpet.urlstore.cassandra.claims import Request
from limpet.urlstore.cassandra.snapshots import counters_of, snapshot, status
from limpet.urlstore.cassandra.sweep import Policy, Step, Sweep
from limpet.urlstore.cassandra.unparsed import Unparsed

pytestmark = pytest.mark.servers

PIECES = 4
POLICY = Policy(pieces=PIECES, parser_version=1, period_seconds=0, grace_us=0)


def sweep_of(room: Room, piece: int, policy: Policy = POLICY) -> Sweep:
    """What a reconciler does."""
    return Sweep(
        room.session, piece, policy, room.books.parse, room.books.listing, clock=room.clock, random=SystemRandom()
    )


async def swept(room: Room) -> Step:
    """Every piece once, from its beginning; what was found, summed up."""
    found: Counter[str] = Counter()
    for piece in range(PIECES):
        sweep = sweep_of(room, piece)
        while True:
            step = await sweep.step()
            assert step is not None
            found.update(step._asdict())
            if step.ended:
                break
    return Step(
        urls=found["urls"],
        reentered=found["reentered"],
        unparsed=found["unparsed"],
        outdated=found["outdated"],
        jobs=found["jobs"],
        ended=True,
    )


async def fetch(room: Room, claim: Claim) -> None:
    """A claim ends well."""
    now_us = room.clock.wall_us()
    end = Completion(claim=claim, state=State.FETCHED, now_us=now_us, outcome=outcome(claim, now_us))
    assert await room.core.completions.complete(end)


def test_a_row_that_the_cursor_has_passed_is_entered_anew(cassandra_crawl: CassandraSettings) -> None:
    """Nobody would ever meet it again; after one sweep it is claimed, and a second one finds nothing."""

    async def scenario(session: Session) -> None:
        room = Room(session, fresh_shard())
        (fp,) = await room.admit(1)
        now_us = room.clock.wall_us()
        for lane in (0, 1):
            await session.run("cursor_put", authority=room.authority, lane=lane, at_us=now_us + 1, fp=b"\xff" * 16)
        heir = Room(session, room.shard)
        assert await heir.claim(9) == []
        assert (await swept(room)).reentered == 1
        assert (await swept(room)).reentered == 0
        assert [claim.fp for claim in await Room(session, room.shard).claim(9)] == [fp]

    with_session(cassandra_crawl, scenario)


def test_a_lease_that_nobody_ended_is_met_again(cassandra_crawl: CassandraSettings) -> None:
    """Behind the cursor, over for long: its entry comes back, and whoever ends leases finds it."""

    async def scenario(session: Session) -> None:
        room = Room(session, fresh_shard())
        now_us = room.clock.wall_us()
        running, over = f"{room.authority}:1", room.authority
        await room.admit(1, authority=running)
        (fp,) = await room.admit(2, authority=over)
        for authority, lease_us in ((running, now_us + HOUR_US), (over, now_us - 2 * HOUR_US)):
            request = Request(authority, 1, room.clock.wall_us(), lease_us, "incarnation")
            assert len(await room.core.claims.claim(request)) == 1
            for lane in (0, 1):
                place = {"at_us": room.clock.wall_us(), "fp": b"\xff" * 16}
                await session.run("cursor_put", authority=authority, lane=lane, **place)
        assert (await swept(room)).reentered == 1
        assert (await swept(room)).reentered == 0
        heir = Room(session, room.shard)
        (ended,) = await heir.core.expiry.expire(room.clock.wall_us(), room.clock.wall_us(), 5)
        assert ended[0].fp == fp

    with_session(cassandra_crawl, scenario)


def test_a_fetched_outcome_that_nobody_parsed_is_listed(cassandra_crawl: CassandraSettings) -> None:
    """With neither output nor job, of the version that runs, until somebody has parsed it."""

    async def scenario(session: Session) -> None:
        room = Room(session, fresh_shard())
        await room.admit(1, 2, 3)
        claims = await room.claim(3)
        for claim in claims:
            await fetch(room, claim)
        first, second, third = [(await room.view.outcomes(claim.fp))[0] for claim in claims]
        await room.books.parse.accept([output(0, first.fetched_us, fp=first.fp)], None)
        await room.books.jobs.put(job(0, second.fetched_us, fp=second.fp))
        assert (await swept(room)).unparsed >= 1
        unparsed = Unparsed(session, room.shard, room.books.parse)
        before_us = room.clock.wall_us()
        assert await unparsed.find(1, before_us, 9) == [third]
        assert await unparsed.find(1, third.fetched_us, 9) == []
        await room.books.parse.accept([output(0, third.fetched_us, fp=third.fp)], None)
        assert await unparsed.find(1, before_us, 9) == []
        assert await unparsed.find(2, before_us, 9) == [third]

    with_session(cassandra_crawl, scenario)


def test_an_output_that_a_death_left_outdated_is_taken_back(cassandra_crawl: CassandraSettings) -> None:
    """Its links say a greater depth than its row, and no job will publish them again: it counts as unparsed."""

    async def scenario(session: Session) -> None:
        room = Room(session, fresh_shard())
        await room.admit(1, depth=3)
        (claim,) = await room.claim(1)
        await fetch(room, claim)
        (one,) = await room.view.outcomes(claim.fp)
        assert await room.books.parse.accept([output(0, one.fetched_us, fp=one.fp, depth=3)], None) == [True]
        await room.admit(1, depth=2)  # its admission died before it could put a job
        assert (await swept(room)).outdated == 1
        assert await room.books.parse.outputs(one.fp) == []
        assert await Unparsed(session, room.shard, room.books.parse).find(1, room.clock.wall_us(), 9) == [one]
        assert (await swept(room)).outdated == 0

    with_session(cassandra_crawl, scenario)


def test_a_job_that_the_cursor_has_passed_is_entered_anew(cassandra_crawl: CassandraSettings) -> None:
    """It is eligible, and its entry lies where nobody reads any more."""

    async def scenario(session: Session) -> None:
        room = Room(session, fresh_shard())
        (fp,) = await room.admit(1)
        now_us = room.clock.wall_us()
        await room.books.jobs.put(job(0, 10, fp=fp, due_us=now_us - 5 * HOUR_US))
        await session.run("job_cursor_put", shard=room.shard, at_us=now_us - HOUR_US)
        heir = Room(session, room.shard)
        assert await heir.books.jobs.claim(1, now_us, now_us + HOUR_US) == []
        assert (await swept(room)).jobs == 1
        assert [one.fp for one in await heir.books.jobs.claim(1, now_us, now_us + HOUR_US)] == [fp]

    with_session(cassandra_crawl, scenario)


def test_a_sweep_counts_rows_and_outcomes_by_shard(cassandra_crawl: CassandraSettings) -> None:
    """Gauges as they were met, dated; a status over many shards takes less than a second."""

    async def scenario(session: Session) -> None:
        room, other = Room(session, fresh_shard()), Room(session, fresh_shard())
        await other.admit(1, 2)
        await room.admit(*range(6))
        await room.admit(6, parked="host_cap")
        await room.core.discovery.admit([room.candidate(0, key="another", url="another")], room.clock.wall_us())
        for claim in await room.claim(3):
            await fetch(room, claim)
        await room.claim(1)
        await room.books.jobs.put(job(0, 10, fp=room.candidate(0).fp))
        await room.books.repairs.open(RepairItem(kind="k", subject="s", detail="d", created_us=1))
        begun_us = room.clock.wall_us()
        await sweep_of(room, room.shard).all_at_once()
        counts = await counters_of(session, room.shard, room.books.totals)
        expected = {
            "state.due": 2,
            "state.leased": 1,
            "state.fetched": 3,
            "state.parked": 1,
            "state.review": 1,
            "admitted": 7,
            "clashes": 1,
            "outcomes": 3,
            "pages": 3,
            "records": 3,
            "bytes": 3000,
            "jobs_open": 1,
            "repairs_open": 1,
        }
        assert {name: counts.get(name, 0) for name in expected} == expected
        assert (await snapshot(session, other.shard)).counts["state.due"] == 2
        began = room.clock.monotonic()
        total = await status(session, [*range(30), room.shard, other.shard])
        assert room.clock.monotonic() - began < 1
        assert total.counts["state.fetched"] >= 3
        assert (await snapshot(session, room.shard)).at_us >= begun_us

    with_session(cassandra_crawl, scenario)


def test_a_sweep_goes_on_where_a_dead_one_stopped(
    cassandra_crawl: CassandraSettings,
) -> None:
    """Place and counts are saved together: another process neither skips nor counts twice; then it rests."""
    policy = POLICY._replace(rows_a_chunk=7)

    async def scenario(session: Session) -> None:
        room = Room(session, fresh_shard())
        await room.admit(*range(120))
        steps = 0
        for piece in range(PIECES):
            ended = False
            while not ended:
                dying = sweep_of(room, piece, policy)  # it dies after nine chunks, of which eight were saved
                for _ in range(9):
                    step = await dying.step()
                    if step is None:
                        break
                    steps += 1
                    ended = step.ended
                    if ended:
                        break
            assert await sweep_of(room, piece, POLICY._replace(period_seconds=3600)).step() is None
        assert steps > 120 / 7
        assert (await snapshot(session, room.shard)).counts["state.due"] == 120

    with_session(cassandra_crawl, scenario)


def test_a_url_with_more_outcomes_than_a_chunk_is_counted_whole(
    cassandra_crawl: CassandraSettings,
) -> None:
    """A chunk ends between URLs, never inside one."""
    policy = POLICY._replace(rows_a_chunk=5)

    async def scenario(session: Session) -> None:
        room = Room(session, fresh_shard())
        (fp,) = await room.admit(1)
        (claim,) = await room.claim(1)
        stamps = [SystemRandom().token(16) for _ in range(12)]
        one = outcome(claim, 1)
        await asyncio.gather(
            *(
                room.core.outcomes.insert(msgspec.structs.replace(one, fetched_us=10 + n), State.FETCHED, 50, stamp)
                for n, stamp in enumerate(stamps)
            )
        )
        await sweep_of(room, room.shard, policy).all_at_once()
        counts = (await snapshot(session, room.shard)).counts
        assert (counts["outcomes"], counts["pages"], counts["admitted"]) == (12, 1, 1)
        assert fp == claim.fp

    with_session(cassandra_crawl, scenario)


class LateClock(SystemClock):
    """Runs ahead of the others by as much as a test says."""

    ahead_us = 0

    def wall_us(self) -> int:
        """See `Clock.wall_us`."""
        return super().wall_us() + self.ahead_us


def test_a_sweep_that_comes_back_to_its_piece_asks_how_far_others_went(cassandra_crawl: CassandraSettings) -> None:
    """What it has not saved is kept while nobody else went on; else it goes on from where they stopped."""

    async def scenario(session: Session) -> None:
        room = Room(session, fresh_shard())
        await room.admit(*range(60))
        clock = LateClock()
        policy = POLICY._replace(pieces=1, rows_a_chunk=7)

        def another(used: Clock) -> Sweep:
            parts = (room.books.parse, room.books.listing)
            return Sweep(session, 0, policy, *parts, clock=used, random=SystemRandom())

        mine = another(clock)
        await mine.step()
        place = mine._at
        clock.ahead_us += 10**9
        await mine.step()
        assert mine._at is place
        other = another(room.clock)
        while True:
            step = await other.step()
            if step is not None and step.ended:
                break
        clock.ahead_us += 10**9
        await mine.step()
        assert mine._at is not place

    with_session(cassandra_crawl, scenario)

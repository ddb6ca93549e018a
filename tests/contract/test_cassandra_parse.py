"""Parse outputs and jobs on real servers: one guarded write, an index that is only read forward."""

import asyncio
from typing import Any

import msgspec
import pytest

from contract.cassandra_room import Room, fingerprint, fresh_shard, with_session
from contract.stores import job, output
from limpet.clock import SystemClock
from limpet.runtime.randomness import SystemRandom
from limpet.testing.chance import SeededRandom
from limpet.urlstore import AdmitResult, Job, ParseOutput
from limpet.urlstore.cassandra import CassandraSettings, Session
from limpet.urlstore.cassandra.jobindex import LAG_US, STEP_US
from limpet.urlstore.cassandra.jobs import Jobs
from limpet.urlstore.cassandra.parse import Parse

pytestmark = pytest.mark.servers

HOUR_US = 3_600_000_000


class Shard:
    """The parser's side of a shard of its own. `depths` stands for the rows; `afterwards` runs before one is read."""

    def __init__(self, session: Session) -> None:
        self.session, self.number = session, fresh_shard()
        self.counts: dict[str, int] = {}
        self.depths: dict[bytes, int] = {}
        self.jobs = self.another_jobs()
        self.parse = Parse(session, self.jobs, SystemRandom(), self._depth_of, self._count)

    def another_jobs(self) -> Jobs:
        """Another process's view."""
        return Jobs(self.session, self.number, SystemRandom(), SystemClock())

    def fp(self, number: int) -> bytes:
        """A fingerprint that no other test has."""
        return fingerprint(self.number, number)

    def output(self, number: int, **changes: Any) -> ParseOutput:
        """Of a document of this shard."""
        return output(0, 10, **({"fp": self.fp(number)} | changes))

    def job(self, number: int, **changes: Any) -> Job:
        """Of a document of this shard."""
        return job(0, 10, **({"fp": self.fp(number)} | changes))

    async def _depth_of(self, fp: bytes) -> int | None:
        return self.depths.get(fp)

    def _count(self, name: str, count: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + count


def test_of_many_acceptances_one_wins(cassandra_crawl: CassandraSettings) -> None:
    """Whoever is first; the others are told so, and the first one stands."""

    async def scenario(session: Session) -> None:
        shard = Shard(session)
        tried = [shard.output(1, links=number) for number in range(1, 9)]
        answers = await asyncio.gather(*(shard.parse.accept([one], None) for one in tried))
        (winner,) = [one for one, answer in zip(tried, answers, strict=True) if answer == [True]]
        assert await shard.parse.output(winner.fp, 10, 1) == winner
        assert shard.counts == {"outputs": 1, "links": winner.links}
        assert await shard.parse.accept([shard.output(1), shard.output(2), shard.output(2)], None) == [
            False,
            True,
            False,
        ]
        assert session.tally().conditional["output_insert"] >= 9

    with_session(cassandra_crawl, scenario)


def test_of_many_claims_of_a_job_one_wins_and_only_it_ends_the_job(cassandra_crawl: CassandraSettings) -> None:
    """Processes that look at the same moment never hold the same job."""

    async def scenario(session: Session) -> None:
        shard = Shard(session)
        await shard.jobs.put(shard.job(1))
        views = [shard.another_jobs() for _ in range(6)]
        found = await asyncio.gather(*(view.claim(9, 10, 100) for view in views))
        (held,) = [one for some in found for one in some]
        stale = msgspec.structs.replace(held, token=b"x" * 16)
        assert await shard.parse.accept([shard.output(1)], stale) == [False]
        answers = await asyncio.gather(*(shard.parse.accept([shard.output(1)], held) for _ in range(5)))
        assert sorted(answers) == [[False]] * 4 + [[True]]
        assert await shard.jobs.all() == []

    with_session(cassandra_crawl, scenario)


def test_an_acceptance_that_finds_its_row_nearer_afterwards_is_taken_back(cassandra_crawl: CassandraSettings) -> None:
    """The output does not stand, its job is free again, and the nearer one takes its place under the same key."""

    async def scenario(session: Session) -> None:
        shard = Shard(session)
        one = shard.output(1, depth=3)
        shard.depths[one.fp] = 2
        await shard.jobs.put(shard.job(1))
        (held,) = await shard.jobs.claim(1, 10, 100)
        assert await shard.parse.accept([one], held) == [False]
        assert await shard.parse.outputs(one.fp) == []
        assert await shard.parse.output(one.fp, 10, 1) is None
        (again,) = await shard.jobs.claim(1, 11, 100)
        assert again.attempt == held.attempt
        assert await shard.parse.accept([shard.output(1, depth=2)], again) == [True]
        assert shard.counts["outputs"] == 1
        assert await shard.jobs.all() == []

    with_session(cassandra_crawl, scenario)


def test_what_a_death_left_outdated_is_taken_back_by_the_replay(cassandra_crawl: CassandraSettings) -> None:
    """Death between putting an output and asking the row: the message comes again, and the output goes."""

    async def scenario(session: Session) -> None:
        shard = Shard(session)
        one = shard.output(1, depth=3)
        assert await shard.parse.accept([one], None) == [True]
        shard.depths[one.fp] = 2
        assert await shard.parse.parsed(one.fp, 10, 1)
        assert await shard.parse.accept([one], None) == [False]
        assert not await shard.parse.parsed(one.fp, 10, 1)
        near = shard.output(1, depth=2)
        assert await shard.parse.accept([near, one, near], None) == [True, False, False]
        assert await shard.parse.outputs(one.fp) == [near]

    with_session(cassandra_crawl, scenario)


def test_the_cursor_of_jobs_moves_only_over_what_is_disposed_of(cassandra_crawl: CassandraSettings) -> None:
    """Leased, deferred, left over by the limit: all of it is found again by a process that starts at the cursor."""

    async def scenario(session: Session) -> None:
        shard = Shard(session)
        now_us = 500_000 * HOUR_US
        for number in range(6):
            await shard.jobs.put(shard.job(number, due_us=now_us - 3 * HOUR_US + number))
        first = await shard.jobs.claim(2, now_us, now_us + 5 * HOUR_US)
        assert [one.fp for one in first] == [shard.fp(0), shard.fp(1)]
        heir = shard.another_jobs()
        second = await heir.claim(3, now_us, now_us + 5 * HOUR_US)
        assert [one.fp for one in second] == [shard.fp(2), shard.fp(3), shard.fp(4)]
        await heir.put(msgspec.structs.replace(second[0], due_us=now_us + HOUR_US))
        assert [one.fp for one in await shard.another_jobs().claim(9, now_us, now_us + HOUR_US)] == [shard.fp(5)]
        await shard.another_jobs().claim(9, now_us + LAG_US + STEP_US, now_us)
        (cursor,) = await session.run("job_cursor_get", shard=shard.number)
        assert cursor["at_us"] >= now_us - LAG_US
        later = await shard.another_jobs().claim(9, now_us + 6 * HOUR_US, now_us + 9 * HOUR_US)
        assert {(one.fp, one.attempt) for one in later} == {
            (shard.fp(0), 2),
            (shard.fp(1), 2),
            (shard.fp(2), 1),
            (shard.fp(3), 2),
            (shard.fp(4), 2),
            (shard.fp(5), 2),
        }

    with_session(cassandra_crawl, scenario)


def test_a_job_put_behind_the_cursor_is_found_all_the_same(cassandra_crawl: CassandraSettings) -> None:
    """Its entry goes to the cursor: what is due since long is due now."""

    async def scenario(session: Session) -> None:
        shard = Shard(session)
        now_us = 500_000 * HOUR_US
        await shard.jobs.claim(1, now_us, now_us + 1)
        await shard.another_jobs().put(shard.job(1, due_us=0))
        (found,) = await shard.jobs.claim(1, now_us + 1, now_us + HOUR_US)
        assert found.fp == shard.fp(1)
        await shard.another_jobs().put(shard.job(2, attempt=4, state="review"))
        assert await shard.another_jobs().rearm(now_us) == 1
        assert [one.fp for one in await shard.another_jobs().claim(1, now_us + 2, now_us + HOUR_US)] == [shard.fp(2)]

    with_session(cassandra_crawl, scenario)


def test_putting_a_job_and_claiming_it_race_without_loss(cassandra_crawl: CassandraSettings) -> None:
    """Puts of rising attempts beside claims and put-backs: in the end there is one job, the latest attempt."""

    async def scenario(session: Session) -> None:
        shard = Shard(session)
        chance = SeededRandom(5)
        views = [shard.another_jobs() for _ in range(3)]

        async def put(attempt: int) -> None:
            await views[attempt % 3].put(shard.job(1, attempt=attempt, due_us=int(chance.fraction() * 50)))

        await asyncio.gather(*(put(attempt) for attempt in range(1, 10)))
        (left,) = await shard.jobs.all()
        assert left.attempt == 9
        assert [one.attempt for one in await shard.jobs.claim(9, 50, 60)] == [9]

    with_session(cassandra_crawl, scenario)


def test_a_row_that_comes_nearer_while_its_document_is_accepted_is_never_overlooked(
    cassandra_crawl: CassandraSettings,
) -> None:
    """Admission and acceptance at the same moment: what stands with the greater depth was told to be `NEARER`."""

    async def scenario(session: Session) -> None:
        room = Room(session, fresh_shard())
        numbers = range(40)
        await room.admit(*numbers, depth=3)
        chance = SeededRandom(3)

        async def race(number: int) -> tuple[AdmitResult, bool]:
            far = output(0, 10, fp=room.candidate(number).fp, depth=3)
            near = room.candidate(number, depth=2)

            async def admit() -> AdmitResult:
                await room.clock.sleep(chance.fraction() * 0.02)
                return (await room.core.discovery.admit([near], 1))[0]

            async def accept() -> bool:
                await room.clock.sleep(chance.fraction() * 0.02)
                return (await room.books.parse.accept([far], None))[0]

            said, stands = await asyncio.gather(admit(), accept())
            assert stands == bool(await room.books.parse.outputs(far.fp))
            return said, stands

        found = set(await asyncio.gather(*(race(number) for number in numbers)))
        assert (AdmitResult.KNOWN, True) not in found
        assert len(found) > 1  # both orders came up

    with_session(cassandra_crawl, scenario)

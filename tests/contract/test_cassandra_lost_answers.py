"""Parse outputs, jobs and moves on a connection that loses answers: what happened is found out, never assumed."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from contract.cassandra_faults import Each, Fate, LostAnswers
from contract.cassandra_room import HOUR_US, Room, fresh_shard
from contract.stores import job, output
from limpet.model.errors import Indefinite
from limpet.testing.chance import SeededRandom
from limpet.urlstore import Job
from limpet.urlstore.cassandra import CassandraSettings

pytestmark = pytest.mark.servers

FATES = [Fate.LOST_ANSWER, Fate.NEVER_ARRIVED]


def losing(settings: CassandraSettings, scenario: Callable[[LostAnswers, Room], Coroutine[Any, Any, None]]) -> None:
    """`scenario` in a room on such a connection."""

    async def main() -> None:
        session = await LostAnswers.open(settings)
        try:
            await scenario(session, Room(session, fresh_shard()))
        finally:
            await session.close()

    asyncio.run(main())


@pytest.mark.parametrize("fate", FATES)
def test_an_acceptance_without_an_answer_stands_once(cassandra_crawl: CassandraSettings, fate: Fate) -> None:
    """Whether it was done or never arrived: it is done in the end, told as done, and counted once."""

    async def scenario(session: LostAnswers, room: Room) -> None:
        fp = room.candidate(1).fp
        session.fate = Each(fate, 2)
        assert await room.books.parse.accept([output(0, 10, fp=fp)], None) == [True]
        assert await room.books.parse.accept([output(0, 10, fp=fp)], None) == [False]
        assert (await room.books.totals.all())["outputs"] == 1

    losing(cassandra_crawl, scenario)


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("depth", [0, 2])
def test_an_acceptance_under_a_job_without_an_answer(
    cassandra_crawl: CassandraSettings, fate: Fate, depth: int
) -> None:
    """The output stands and the job is over, with and without the second look at the row's depth."""

    async def scenario(session: LostAnswers, room: Room) -> None:
        fp = room.candidate(1).fp
        await room.books.jobs.put(job(0, 10, fp=fp))
        (held,) = await room.books.jobs.claim(1, 10, 100)
        session.fate = Each(fate, 1)
        assert await room.books.parse.accept([output(0, 10, fp=fp, depth=depth)], held) == [True]
        assert await room.books.jobs.all() == []
        assert len(await room.books.parse.outputs(fp)) == 1

    losing(cassandra_crawl, scenario)


@pytest.mark.parametrize("fate", FATES)
def test_a_job_put_without_an_answer_is_there_once(cassandra_crawl: CassandraSettings, fate: Fate) -> None:
    """As it was put, and free to be claimed."""

    async def scenario(session: LostAnswers, room: Room) -> None:
        fp = room.candidate(1).fp
        session.fate = Each(fate, 2)
        await room.books.jobs.put(job(0, 10, fp=fp, due_us=5))
        assert await room.books.jobs.all() == [job(0, 10, fp=fp, due_us=5)]

    losing(cassandra_crawl, scenario)


def test_a_claim_of_a_job_whose_answer_was_lost_is_ours(cassandra_crawl: CassandraSettings) -> None:
    """The token in the row decides; one that never arrived leaves the job to the next claim."""

    async def scenario(session: LostAnswers, room: Room) -> None:
        fp = room.candidate(1).fp
        await room.books.jobs.put(job(0, 10, fp=fp))
        session.fate = Each(Fate.NEVER_ARRIVED, 1)
        assert await room.books.jobs.claim(1, 10, 100) == []
        session.fate = Each(Fate.LOST_ANSWER, 1)
        (held,) = await room.books.jobs.claim(1, 10, 100)
        assert await room.books.jobs.all() == [held]
        assert held.attempt == 1

    losing(cassandra_crawl, scenario)


@pytest.mark.parametrize("fate", FATES)
def test_cancelled_rows_without_an_answer_are_cancelled(cassandra_crawl: CassandraSettings, fate: Fate) -> None:
    """And counted as such; the next call finds nothing left."""

    async def scenario(session: LostAnswers, room: Room) -> None:
        fps = await room.admit(1, 2, 3)
        await room.claim(1)
        session.fate = Each(fate, 1)
        assert await room.operator.cancel(room.host, "operator", 9) == 3
        assert await room.operator.cancel(room.host, "operator", 9) == 0
        assert await room.states(fps) == ["cancelled operator"] * 3
        assert (await room.books.totals.all())["cancelled"] == 3

    losing(cassandra_crawl, scenario)


def test_parsers_that_lose_answers_and_die_leave_every_document_parsed(cassandra_crawl: CassandraSettings) -> None:
    """Four parsers, each third write without an answer, each fourth parse given up: one output each, no job left."""
    documents = 12

    async def parser(room: Room, chance: SeededRandom, wins: list[bytes]) -> None:
        now_us = room.clock.wall_us()
        for turn in range(60):
            try:
                for held in await room.books.jobs.claim(2, now_us + turn * HOUR_US, now_us + (turn + 1) * HOUR_US):
                    await attempt(room, chance, held, wins)
            except Indefinite:
                continue

    async def attempt(room: Room, chance: SeededRandom, held: Job, wins: list[bytes]) -> None:
        drawn = chance.fraction()
        if drawn < 0.25:
            return  # dies with it
        if drawn < 0.5:
            await room.books.jobs.put(msgspec.structs.replace(held, attempt=held.attempt + 1))
            return
        if await room.books.parse.accept([output(0, 10, fp=held.fp)], held) == [True]:
            wins.append(held.fp)

    async def scenario(session: LostAnswers, room: Room) -> None:
        chance = SeededRandom(11)
        fps = [room.candidate(number).fp for number in range(documents)]
        for fp in fps:
            await room.books.jobs.put(job(0, 10, fp=fp, due_us=room.clock.wall_us()))
        session.fate = lambda: FATES[int(chance.fraction() * 2)] if chance.fraction() < 0.33 else Fate.ANSWERED
        wins: list[bytes] = []
        await asyncio.gather(*(parser(Room(session, room.shard), chance, wins) for _ in range(4)))
        assert len(wins) == len(set(wins))
        assert await room.books.jobs.all() == []
        assert [len(await room.books.parse.outputs(fp)) for fp in fps] == [1] * documents

    losing(cassandra_crawl, scenario)

"""The session over a real Cassandra: what it refuses, what it counts, and what a migration leaves."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from contract.cassandras import empty
from limpet.clock import SystemClock
from limpet.model.errors import CannotGoOn, Definite
from limpet.urlstore.cassandra import CassandraSettings, Session, migrate, pending

pytestmark = pytest.mark.servers


def run(settings: CassandraSettings, scenario: Callable[[Session], Awaitable[None]]) -> None:
    """`scenario` on a session of its own."""

    async def main() -> None:
        session = await Session.open(settings)
        try:
            await scenario(session)
        finally:
            await session.close()

    asyncio.run(main())


def test_migrations_are_applied_once_and_a_later_release_is_refused(cassandra_crawl: CassandraSettings) -> None:
    """Another call finds nothing to do; a keyspace with a migration that we do not know is left alone."""

    async def main() -> None:
        assert await migrate(cassandra_crawl, SystemClock()) == []
        assert await pending(cassandra_crawl) == []
        with pytest.raises(CannotGoOn):
            await pending(msgspec.structs.replace(cassandra_crawl, keyspace="nowhere"))

    asyncio.run(main())


def test_parameters_are_given_all_and_never_as_none(cassandra_crawl: CassandraSettings) -> None:
    """A forgotten value would be left unset, and None stored as a tombstone: neither leaves the process."""

    async def scenario(session: Session) -> None:
        for params in ({}, {"fp": b"x", "fq": b"y"}):
            with pytest.raises(TypeError, match="url_get takes"):
                await session.run("url_get", **params)
        with pytest.raises(ValueError, match="no value for fp"):
            await session.run("url_get", fp=None)
        assert session.tally().statements == {}

    run(cassandra_crawl, scenario)


def test_more_requests_than_slots_wait_for_their_turn(cassandra_crawl: CassandraSettings) -> None:
    """All of them are answered, and counted by name."""

    async def scenario(session: Session) -> None:
        answers = await asyncio.gather(*(session.one("url_get", fp=bytes(16)) for _ in range(300)))
        assert answers == [None] * 300
        assert session.tally().statements == {"url_get": 300}
        assert session.tally().conditional == {}

    empty(cassandra_crawl)
    run(msgspec.structs.replace(cassandra_crawl, in_flight_max=3), scenario)


def test_nobody_there_is_told_with_the_keyspace() -> None:
    """An address without a server ends the attempt, by name."""

    async def main() -> None:
        with pytest.raises(Definite, match="keyspace limpet: cannot reach Cassandra"):
            await Session.open(CassandraSettings(contact_points=("127.0.0.1",), port=1))

    asyncio.run(main())

"""Listings over all shards: every row once, clashing candidates too, whatever the pages."""

import pytest

from contract.cassandra_room import Room, fresh_shard, with_session
from limpet.model.lifecycle import State
from limpet.urlstore import Reject
from limpet.urlstore.cassandra import CassandraSettings, Session
from limpet.urlstore.cassandra.walk import walk_rows

pytestmark = pytest.mark.servers


def test_a_walk_meets_every_row_of_every_shard_once(cassandra_crawl: CassandraSettings) -> None:
    """In pages of any length; a candidate whose fingerprint is taken is a row in review."""

    async def scenario(session: Session) -> None:
        one, other = Room(session, fresh_shard()), Room(session, fresh_shard())
        fps = [*await one.admit(1, 2, 3), *await other.admit(1, 2, parked="host_urls")]
        await one.admit(3, key="another")
        found = [row async for page in walk_rows(session, [one.shard, other.shard]) for row in page]
        ours = [row for row in found if row.host in {one.host, other.host}]
        assert sorted(row.fp for row in ours) == sorted([*fps, fps[2]])
        assert [row.reason for row in ours if row.state is State.REVIEW] == ["clash"]
        parked = [row async for page in walk_rows(session, [one.shard], {State.PARKED}) for row in page]
        assert {row.state for row in parked} == {State.PARKED}
        assert {row.fp for row in parked if row.host == other.host} == set(fps[3:])

    with_session(cassandra_crawl, scenario)


def test_rules_that_turned_a_url_away_are_known_by_its_host(cassandra_crawl: CassandraSettings) -> None:
    """Of its own host only, and while it is among the samples."""

    async def scenario(session: Session) -> None:
        one = Room(session, fresh_shard())
        url = f"{one.authority}/deep"
        await one.books.count_rejects(
            [
                Reject(host=one.host, rule="depth", count=1, sample=url),
                Reject(host=one.host, rule="repeats", count=1, sample=f"{url}er"),
                Reject(host="else.example", rule="scope", count=1, sample=url),
            ]
        )
        assert await one.books.rejects.rules_of(one.host, url) == ["depth"]
        assert await one.books.rejects.rules_of("nobody.example", url) == []

    with_session(cassandra_crawl, scenario)

"""Listings over all shards: every row once, clashing candidates too, whatever the pages."""

import msgspec
import pytest

from contract.cassandra_room import Room, fresh_shard, with_session
from contract.stores import outcome
from limpet.model.lifecycle import State
from limpet.urlstore import Completion, HostRow, Reject
from limpet.urlstore.cassandra import CassandraSettings, Session
from limpet.urlstore.cassandra.walk import walk_fetched, walk_rows

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


@pytest.mark.parametrize("page_rows", [1, 2, 1_000])
def test_outcomes_come_whole_whatever_the_pages(cassandra_crawl: CassandraSettings, page_rows: int) -> None:
    """All of a URL together, with the state that each gave it; a URL without any, too."""

    async def scenario(session: Session) -> None:
        one = Room(session, fresh_shard())
        fps = await one.admit(1, 2, due_us=0)
        for state in (State.DUE, State.DUE, State.GONE):
            (claim,) = await one.claim(1)
            now_us = one.clock.wall_us()
            end = Completion(claim=claim, state=state, now_us=now_us, outcome=outcome(claim, now_us))
            assert await one.core.completions.complete(end)
        found = [fetched async for page in walk_fetched(session, [one.shard]) for fetched in page]
        ours = {fetched.row.fp: fetched for fetched in found if fetched.row.host == one.host}
        assert len(found) == len({fetched.row.fp for fetched in found})
        assert sorted(ours) == sorted(fps)
        counts = sorted(len(fetched.outcomes) for fetched in ours.values())
        assert sum(counts) == 3
        for fetched in ours.values():
            assert [found for found, _ in fetched.outcomes] == await one.view.outcomes(fetched.row.fp)
        assert sorted(state.value for fetched in ours.values() for _, state in fetched.outcomes) == [
            "due",
            "due",
            "gone",
        ]

    with_session(msgspec.structs.replace(cassandra_crawl, page_rows=page_rows), scenario)


@pytest.mark.parametrize("rows_max", [2, 3, 1_000])
def test_hosts_come_in_pages(cassandra_crawl: CassandraSettings, rows_max: int) -> None:
    """Each once, with the URLs that all writers counted, one that has none and one that many writers know included."""

    async def scenario(session: Session) -> None:
        one = Room(session, fresh_shard())
        writers = [one, *(Room(session, one.shard) for _ in range(4))]
        names = [f"h{number}.example" for number in range(12)]
        for number, writer in enumerate(writers):
            await writer.books.hosts.count({names[0]: 1, names[number]: 2})
        await one.books.hosts.count(dict.fromkeys(names[:-1], 1))
        await one.books.hosts.put_host(HostRow(host=names[-1], wait_us=7))
        pages = [page async for page in one.books.hosts.pages(rows_max)]
        whole = await one.books.hosts.hosts()
        assert sorted(row.host for page in pages for row in page) == sorted(names)
        assert {row.host: row for page in pages for row in page} == {row.host: row for row in whole}
        assert max(map(len, pages)) <= rows_max + 1

    with_session(cassandra_crawl, scenario)


@pytest.mark.parametrize("count", [0, 70])
def test_what_waits_of_an_authority_comes_with_its_leases(cassandra_crawl: CassandraSettings, count: int) -> None:
    """Leased rows and waiting ones, not what was fetched."""

    async def scenario(session: Session) -> None:
        one = Room(session, fresh_shard())
        await one.admit(*range(count), due_us=0)
        claims = await one.claim(2) if count else []
        rows = [row async for page in one.operator.waiting(one.authority) for row in page]
        assert len(rows) == len({row.fp for row in rows}) == count
        assert {row.fp for row in rows if row.token} == {claim.fp for claim in claims}

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

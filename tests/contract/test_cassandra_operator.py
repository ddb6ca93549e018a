"""Moves of many rows on real servers: found through the due index and the lists of what left it, never by a scan."""

import pytest

from contract.cassandra_room import HOUR_US, Room, fresh_shard, with_session
from contract.stores import outcome
from limpet.model.lifecycle import State
from limpet.urlstore import Completion
from limpet.urlstore.cassandra import CassandraSettings, Session
from limpet.urlstore.cassandra.exits import YOUNG_US

pytestmark = pytest.mark.servers


async def deny(room: Room, count: int) -> list[bytes]:
    """So many claimed URLs are denied; their fingerprints."""
    claims = await room.claim(count)
    for claim in claims:
        end = Completion(claim=claim, state=State.DENIED, now_us=room.clock.wall_us(), reason="robots")
        assert await room.core.completions.complete(end)
    return [claim.fp for claim in claims]


def test_a_host_is_cancelled_piece_by_piece_and_put_back(cassandra_crawl: CassandraSettings) -> None:
    """Leased rows first, no other host's, up to the limit; what was fetched stays; all of it can be put back."""

    async def scenario(session: Session) -> None:
        room = Room(session, fresh_shard())
        fps = await room.admit(*range(6), due_us=0)
        await room.admit(6, authority=f"{room.authority}:8443")
        (other,) = await room.admit(7, authority=f"https://o{room.shard}.example")
        (done, held) = await room.claim(2)
        now_us = room.clock.wall_us()
        end = Completion(claim=done, state=State.FETCHED, now_us=now_us, outcome=outcome(done, now_us))
        assert await room.core.completions.complete(end)
        assert await room.operator.cancel(room.host, "operator", 1) == 1
        assert await room.states([held.fp]) == ["cancelled operator"]
        assert [await room.operator.cancel(room.host, "operator", 2) for _ in range(4)] == [2, 2, 1, 0]
        assert sorted(await room.states(fps)) == ["cancelled operator"] * 5 + ["fetched"]
        assert await room.states([other]) == ["due"]
        assert await room.claim(9) == []
        assert not await room.core.completions.complete(
            Completion(claim=held, state=State.FETCHED, now_us=now_us, outcome=outcome(held, now_us))
        )
        assert await room.operator.cancelled_hosts("operator") == [room.host]
        assert await room.operator.cancelled_hosts("another") == []
        assert await room.operator.uncancel(room.host, "another", now_us, 9) == 0
        assert [await room.operator.uncancel(room.host, "operator", now_us, 4) for _ in range(3)] == [4, 2, 0]
        assert await room.operator.cancelled_hosts("operator") == []
        assert len(await room.claim(9)) == 5

    with_session(cassandra_crawl, scenario)


def test_denied_urls_of_an_authority_are_found_again(cassandra_crawl: CassandraSettings) -> None:
    """All of them, of that authority alone, once; and again after they were denied anew."""

    async def scenario(session: Session) -> None:
        room = Room(session, fresh_shard())
        await room.admit(*range(5))
        denied = await deny(room, 3)
        assert await room.states(denied) == ["denied robots"] * 3
        now_us = room.clock.wall_us()
        assert await room.operator.rearm_denied(f"{room.authority}:1", now_us) == 0
        assert await room.operator.rearm_denied(room.authority, now_us) == 3
        assert await room.operator.rearm_denied(room.authority, now_us) == 0
        assert len(await deny(room, 5)) == 5
        assert await room.operator.rearm_denied(room.authority, now_us) == 5

    with_session(cassandra_crawl, scenario)


def test_what_is_young_stays_in_the_lists(cassandra_crawl: CassandraSettings) -> None:
    """A list is forgotten up to a time before its pass began: what was entered since is on its way to its row."""

    async def scenario(session: Session) -> None:
        room = Room(session, fresh_shard())
        (fp,) = await room.admit(1)
        exits = room.books.exits
        await exits.denied(room.authority, fp)
        await exits.forget_authority(room.authority, exits.now_us())
        assert await session.run("denied_of", authority=room.authority) == [{"fp": fp}]
        await exits.forget_authority(room.authority, exits.now_us() + 2 * YOUNG_US)
        assert await session.run("denied_of", authority=room.authority) == []

    with_session(cassandra_crawl, scenario)


def test_what_waits_in_vain_fails_with_a_notice(cassandra_crawl: CassandraSettings) -> None:
    """Due rows, now or later; a leased row and a recrawl stay as they are."""

    async def scenario(session: Session) -> None:
        room = Room(session, fresh_shard())
        fps = await room.admit(1, 2) + await room.admit(3, due_us=room.clock.wall_us() + HOUR_US)
        (leased,) = await room.claim(1)
        now_us = room.clock.wall_us()
        assert await room.operator.wait_out(room.authority, "robots_unreachable", now_us) == 2
        assert await room.operator.wait_out(room.authority, "robots_unreachable", now_us) == 0
        left = [fp for fp in fps if fp != leased.fp]
        assert await room.states([leased.fp, *left]) == ["leased"] + ["failed robots_unreachable"] * 2
        (notice,) = await room.books.notices.undelivered()
        assert (notice.kind, notice.host, notice.reason, notice.count) == ("failed", room.host, "robots_unreachable", 2)
        again = room.clock.wall_us()
        assert await room.operator.rearm([leased.fp, *left, b"x" * 16], again) == 2
        assert await room.operator.rearm(left, again) == 0
        assert {claim.fp for claim in await room.claim(9)} == set(left)

    with_session(cassandra_crawl, scenario)


def test_many_urls_of_a_host_are_cancelled_in_one_pass(cassandra_crawl: CassandraSettings) -> None:
    """Calls that follow each other go on where the last one ended: no row is read over and over."""

    async def scenario(session: Session) -> None:
        room = Room(session, fresh_shard())
        await room.admit(*range(200))
        before = session.tally().statements["url_get"]
        counts: list[int] = []
        while not counts or counts[-1]:
            counts.append(await room.operator.cancel(room.host, "operator", 30))
        assert sum(counts) == 200
        assert session.tally().statements["url_get"] - before <= 5 * 200
        await room.operator.close()

    with_session(cassandra_crawl, scenario)

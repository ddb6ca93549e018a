"""What is counted and told about a shard, on real servers: nothing is lost under many writers, stale owners lose."""

import asyncio
from collections.abc import Awaitable

import pytest

from contract.cassandra_room import fresh_shard, with_session
from limpet.clock import SystemClock
from limpet.model.errors import Definite
from limpet.urlstore import AuthorityRow, HostRow, Reject, RepairItem
from limpet.urlstore.cassandra import CassandraSettings, Session
from limpet.urlstore.cassandra.hosts import Hosts
from limpet.urlstore.cassandra.led import Led
from limpet.urlstore.cassandra.ledger import Rejects, Repairs, Requests, Seeds, Totals
from limpet.urlstore.cassandra.notices import DAY_US, Notices

pytestmark = pytest.mark.servers

A = "https://a.example"
CLOCK = SystemClock()
WRITERS = 4
ROUNDS = 12


def hosts(session: Session, shard: int, epoch: int, writer: str = "w") -> Hosts:
    return Hosts(session, shard, Led(epoch, CLOCK), writer)


async def together(*steps: Awaitable[None]) -> None:
    await asyncio.gather(*steps)


def test_a_stale_owner_of_a_shard_changes_neither_hosts_nor_authorities(cassandra_crawl: CassandraSettings) -> None:
    """Whatever it writes, however late, the row of the owner with the later epoch stands."""

    async def scenario(session: Session) -> None:
        shard = fresh_shard()
        stale, owner = hosts(session, shard, 3), hosts(session, shard, 4)
        await stale.put_host(HostRow(host="a.example", wait_us=1))
        await owner.put_host(HostRow(host="a.example", wait_us=2))
        await owner.put_authority(AuthorityRow(authority=A, host="a.example", robots=b"new"))
        for _ in range(20):
            await stale.put_host(HostRow(host="a.example", wait_us=99))
            await stale.put_authority(AuthorityRow(authority=A, host="a.example", robots=b"old"))
        assert await owner.host("a.example") == HostRow(host="a.example", wait_us=2)
        assert await owner.authority(A) == AuthorityRow(authority=A, host="a.example", robots=b"new")
        await owner.put_host(HostRow(host="a.example", wait_us=5))
        assert await stale.host("a.example") == HostRow(host="a.example", wait_us=5)

    with_session(cassandra_crawl, scenario)


def test_a_second_object_of_the_same_owner_wins_over_its_first(cassandra_crawl: CassandraSettings) -> None:
    """Within an epoch, what is written later holds."""

    async def scenario(session: Session) -> None:
        shard = fresh_shard()
        first, second = hosts(session, shard, 3), hosts(session, shard, 3)
        for wait_us in range(1, 6):
            await first.put_host(HostRow(host="a.example", wait_us=wait_us))
        await CLOCK.sleep(0.01)
        await second.put_host(HostRow(host="a.example", wait_us=77))
        assert await first.host("a.example") == HostRow(host="a.example", wait_us=77)

    with_session(cassandra_crawl, scenario)


def test_only_an_owner_may_write_politeness(cassandra_crawl: CassandraSettings) -> None:
    """A parser, an admission or an operator has no epoch, and is refused before anything is written."""

    async def scenario(session: Session) -> None:
        nobody = hosts(session, fresh_shard(), 0)
        with pytest.raises(Definite, match="without an epoch"):
            await nobody.put_host(HostRow(host="a.example"))
        with pytest.raises(Definite, match="without an epoch"):
            await nobody.put_authority(AuthorityRow(authority=A, host="a.example"))
        assert await nobody.hosts() == []
        assert await nobody.authority(A) is None

    with_session(cassandra_crawl, scenario)


def test_urls_of_a_host_are_counted_beside_what_politeness_writes(cassandra_crawl: CassandraSettings) -> None:
    """Every admission raises a cell of its own; a host is known from its first row or its first put."""

    async def scenario(session: Session) -> None:
        shard = fresh_shard()
        owner, one, other = (hosts(session, shard, epoch, f"w{epoch}") for epoch in (1, 0, 2))
        assert await owner.host("a.example") is None
        await together(*(who.count({"a.example": 2, "b.example": 1}) for who in (one, other) for _ in range(ROUNDS)))
        await owner.put_host(HostRow(host="a.example", wait_us=7, urls=999))
        assert await owner.host("a.example") == HostRow(host="a.example", wait_us=7, urls=4 * ROUNDS)
        assert sorted((row.host, row.urls) for row in await one.hosts()) == [("a.example", 48), ("b.example", 24)]

    with_session(cassandra_crawl, scenario)


def test_an_authority_is_known_from_its_first_row(cassandra_crawl: CassandraSettings) -> None:
    """Discovery writes only what follows from the name, and never over what robots remembers."""

    async def scenario(session: Session) -> None:
        shard = fresh_shard()
        owner, admission = hosts(session, shard, 2), hosts(session, shard, 0)
        await admission.meet(A, "a.example")
        assert await owner.authority(A) == AuthorityRow(authority=A, host="a.example")
        kept = AuthorityRow(authority=A, host="a.example", robots=b"r", robots_digest="d", wait_us=9)
        await owner.put_authority(kept)
        await hosts(session, shard, 0).meet(A, "a.example")
        await admission.meet(f"{A}:8443", "a.example")
        assert await admission.authority(A) == kept
        assert sorted(await owner.of_host("a.example")) == [A, f"{A}:8443"]
        assert {row.authority for row in await owner.authorities()} == {A, f"{A}:8443"}

    with_session(cassandra_crawl, scenario)


def test_rejected_links_of_many_writers_add_up(cassandra_crawl: CassandraSettings) -> None:
    """Nothing is lost between writers at work at once, and ten samples are kept at most."""

    async def scenario(session: Session) -> None:
        shard = fresh_shard()
        writers = [Rejects(session, shard, f"w{number}") for number in range(WRITERS)]
        reject = [Reject(host="x.example", rule="scope", count=3, sample=f"https://x.example/{n}") for n in range(4)]
        await together(*(one.count(reject) for one in writers for _ in range(ROUNDS)))
        await writers[0].count([Reject(host="y.example", rule="trap", count=5, sample="")])
        found = await Rejects(session, shard, "reader").all()
        assert sum(one.count for one in found if one.host == "x.example") == WRITERS * ROUNDS * 12
        assert [one.sample for one in found if one.host == "x.example"] == [one.sample for one in reject]
        assert [one for one in found if one.host == "y.example"] == [
            Reject(host="y.example", rule="trap", count=5, sample="")
        ]
        many = [Reject(host="x.example", rule="scope", count=1, sample=f"https://x.example/m{n}") for n in range(20)]
        await writers[1].count(many)
        assert len([one for one in await writers[2].all() if one.host == "x.example"]) == 10

    with_session(cassandra_crawl, scenario)


def test_requests_of_a_day_by_many_writers_add_up(cassandra_crawl: CassandraSettings) -> None:
    """What was counted is durable; what was only noted is seen by its writer, and by all after a flush."""

    async def scenario(session: Session) -> None:
        shard = fresh_shard()
        writers = [Requests(session, shard, f"w{number}") for number in range(WRITERS)]
        await together(*(one.count(20_000, 1) for one in writers for _ in range(ROUNDS)))
        reader = Requests(session, shard, "reader")
        assert await reader.of(20_000) == WRITERS * ROUNDS
        assert await reader.of(20_001) == 0
        writers[0].note(20_001)
        assert (await writers[0].of(20_001), await reader.of(20_001)) == (1, 0)
        await writers[0].flush()
        assert await reader.of(20_001) == 1

    with_session(cassandra_crawl, scenario)


def test_totals_outlive_their_writer_as_far_as_they_were_flushed(cassandra_crawl: CassandraSettings) -> None:
    """Each incarnation has its own; the sums are over all of them."""

    async def scenario(session: Session) -> None:
        shard = fresh_shard()
        first = Totals(session, shard, "w1", CLOCK)
        first.add("claims", 3)
        first.add("state.due", 3)
        assert await first.all() == {"claims": 3}
        await first.flush()
        first.add("claims", 4)
        second = Totals(session, shard, "w2", CLOCK)
        second.add("claims", 10)
        second.add("completions")
        await second.flush()
        assert await first.all() == {"claims": 17, "completions": 1}
        assert await Totals(session, shard, "reader", CLOCK).all() == {"claims": 13, "completions": 1}

    with_session(cassandra_crawl, scenario)


def test_notices_of_many_writers_lose_nothing_while_they_are_delivered(cassandra_crawl: CassandraSettings) -> None:
    """What is told in the end is what was noticed, however writers and two deliverers overlap."""

    async def scenario(session: Session) -> None:
        shard = fresh_shard()
        now_us = 20_000 * DAY_US
        writers = [Notices(session, shard, f"w{number}") for number in range(WRITERS)]

        async def notice(one: Notices) -> None:
            for step in range(ROUNDS):
                await one.add(("failed", "a.example", "tls"), f"https://a.example/{step}", now_us + step, 2)

        async def deliver(one: Notices) -> int:
            count = 0
            for _ in range(ROUNDS):
                shown = await one.undelivered()
                await one.delivered(shown)
                count += sum(each.count for each in shown)
            return count

        deliverer = Notices(session, shard, "d")
        delivering = asyncio.ensure_future(deliver(deliverer))
        await asyncio.gather(*(notice(one) for one in writers))
        told = await delivering + await deliver(deliverer)
        assert told == WRITERS * ROUNDS * 2
        assert await deliverer.undelivered() == []

    with_session(cassandra_crawl, scenario)


def test_what_was_shown_elsewhere_is_not_taken_off(cassandra_crawl: CassandraSettings) -> None:
    """Telling twice is better than never: a deliverer takes off what it was shown itself, once."""

    async def scenario(session: Session) -> None:
        shard = fresh_shard()
        one, other = Notices(session, shard, "w1"), Notices(session, shard, "w2")
        await one.add(("failed", "a.example", "tls"), "s", 10, 3)
        shown = await one.undelivered()
        await other.delivered(shown)
        assert await other.undelivered() == shown
        await one.add(("failed", "a.example", "tls"), "s", 20, 1)
        for _ in range(3):
            await one.delivered(shown)
        assert [(notice.count, notice.id) for notice in await other.undelivered()] == [(1, shown[0].id)]

    with_session(cassandra_crawl, scenario)


def test_days_of_delivered_notices_are_dropped_and_what_comes_late_is_kept(cassandra_crawl: CassandraSettings) -> None:
    """No row is deleted by itself; a notice of a dropped day goes to a younger one; damage stays known."""

    async def scenario(session: Session) -> None:
        shard = fresh_shard()
        one = Notices(session, shard, "w1")
        for day in range(6):
            await one.add(("failed", "a.example", f"day{day}"), "s", day * DAY_US, 1)
        await one.add(("damaged_segment", "", "segment 7"), "s", 5 * DAY_US, 1)
        await one.delivered(await one.undelivered())
        days = [row["day"] for row in await session.run("notice_days", shard=shard)]
        assert days == [3, 4, 5]
        await one.add(("failed", "a.example", "late"), "s", 10, 1)
        assert [(notice.reason, notice.first_us) for notice in await one.undelivered()] == [("late", 10)]
        assert await one.damages() == ["segment 7"]

    with_session(cassandra_crawl, scenario)


def test_texts_of_any_length_and_content_can_be_told(cassandra_crawl: CassandraSettings) -> None:
    """A page decides what an error says: it must not become a key that the servers refuse."""

    async def scenario(session: Session) -> None:
        shard = fresh_shard()
        notices, repairs = Notices(session, shard, "w"), Repairs(session, shard)
        for reason in ("x" * 200_000, "\ud800", "é" * 50_000):
            await notices.add(("parse_review", "", reason), "s" * 200_000, 10, 1)
        shown = await notices.undelivered()
        assert sorted(notice.reason[:1] for notice in shown) == ["?", "x", "é"]
        await notices.delivered(shown)
        assert await notices.undelivered() == []
        await repairs.open(RepairItem(kind="k", subject="y" * 100_000, detail="\ud800", created_us=1))
        assert len(await repairs.all()) == 1
        await repairs.close("k", "y" * 100_000)
        assert await repairs.all() == []

    with_session(cassandra_crawl, scenario)


def test_a_repair_item_that_many_find_is_open_once(cassandra_crawl: CassandraSettings) -> None:
    """The first finding gives its age; it can be opened anew once it was closed."""

    async def scenario(session: Session) -> None:
        shard = fresh_shard()
        repairs = Repairs(session, shard)
        first = RepairItem(kind="due", subject="s", detail="d", created_us=50)
        await repairs.open(first)
        await together(
            *(repairs.open(RepairItem(kind="due", subject="s", detail="x", created_us=60 + n)) for n in range(WRITERS))
        )
        assert await repairs.all() == [first]
        await together(*(repairs.close("due", "s") for _ in range(WRITERS)))
        assert await repairs.all() == []
        again = RepairItem(kind="due", subject="s", detail="x", created_us=70)
        await repairs.open(again)
        assert await repairs.all() == [again]

    with_session(cassandra_crawl, scenario)


def test_seeds_are_a_set(cassandra_crawl: CassandraSettings) -> None:
    """However often they are added."""

    async def scenario(session: Session) -> list[str]:
        seeds = Seeds(session, fresh_shard())
        await together(*(seeds.add(f"{A}/{number % 3}") for number in range(9)))
        return await seeds.all()

    assert with_session(cassandra_crawl, scenario) == [f"{A}/0", f"{A}/1", f"{A}/2"]

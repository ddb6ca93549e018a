"""The contract of the urlstore port: what becomes of leases, records and jobs whose owner is gone."""

import pytest

from contract.storereads import snapshot
from contract.stores import (
    POISON,
    A,
    B,
    StoreRig,
    candidate,
    check_counters,
    check_due_index,
    claim_one,
    claimed,
    fetched,
    fp,
    interrupt,
    outcome,
    retried,
    run,
)
from limpet.model.lifecycle import State
from limpet.segments import Location
from limpet.urlstore import (
    AuthorityRow,
    Completion,
    UrlStore,
)
from limpet.warc import segment_name


def test_leases_that_ran_out_become_due_and_soon_with_one_interruption_more(rig: StoreRig) -> None:
    """Only those that ran out; the rows as they were are told, with their new state."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1), candidate(2, B)], now_us=1)
        await claimed(store, 10, lease_us=100)
        await claimed(store, 10, authority=B, lease_us=101)
        before = await store.row(fp(1))
        assert await store.leased_hosts() == ["a.example", "b.example"]
        robots = AuthorityRow(authority=A, host="a.example", robots=b"state")
        await store.put_authority(robots)
        assert await store.leased_authorities() == [robots, AuthorityRow(authority=B, host="b.example")]
        assert await store.expire(99, dead=False, poison_after=POISON) == []
        assert await store.expire(100, dead=False, poison_after=POISON) == [(before, State.DUE)]
        assert await store.leased_hosts() == ["b.example"]
        assert [one.authority for one in await store.leased_authorities()] == [B]
        row = await store.row(fp(1))
        assert row is not None
        assert (row.state, row.interruptions, row.failures, row.token, row.lease_us) == (State.DUE, 1, 0, b"", 0)
        await store.admit([candidate(3)], now_us=101)
        assert [claim.url for claim in await claimed(store, 101, limit=9)] == [f"{A}/1"]
        await check_counters(store)
        await check_due_index(store)

    run(rig, scenario)


def test_all_leases_of_a_dead_owner_end_at_once(rig: StoreRig) -> None:
    """With `dead` a lease ends whatever time it had left."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(n) for n in range(4)], now_us=1)
        claims = await claimed(store, 10, limit=3, lease_us=10**15)
        ended = await store.expire(11, dead=True, poison_after=POISON)
        assert {row.fp for row, _ in ended} == {claim.fp for claim in claims}
        assert await store.leased_hosts() == []
        assert await store.complete(fetched(claims[0], 12)) is False
        await check_counters(store)

    run(rig, scenario)


def test_an_interrupted_url_is_claimed_alone(rig: StoreRig) -> None:
    """It comes first, by itself and says so; the others come when it is away."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(n) for n in range(4)], now_us=1)
        await claimed(store, 10, limit=2)
        await store.expire(20, dead=True, poison_after=POISON)
        first = await claimed(store, 30, limit=9)
        second = await claimed(store, 30, limit=9)
        rest = await claimed(store, 30, limit=9)
        assert [[(claim.url, claim.alone) for claim in claims] for claims in (first, second, rest)] == [
            [(f"{A}/0", True)],
            [(f"{A}/1", True)],
            [(f"{A}/2", False), (f"{A}/3", False)],
        ]
        row = await store.row(fp(0))
        assert row is not None
        assert row.alone is True

    run(rig, scenario)


def test_a_claim_stops_before_an_interrupted_url(rig: StoreRig) -> None:
    """Healthy retries that were due earlier go without it."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1)], now_us=1)
        await store.complete(retried(await claim_one(store, 5), 6, due_us=8))
        await store.admit([candidate(2)], now_us=6)
        claim = await claim_one(store, 7)
        assert claim.url == f"{A}/2"
        await store.expire(20, dead=True, poison_after=POISON)
        assert [(one.url, one.alone) for one in await claimed(store, 30, limit=9)] == [(f"{A}/1", False)]
        assert [(one.url, one.alone) for one in await claimed(store, 30, limit=9)] == [(f"{A}/2", True)]

    run(rig, scenario)


def test_the_fifth_interruption_while_alone_is_suspected_poison(rig: StoreRig) -> None:
    """The first struck in company and does not count; the fifth alone ends in review, out of the queue, notified."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1)], now_us=1)
        states = [await interrupt(store, 10 * n) for n in range(1, POISON + 2)]
        assert states == [State.DUE] * POISON + [State.REVIEW]
        row = await store.row(fp(1))
        assert row is not None
        assert (row.state, row.reason, row.interruptions) == (State.REVIEW, "suspected_poison", POISON + 1)
        assert await store.queues() == []
        assert [(n.kind, n.host, n.reason, n.count) for n in await store.notices()] == [
            ("review", "a.example", "suspected_poison", 1)
        ]
        assert (await store.counters())["interruptions"] == POISON + 1
        await check_counters(store)

    run(rig, scenario)


def test_interruptions_before_a_success_do_not_count_towards_poison(rig: StoreRig) -> None:
    """Success resets: the count begins again."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1)], now_us=1)
        for n in range(1, POISON + 1):
            await interrupt(store, 10 * n)
        await store.complete(fetched(await claim_one(store, 100), 101, due_us=200))
        states = [await interrupt(store, 200 + 10 * n) for n in range(1, POISON + 2)]
        assert states == [State.DUE] * POISON + [State.REVIEW]

    run(rig, scenario)


@pytest.mark.parametrize("leased", [False, True])
def test_an_orphan_record_is_adopted_once(rig: StoreRig, leased: bool) -> None:
    """The outcome is inserted, the waiting row moves and points at it; a second time it is there already."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1)], now_us=1)
        claim = await claim_one(store, 10)
        if not leased:
            await store.expire(20, dead=True, poison_after=POISON)
        orphan = outcome(claim, 15)
        assert await store.adopt(orphan, State.FETCHED, "", 30) is True
        row = await store.row(claim.fp)
        assert row is not None
        assert (row.state, row.latest_us, row.interruptions, row.failures) == (State.FETCHED, 15, 0, 0)
        assert await store.outcomes(claim.fp) == [orphan]
        before = await snapshot(store)
        assert await store.adopt(orphan, State.FETCHED, "", 31) is False
        assert await snapshot(store) == before
        assert await store.complete(fetched(claim, 32)) is False
        assert (await store.counters())["adopted"] == 1
        await check_counters(store)
        await check_due_index(store)

    run(rig, scenario)


def test_records_of_a_segment_that_outcomes_name_are_found(rig: StoreRig) -> None:
    """Recovery asks what it must not cut: from an offset on, of that segment alone, in file order."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(number) for number in range(1, 5)], now_us=1)
        claims = await claimed(store, 10, limit=4)
        places = [Location("b", 300, 9), Location("b", 100, 9), Location("a", 500, 9), None]
        for at, (claim, place) in enumerate(zip(claims, places, strict=True), start=20):
            assert await store.complete(fetched(claim, 30, outcome=outcome(claim, at, location=place)))
        assert await store.recorded("b", 0) == [Location("b", 100, 9), Location("b", 300, 9)]
        assert await store.recorded("b", 101) == [Location("b", 300, 9)]
        assert await store.recorded("c", 0) == []

    run(rig, scenario)


def test_an_orphan_without_a_row_is_not_adopted(rig: StoreRig) -> None:
    """There is nothing it could belong to."""

    async def scenario(store: UrlStore) -> None:
        assert await store.adopt(outcome(candidate(1), 15), State.FETCHED, "", 30) is False
        assert await store.all_outcomes() == []

    run(rig, scenario)


def test_adopting_never_moves_a_row_that_does_not_wait(rig: StoreRig) -> None:
    """The latest is a pointer: an older record of a URL that was fetched since joins the outcomes, nothing else."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1), candidate(2, B)], now_us=1)
        await store.complete(fetched(await claim_one(store, 50), 60, due_us=500))
        claim = await claim_one(store, 50, B)
        await store.complete(Completion(claim=claim, state=State.FAILED, now_us=60, reason="tls"))
        rows = await store.rows()
        assert await store.adopt(outcome(candidate(1), 40), State.FETCHED, "", 70) is True
        assert await store.adopt(outcome(claim, 99, status=404), State.GONE, "http_404", 70) is True
        assert await store.rows() == rows
        assert [one.fetched_us for one in await store.outcomes(fp(1))] == [40, 60]
        await check_due_index(store)

    run(rig, scenario)


@pytest.mark.parametrize("leased", [True, False])
def test_adopting_never_moves_a_row_back_to_an_earlier_request(rig: StoreRig, leased: bool) -> None:
    """A completion came too late, the URL was asked again in vain, and then the first record is found."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1)], now_us=1)
        first = await claim_one(store, 10)
        await store.expire(20, dead=True, poison_after=POISON)
        assert await store.complete(retried(await claim_one(store, 30), 40, due_us=50))
        claims = await claimed(store, 60) if leased else []
        row = await store.row(fp(1))
        assert await store.adopt(outcome(first, 15), State.FETCHED, "", 70) is True
        assert await store.row(fp(1)) == row
        assert [one.fetched_us for one in await store.outcomes(fp(1))] == [15, 40]
        for claim in claims:
            assert await store.complete(fetched(claim, 80))
        await check_counters(store)
        await check_due_index(store)

    run(rig, scenario)


def test_adopting_ends_no_lease_of_a_later_owner(rig: StoreRig) -> None:
    """What one incarnation fetched does not make another late, which holds the URL now."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1)], now_us=1)
        first = (await store.claim(A, limit=1, now_us=10, lease_us=20, holder="a" * 16))[0]
        await store.expire(20, dead=False, poison_after=POISON)
        second = (await store.claim(A, limit=1, now_us=30, lease_us=90, holder="b" * 16))[0]
        record = Location(segment_name("limpet", 1_700_000_000_000_000, 0, "a" * 16), 500, 100)
        assert await store.adopt(outcome(first, 15, location=record), State.FETCHED, "", 40) is True
        assert await store.complete(fetched(second, 50))
        row = await store.row(fp(1))
        assert row is not None
        assert (row.state, row.latest_us) == (State.FETCHED, 50)
        assert [one.fetched_us for one in await store.outcomes(fp(1))] == [15, 50]
        await check_counters(store)
        await check_due_index(store)

    run(rig, scenario)


def test_an_adopted_gone_record_leaves_a_gone_row_with_its_reason(rig: StoreRig) -> None:
    """Adoption gives the state that the completion would have given."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1)], now_us=1)
        assert await store.adopt(outcome(candidate(1), 15, status=410), State.GONE, "http_410", 30) is True
        row = await store.row(fp(1))
        assert row is not None
        assert (row.state, row.reason, row.latest_us) == (State.GONE, "http_410", 15)
        assert await claimed(store, 10**15) == []
        await check_counters(store)

    run(rig, scenario)

"""The contract of the urlstore port, held against every adapter: what is admitted, and who may claim it."""

import asyncio

import pytest

from contract.storereads import fields
from contract.stores import (
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
    retried,
    run,
)
from limpet.model.lifecycle import State
from limpet.urlstore import (
    AdmitResult,
    HostRow,
    Reject,
    UrlRow,
    UrlStore,
)


# -- discovery ---------------------------------------------------------------------------------------------------------
def test_a_new_candidate_becomes_a_due_row_with_everything_it_came_with(rig: StoreRig) -> None:
    """Admission writes the row and its due entry; both are read back as they were given."""

    async def scenario(store: UrlStore) -> None:
        one = candidate(1, key="https://a.example/key", via=fp(9), seed=True, depth=3, hops="LLR", due_us=50)
        assert await store.admit([one], now_us=10) == [AdmitResult.NEW]
        row = await store.row(one.fp)
        assert row == UrlRow(
            fp=one.fp,
            key=one.key,
            url=one.url,
            host="a.example",
            authority=A,
            state=State.DUE,
            reason="",
            due_us=50,
            depth=3,
            hops="LLR",
            kind="navigation",
            seed=True,
            via=fp(9),
            failures=0,
            interruptions=0,
            alone=False,
            token=b"",
            lease_us=0,
            holder="",
            latest_us=0,
            admitted_us=10,
        )
        assert [(queue.authority, queue.host, queue.due_us) for queue in await store.queues()] == [(A, "a.example", 50)]
        assert store.shard == 7
        await check_counters(store)

    run(rig, scenario)


def test_a_batch_that_cannot_be_stored_leaves_nothing_behind(rig: StoreRig) -> None:
    """Neither rows nor anything the next batch could stumble over; what else was written at that moment is kept."""

    async def scenario(store: UrlStore) -> None:
        hostile = candidate(2, B, hops="\ud800")  # no text that could be encoded
        admissions = (store.admit([candidate(1, B), hostile], now_us=1), store.admit([candidate(3)], now_us=1))
        answers = await asyncio.gather(*admissions, return_exceptions=True)
        assert isinstance(answers[0], ValueError)
        assert answers[1] == [AdmitResult.NEW]
        assert [row.fp for row in await store.rows()] == [fp(3)]
        assert await store.admit([candidate(1, B)], now_us=2) == [AdmitResult.NEW]
        assert [claim.url for claim in await claimed(store, 5, authority=B)] == [f"{B}/1"]
        assert await store.host("b.example") == HostRow(host="b.example", urls=1)
        await check_counters(store)
        await check_due_index(store)

    run(rig, scenario)


def test_a_row_that_exists_is_left_as_it_is(rig: StoreRig) -> None:
    """Meeting a URL again, in the same batch or later, changes nothing about it, whatever came with it."""

    async def scenario(store: UrlStore) -> None:
        first, again = candidate(1), candidate(1, url=f"{A}/1?x", depth=9, parked="host_cap", due_us=77)
        again = candidate(1, key=first.key, url=f"{A}/1?x", depth=9, parked="host_cap", due_us=77)
        assert await store.admit([first, again], now_us=1) == [AdmitResult.NEW, AdmitResult.KNOWN]
        before = await store.rows()
        assert await store.admit([again], now_us=2) == [AdmitResult.KNOWN]
        assert await store.rows() == before
        claim = await claim_one(store, 5)
        assert await store.admit([first], now_us=6) == [AdmitResult.KNOWN]
        assert await store.complete(fetched(claim, 7)) is True
        assert await store.admit([first], now_us=8) == [AdmitResult.KNOWN]
        assert await store.queues() == []
        await check_counters(store)

    run(rig, scenario)


def test_another_identity_under_the_same_fingerprint_goes_to_review(rig: StoreRig) -> None:
    """A clash never touches the row that was first, is listed once however often it is met, and never claimed."""

    async def scenario(store: UrlStore) -> None:
        first, other = candidate(1), candidate(1, key=f"{A}/other", url=f"{A}/other")
        await store.admit([first], now_us=1)
        before = await store.row(first.fp)
        assert await store.admit([other, other], now_us=2) == [AdmitResult.CLASH, AdmitResult.CLASH]
        assert await store.admit([other], now_us=3) == [AdmitResult.CLASH]
        assert await store.row(first.fp) == before
        review = await store.rows(State.REVIEW)
        assert [(row.url, row.reason, row.admitted_us) for row in review] == [(other.url, "clash", 2)]
        assert [claim.url for claim in await claimed(store, 5, limit=9)] == [first.url]
        await check_counters(store)

    run(rig, scenario)


def test_a_parked_candidate_has_a_row_with_its_rule_and_no_due_entry(rig: StoreRig) -> None:
    """What a rule holds back is visible with that rule, and waits for an operator."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1, parked="host_cap")], now_us=1)
        row = await store.row(fp(1))
        assert row is not None
        assert (row.state, row.reason) == (State.PARKED, "host_cap")
        assert await store.queues() == []
        assert await claimed(store, 10**15) == []
        await check_counters(store)

    run(rig, scenario)


def test_rejected_links_are_counted_and_the_first_samples_kept(rig: StoreRig) -> None:
    """Counts add up per host and rule; ten samples are kept, one a record, the count on the first."""

    async def scenario(store: UrlStore) -> None:
        rejects = [Reject(host="x.example", rule="scope", count=2, sample=f"https://x.example/{i}") for i in range(15)]
        await store.count_rejects(rejects[:8])
        await store.count_rejects(rejects[8:])
        await store.count_rejects([Reject(host="x.example", rule="trap", count=5, sample="")])
        await store.count_rejects([])
        scope = [one for one in await store.rejects() if one.rule == "scope"]
        assert [one.count for one in scope] == [30] + [0] * 9
        assert [one.sample for one in scope] == [f"https://x.example/{i}" for i in range(10)]
        trap = [one for one in await store.rejects() if one.rule == "trap"]
        assert trap == [Reject(host="x.example", rule="trap", count=5, sample="")]
        await check_counters(store)

    run(rig, scenario)


def test_seeds_are_remembered_once(rig: StoreRig) -> None:
    """Adding a seed again changes nothing."""

    async def scenario(store: UrlStore) -> list[str]:
        for url in (f"{A}/", f"{B}/", f"{A}/"):
            await store.add_seed(url)
        return await store.seeds()

    assert run(rig, scenario) == [f"{A}/", f"{B}/"]


# -- claims ------------------------------------------------------------------------------------------------------------
def test_queues_show_the_earliest_entry_of_each_authority_now_or_later(rig: StoreRig) -> None:
    """A queue appears with its first entry and disappears with its last; authorities of one host are apart."""

    async def scenario(store: UrlStore) -> None:
        assert await store.queues() == []
        other_port = f"{A}:8443"
        await store.admit(
            [candidate(1, due_us=30), candidate(2, due_us=20), candidate(3, other_port, due_us=5)], now_us=1
        )
        assert {(q.authority, q.host, q.due_us) for q in await store.queues()} == {
            (A, "a.example", 20),
            (other_port, "a.example", 5),
        }
        assert {(q.authority, q.host, q.due_us) for q in await store.queues_of("a.example")} == {
            (A, "a.example", 20),
            (other_port, "a.example", 5),
        }
        assert await store.queues_of("b.example") == []
        assert {queue.authority for queue in await store.begin()} | {A, other_port} == {A, other_port}
        await claimed(store, 25)
        assert {(q.authority, q.due_us) for q in await store.queues()} == {(A, 30), (other_port, 5)}
        await claimed(store, 30)
        await claimed(store, 30, authority=other_port)
        assert await store.queues() == []

    run(rig, scenario)


def test_what_woke_up_has_an_entry(rig: StoreRig) -> None:
    """Nobody is sent to a queue in which nothing waits; who asks again is not told the same twice."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1, due_us=5), candidate(2, B, due_us=6)], now_us=7)
        assert {queue.authority for queue in await store.woken()} <= {A, B}
        assert await store.woken() == []

    run(rig, scenario)


def test_a_claim_leases_what_is_due_of_one_authority_up_to_its_limit(rig: StoreRig) -> None:
    """Only due URLs of that authority, earliest first, each under a token of its own, leased and marked as ours."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(n, due_us=100 - n) for n in range(5)], now_us=1)
        await store.admit([candidate(9, B)], now_us=1)
        claims = await claimed(store, 98, limit=2, lease_us=500)
        assert [claim.url for claim in claims] == [f"{A}/4", f"{A}/3"]
        assert len({claim.token for claim in claims}) == 2
        assert all(len(claim.token) >= 16 and claim.lease_us == 500 and not claim.alone for claim in claims)
        row = await store.row(claims[0].fp)
        assert row is not None
        assert (row.state, row.token, row.lease_us, row.holder) == (State.LEASED, claims[0].token, 500, "incarnation")
        assert [claim.url for claim in await claimed(store, 98, limit=9)] == [f"{A}/2"]
        assert await claimed(store, 98, limit=9) == []
        assert await claimed(store, 98, limit=9, authority="https://never.example") == []
        await check_counters(store)
        await check_due_index(store)

    run(rig, scenario)


def test_a_url_is_never_claimed_twice(rig: StoreRig) -> None:
    """Claims made at the same time share nothing."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(n) for n in range(20)], now_us=1)
        found = await asyncio.gather(*(claimed(store, 5, limit=7) for _ in range(4)))
        urls = [claim.url for claims in found for claim in claims]
        assert len(urls) == len(set(urls)) == 20

    run(rig, scenario)


def test_lane_soon_is_claimed_before_what_is_new(rig: StoreRig) -> None:
    """A retry goes before URLs that have been due for longer."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1)], now_us=1)
        await store.complete(retried(await claim_one(store, 5), 6, due_us=50))
        await store.admit([candidate(2), candidate(3)], now_us=7)
        assert [claim.url for claim in await claimed(store, 49, limit=1)] == [f"{A}/2"]
        claims = await claimed(store, 50, limit=5)
        assert [(claim.url, claim.failures) for claim in claims] == [(f"{A}/1", 1), (f"{A}/3", 0)]

    run(rig, scenario)


def test_a_fetched_url_is_claimed_again_at_its_due_time(rig: StoreRig) -> None:
    """A recrawl is a claim straight from `fetched`; without a due time there is none."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1), candidate(2, B)], now_us=1)
        await store.complete(fetched(await claim_one(store, 5), 6, due_us=1000))
        await store.complete(fetched(await claim_one(store, 5, B), 6))
        assert await claimed(store, 999) == []
        again = await claim_one(store, 1000)
        assert (again.latest_us, again.due_us) == (6, 1000)
        assert await claimed(store, 10**15, authority=B) == []
        assert await store.complete(fetched(again, 1001)) is True
        assert [one.fetched_us for one in await store.outcomes(fp(1))] == [6, 1001]
        await check_counters(store)

    run(rig, scenario)


def test_a_lease_is_renewed_only_while_it_is_ours(rig: StoreRig) -> None:
    """A live lease is extended; one that ran out, was handed back or belongs to another is not."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(n) for n in range(3)], now_us=1)
        live, back, over = await claimed(store, 10, limit=3, lease_us=100)
        await store.hand_back([back], 0, now_us=20)
        assert await store.renew([live, back], 50, 200) == [True, False]
        assert await store.renew([over], 100, 200) == [False]
        row = await store.row(live.fp)
        assert row is not None
        assert row.lease_us == 200
        assert await store.renew([live], 60, 150) == [True]
        row = await store.row(live.fp)
        assert row is not None
        assert row.lease_us == 200
        assert await store.complete(fetched(live, 199)) is True

    run(rig, scenario)


@pytest.mark.parametrize(("due_us", "expected"), [(0, 40), (90, 90)])
def test_handing_back_costs_the_url_nothing(rig: StoreRig, due_us: int, expected: int) -> None:
    """The URL is due as it was, or at the time given, with all its counts; a stale hand-back changes nothing."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1, due_us=40)], now_us=1)
        before = await store.row(fp(1))
        claim = await claim_one(store, 45)
        await store.hand_back([claim], due_us, now_us=46)
        after = await store.row(fp(1))
        assert before is not None
        assert after == UrlRow(**{**fields(before), "due_us": expected})
        assert await claimed(store, expected - 1) == []
        again = await claim_one(store, expected)
        await store.hand_back([claim], 1, now_us=47)
        row = await store.row(fp(1))
        assert row is not None
        assert (row.state, row.token) == (State.LEASED, again.token)
        await check_counters(store)

    run(rig, scenario)


def test_an_interrupted_url_that_is_handed_back_stays_soon_and_alone(rig: StoreRig) -> None:
    """Handing back neither adds to the interruptions nor forgives them."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1)], now_us=1)
        await interrupt(store, 10)
        claim = await claim_one(store, 20)
        assert (claim.alone, claim.interruptions) == (True, 1)
        await store.hand_back([claim], 0, now_us=21)
        await store.admit([candidate(2)], now_us=22)
        again = await claimed(store, 30, limit=5)
        assert [(one.url, one.alone, one.interruptions) for one in again] == [(f"{A}/1", True, 1)]

    run(rig, scenario)

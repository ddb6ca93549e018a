"""The contract of the urlstore port, held against every adapter."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from contract.stores import (
    LEASE_US,
    POISON,
    SERVED,
    STORES,
    A,
    B,
    CassandraRig,
    StoreRig,
    candidate,
    check_counters,
    check_due_index,
    claim_one,
    claimed,
    fetched,
    fp,
    interrupt,
    job,
    outcome,
    output,
    retried,
    run,
    settle,
)
from limpet.model.lifecycle import IllegalTransitionError, State
from limpet.segments import Location
from limpet.urlstore import (
    AdmitResult,
    AuthorityRow,
    Completion,
    HostRow,
    Reject,
    RepairItem,
    UrlRow,
    UrlStore,
)


@pytest.fixture(params=[*sorted(STORES), pytest.param(SERVED, marks=pytest.mark.servers)])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> StoreRig:
    """One adapter."""
    if request.param == SERVED:
        return CassandraRig(request.getfixturevalue("cassandra_crawl"))
    return STORES[request.param](tmp_path)


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
        assert after == UrlRow(**{**_fields(before), "due_us": expected})
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


# -- completion --------------------------------------------------------------------------------------------------------
ENDS: list[tuple[State, dict[str, Any]]] = [
    (State.FETCHED, {"due_us": 0}),
    (State.FETCHED, {"due_us": 900}),
    (State.GONE, {"reason": "http_404"}),
    (State.DENIED, {"reason": "robots", "outcome": None}),
    (State.FAILED, {"reason": "refused", "outcome": None}),
    (State.REVIEW, {"reason": "bad_data"}),
    (State.DUE, {"due_us": 800, "failures": 2, "reason": "connect"}),
]


@pytest.mark.parametrize(("state", "changes"), ENDS, ids=lambda value: str(value)[:40])
def test_a_completion_ends_the_claim_in_one_write(rig: StoreRig, state: State, changes: dict[str, Any]) -> None:
    """Outcome, state, reason, due time and counts are as given; the lease is gone; counters follow."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1)], now_us=1)
        claim = await claim_one(store, 10)
        status = {State.FETCHED: 200, State.GONE: 404}.get(state, 500)
        end = fetched(claim, 20, state=state, **({"outcome": outcome(claim, 15, status=status)} | changes))
        assert await store.complete(end) is True
        row = await store.row(claim.fp)
        assert row is not None
        assert (row.state, row.reason, row.due_us) == (state, changes.get("reason", ""), changes.get("due_us", 0))
        assert (row.failures, row.token, row.lease_us, row.holder) == (changes.get("failures", 0), b"", 0, "")
        stored = [end.outcome] if end.outcome else []
        assert await store.outcomes(claim.fp) == stored == await store.all_outcomes()
        assert row.latest_us == (15 if stored else 0)
        assert await store.has_outcome(claim.fp, 15) is bool(stored)
        assert await store.has_outcome(claim.fp, 16) is False
        assert (await store.counters())["completions"] == 1
        await check_counters(store)
        await check_due_index(store)

    run(rig, scenario)


def test_a_completion_after_the_lease_ran_out_changes_nothing(rig: StoreRig) -> None:
    """At the moment the lease ends it is over, whether or not anybody noticed: zero rows change, and it is counted."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1)], now_us=1)
        claim = await claim_one(store, 10)
        before = await _snapshot(store)
        assert await store.complete(fetched(claim, 10 + LEASE_US)) is False
        assert await _snapshot(store) == before
        assert (await store.counters())["late_completions"] == 1
        await store.expire(10 + LEASE_US, dead=False, poison_after=POISON)
        before = await _snapshot(store)
        assert await store.complete(fetched(claim, 20)) is False
        assert await _snapshot(store) == before
        await check_counters(store)
        await check_due_index(store)

    run(rig, scenario)


def test_a_stale_owner_cannot_complete_what_another_has_claimed(rig: StoreRig) -> None:
    """The token decides: the old owner's completion, renewal and hand-back change nothing, the new owner's hold."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1)], now_us=1)
        old = await claim_one(store, 10)
        await store.expire(20, dead=True, poison_after=POISON)
        new = await claim_one(store, 30)
        assert new.token != old.token
        before = await _snapshot(store)
        assert await store.complete(fetched(old, 31)) is False
        assert await store.renew([old], 31, 10**9) == [False]
        await store.hand_back([old], 0, now_us=31)
        assert await _snapshot(store) == before
        assert await store.complete(fetched(new, 32)) is True
        await check_counters(store)

    run(rig, scenario)


def test_a_replayed_completion_changes_nothing(rig: StoreRig) -> None:
    """The same completion again finds its guard gone; the outcome is there once."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1)], now_us=1)
        end = fetched(await claim_one(store, 10), 20, due_us=500)
        assert await store.complete(end) is True
        before = await _snapshot(store)
        assert await store.complete(end) is False
        assert await _snapshot(store) == before
        assert list(await asyncio.gather(store.complete(end), store.complete(end))) == [False, False]
        assert len(await store.all_outcomes()) == 1
        await check_counters(store)

    run(rig, scenario)


def test_a_host_row_is_stored_whatever_the_guard_says(rig: StoreRig) -> None:
    """What the site asked of us must be remembered even when the claim was lost; the count of URLs is the store's."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1), candidate(2)], now_us=1)
        claim = await claim_one(store, 10)
        row = HostRow(host="a.example", wait_us=999, wait_reason="retry_after", response_us=5, failing=3, urls=77)
        assert await store.complete(fetched(claim, 10 + LEASE_US), row) is False
        assert await store.host("a.example") == HostRow(**{**_fields(row), "urls": 2})
        assert await store.complete(fetched(claim, 20), HostRow(host="a.example", response_us=6)) is True
        assert await store.host("a.example") == HostRow(host="a.example", response_us=6, urls=2)

    run(rig, scenario)


@pytest.mark.parametrize("state", [State.LEASED, State.PARKED, State.CANCELLED])
def test_a_completion_that_the_life_cycle_does_not_hold_is_refused_whole(rig: StoreRig, state: State) -> None:
    """An illegal transition raises and nothing of it is written; other writes of the moment are."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1)], now_us=1)
        claim = await claim_one(store, 10)
        before = await _snapshot(store)
        bad = store.complete(fetched(claim, 20, state=state), HostRow(host="a.example", wait_us=5))
        answers = await asyncio.gather(bad, store.add_seed("https://seed.example/"), return_exceptions=True)
        assert isinstance(answers[0], IllegalTransitionError)
        assert await _snapshot(store) == before
        assert await store.seeds() == ["https://seed.example/"]
        assert await store.complete(fetched(claim, 21)) is True

    run(rig, scenario)


def test_success_forgives_failures_and_interruptions(rig: StoreRig) -> None:
    """A fetched or gone URL starts anew at its next claim."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1)], now_us=1)
        await interrupt(store, 10)
        await store.complete(retried(await claim_one(store, 20), 21, due_us=30, failures=2))
        claim = await claim_one(store, 30)
        assert (claim.failures, claim.interruptions, claim.alone) == (2, 1, True)
        await store.complete(fetched(claim, 31, due_us=40, failures=2))
        claim = await claim_one(store, 40)
        assert (claim.failures, claim.interruptions, claim.alone) == (0, 0, False)

    run(rig, scenario)


# -- robots ------------------------------------------------------------------------------------------------------------
def test_denied_rows_become_due_when_their_authority_changes_its_mind(rig: StoreRig) -> None:
    """All denied rows of that authority and no other row."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1), candidate(2), candidate(3), candidate(4, B)], now_us=1)
        for authority, count in ((A, 2), (B, 1)):
            for claim in await claimed(store, 10, limit=count, authority=authority):
                await store.complete(Completion(claim=claim, state=State.DENIED, now_us=11, reason="robots"))
        assert await store.rearm_denied(A, 50) == 2
        assert await store.rearm_denied(A, 51) == 0
        assert await store.rearm_denied("https://never.example", 51) == 0
        assert len(await store.rows(State.DENIED)) == 1
        assert len(await claimed(store, 50, limit=9)) == 3
        await check_counters(store)
        await check_due_index(store)

    run(rig, scenario)


def test_rows_that_waited_in_vain_become_failed(rig: StoreRig) -> None:
    """Every due row of the authority, now or later, and a notice; what is leased or already fetched stays."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(n, due_us=10 * n) for n in range(1, 5)] + [candidate(9, B)], now_us=1)
        await store.complete(fetched(await claim_one(store, 10), 11, due_us=5000))
        leased = await claim_one(store, 20)
        assert await store.wait_out(A, "robots_unreachable", 100) == 2
        assert await store.wait_out(A, "robots_unreachable", 100) == 0
        failed = await store.rows(State.FAILED)
        assert {row.url for row in failed} == {f"{A}/3", f"{A}/4"}
        assert {row.reason for row in failed} == {"robots_unreachable"}
        assert [(n.kind, n.host, n.reason, n.count) for n in await store.notices()] == [
            ("failed", "a.example", "robots_unreachable", 2)
        ]
        assert await store.complete(fetched(leased, 101)) is True
        await check_counters(store)
        await check_due_index(store)

    run(rig, scenario)


# -- politeness state --------------------------------------------------------------------------------------------------
def test_hosts_are_stored_and_count_their_rows(rig: StoreRig) -> None:
    """A host is known from its first row or its first put; `urls` counts rows of all its authorities."""

    async def scenario(store: UrlStore) -> None:
        assert await store.host("a.example") is None
        row = HostRow(host="c.example", wait_us=5, wait_reason="breaker", response_us=6, failing=7)
        await store.put_host(row)
        await store.admit([candidate(1), candidate(2, "http://a.example"), candidate(1)], now_us=1)
        assert await store.host("a.example") == HostRow(host="a.example", urls=2)
        assert await store.host("c.example") == row
        assert sorted(one.host for one in await store.hosts()) == ["a.example", "c.example"]

    run(rig, scenario)


def test_authorities_are_stored(rig: StoreRig) -> None:
    """Robots state survives as it was put, for an authority with or without rows."""

    async def scenario(store: UrlStore) -> None:
        assert await store.authority(A) is None
        row = AuthorityRow(
            authority=A, host="a.example", robots=b"\x00state", robots_digest="d", wait_us=9, wait_reason="w"
        )
        await store.put_authority(row)
        assert await store.authority(A) == row
        await store.admit([candidate(1)], now_us=1)
        assert await store.authority(A) == row
        changed = AuthorityRow(authority=A, host="a.example", robots=b"new")
        await store.put_authority(changed)
        assert await store.authority(A) == changed
        await store.admit([candidate(2, B)], now_us=1)
        assert await store.authority(B) == AuthorityRow(authority=B, host="b.example")

    run(rig, scenario)


# -- recovery ----------------------------------------------------------------------------------------------------------
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
        before = await _snapshot(store)
        assert await store.adopt(orphan, State.FETCHED, "", 31) is False
        assert await _snapshot(store) == before
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


# -- parse -------------------------------------------------------------------------------------------------------------
def test_an_output_is_accepted_once_per_document_and_parser_version(rig: StoreRig) -> None:
    """Zero rows means that somebody was first; the first one stays as it was."""

    async def scenario(store: UrlStore) -> None:
        first = output(1, 10, links=5, positions=((3, 0, 17), (4, 1, 18)), flags=("noarchive",))
        assert await store.accept_outputs([first, output(1, 10, links=9)]) == [True, False]
        assert await store.accept_outputs([output(1, 10), output(1, 11), output(1, 10, parser_version=2)]) == [
            False,
            True,
            True,
        ]
        assert await store.output(fp(1), 10, 1) == first
        assert await store.output(fp(1), 12, 1) is None
        assert (await store.counters())["outputs"] == 3

    run(rig, scenario)


def test_a_job_is_stored_and_replaced_only_by_a_later_attempt(rig: StoreRig) -> None:
    """A replay of an earlier attempt cannot set a job back."""

    async def scenario(store: UrlStore) -> None:
        await store.put_job(job(1, 10, attempt=2, due_us=50))
        await store.put_job(job(1, 10, attempt=1, due_us=1))
        await store.put_job(job(1, 10, attempt=2, due_us=2))
        assert await store.jobs() == [job(1, 10, attempt=2, due_us=50)]
        await store.put_job(job(1, 10, attempt=3, due_us=60, state="review", reason="poison"))
        assert await store.jobs() == [job(1, 10, attempt=3, due_us=60, state="review", reason="poison")]
        assert await store.claim_jobs(limit=9, now_us=100, lease_us=200) == []
        await check_counters(store)

    run(rig, scenario)


def test_a_job_is_claimed_when_eligible_under_a_token(rig: StoreRig) -> None:
    """Earliest first, up to the limit, never twice while its lease runs; then again, with one attempt more."""

    async def scenario(store: UrlStore) -> None:
        for number in range(3):
            await store.put_job(job(number, 10, due_us=10 * number))
        assert [one.fp for one in await store.claim_jobs(limit=1, now_us=10, lease_us=100)] == [fp(0)]
        second = await store.claim_jobs(limit=9, now_us=10, lease_us=100)
        assert [(one.fp, one.attempt, one.lease_us) for one in second] == [(fp(1), 1, 100)]
        assert await store.claim_jobs(limit=9, now_us=10, lease_us=100) == []
        again = await store.claim_jobs(limit=9, now_us=100, lease_us=200)
        assert {(one.fp, one.attempt) for one in again} == {(fp(0), 2), (fp(1), 2), (fp(2), 1)}
        assert len({one.token for one in [*second, *again]}) == 4
        await check_counters(store)

    run(rig, scenario)


def test_a_job_ends_in_the_write_that_accepts_its_output(rig: StoreRig) -> None:
    """Only under the token that holds it; a stale holder's acceptance changes nothing."""

    async def scenario(store: UrlStore) -> None:
        await store.put_job(job(1, 10))
        (stale,) = await store.claim_jobs(limit=1, now_us=10, lease_us=20)
        (held,) = await store.claim_jobs(limit=1, now_us=20, lease_us=90)
        assert await store.accept_outputs([output(1, 10)], job=stale) == [False]
        assert await store.accept_outputs([output(1, 10)], job=job(1, 10)) == [False]
        assert await store.output(fp(1), 10, 1) is None
        assert await store.jobs() == [held]
        assert await store.accept_outputs([output(1, 10)], job=held) == [True]
        assert await store.jobs() == []
        assert await store.accept_outputs([output(1, 10)], job=held) == [False]
        await check_counters(store)

    run(rig, scenario)


def test_a_job_ends_even_when_its_output_was_there(rig: StoreRig) -> None:
    """Somebody else parsed the document meanwhile: there is nothing left to do."""

    async def scenario(store: UrlStore) -> None:
        await store.put_job(job(1, 10))
        (held,) = await store.claim_jobs(limit=1, now_us=10, lease_us=90)
        await store.accept_outputs([output(1, 10)])
        assert await store.accept_outputs([output(1, 10)], job=held) == [False]
        assert await store.jobs() == []
        await check_counters(store)

    run(rig, scenario)


def test_a_shorter_way_moves_a_row_and_what_went_out_with_a_longer_one_is_named(rig: StoreRig) -> None:
    """Least depth wins, whatever the order; `NEARER` is said until an output carries the new depth, and not before."""

    async def scenario(store: UrlStore) -> None:
        far, near = candidate(1, depth=3, hops="LLL", via=fp(7)), candidate(1, depth=2, hops="LL", via=fp(8))
        assert await store.admit([far], 1) == [AdmitResult.NEW]
        assert await store.accept_outputs([output(1, 10, depth=3)]) == [True]
        assert await store.admit([candidate(1, depth=4), far], 2) == [AdmitResult.KNOWN, AdmitResult.KNOWN]
        assert await store.admit([near, near], 3) == [AdmitResult.NEARER, AdmitResult.NEARER]
        assert await store.admit([far], 4) == [AdmitResult.KNOWN]
        row = await store.row(fp(1))
        assert row is not None
        assert (row.depth, row.hops, row.via) == (2, "LL", fp(8))
        assert await store.accept_outputs([output(1, 10, depth=2, links=3)]) == [True]
        assert [one.depth for one in await store.outputs(fp(1))] == [2]
        assert await store.admit([near], 5) == [AdmitResult.KNOWN]
        assert (await store.counters())["outputs"] == 1
        await check_counters(store)

    run(rig, scenario)


def test_links_that_carry_an_outdated_depth_are_not_accepted(rig: StoreRig) -> None:
    """The row came nearer while its document was parsed: the attempt does not count, and its job stays open."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1, depth=2)], 1)
        assert await store.accept_outputs([output(1, 10, depth=3)]) == [False]
        assert await store.outputs(fp(1)) == []
        await store.put_job(job(1, 10))
        (held,) = await store.claim_jobs(limit=1, now_us=10, lease_us=90)
        assert await store.accept_outputs([output(1, 10, depth=3)], job=held) == [False]
        (again,) = await store.claim_jobs(limit=1, now_us=11, lease_us=90)
        assert again.attempt == held.attempt
        assert await store.accept_outputs([output(1, 10, depth=2)], job=again) == [True]
        assert await store.jobs() == []
        await check_counters(store)

    run(rig, scenario)


def test_a_dead_owner_lets_go_of_its_jobs(rig: StoreRig) -> None:
    """Recovery ends leases of jobs as well: the next owner need not wait for them, and the attempt is used up."""

    async def scenario(store: UrlStore) -> None:
        await store.put_job(job(1, 10))
        (held,) = await store.claim_jobs(limit=1, now_us=10, lease_us=1_000)
        await store.expire(20, dead=False, poison_after=POISON)
        assert await store.claim_jobs(limit=1, now_us=20, lease_us=1_000) == []
        await store.expire(20, dead=True, poison_after=POISON)
        (again,) = await store.claim_jobs(limit=1, now_us=20, lease_us=1_000)
        assert (again.fp, again.attempt) == (held.fp, held.attempt + 1)
        assert await store.accept_outputs([output(1, 10)], job=held) == [False]

    run(rig, scenario)


def test_jobs_in_review_can_be_opened_again(rig: StoreRig) -> None:
    """An operator's retry gives them all later attempts again; open jobs are left alone."""

    async def scenario(store: UrlStore) -> None:
        await store.put_job(job(1, 10, attempt=4, state="review"))
        await store.put_job(job(2, 20, attempt=3))
        assert await store.rearm_jobs(50) == 1
        await check_counters(store)
        found = {one.fp: (one.state, one.attempt, one.due_us) for one in await store.jobs()}
        assert found[fp(1)] == ("open", 2, 50)
        assert found[fp(2)][:2] == ("open", 3)
        assert await store.rearm_jobs(60) == 0

    run(rig, scenario)


def test_the_holder_of_a_job_puts_it_back_under_its_token_only(rig: StoreRig) -> None:
    """A failed attempt reschedules its job, which is then free to be claimed; a stale holder cannot."""

    async def scenario(store: UrlStore) -> None:
        await store.put_job(job(1, 10))
        (held,) = await store.claim_jobs(limit=1, now_us=10, lease_us=1000)
        await store.put_job(job(1, 10, attempt=7, token=b"not this one", due_us=5))
        assert await store.jobs() == [held]
        await store.put_job(job(1, 10, attempt=2, token=held.token, due_us=50, reason="again"))
        assert await store.jobs() == [job(1, 10, attempt=2, due_us=50, reason="again")]
        assert await store.claim_jobs(limit=1, now_us=49, lease_us=1000) == []
        (again,) = await store.claim_jobs(limit=1, now_us=50, lease_us=1000)
        assert again.attempt == 2
        await store.put_job(job(1, 10, attempt=2, token=again.token, state="review"))
        assert [one.state for one in await store.jobs()] == ["review"]
        await store.put_job(job(2, 10, token=b"no such job"))
        assert len(await store.jobs()) == 1
        await check_counters(store)

    run(rig, scenario)


def test_a_job_of_another_state_is_refused(rig: StoreRig) -> None:
    """A job is open or in review."""

    async def scenario(store: UrlStore) -> None:
        with pytest.raises(ValueError, match="open or in review"):
            await store.put_job(job(1, 10, state="done"))
        assert await store.jobs() == []

    run(rig, scenario)


def test_unparsed_lists_fetched_outcomes_with_neither_output_nor_job(rig: StoreRig) -> None:
    """In the order of completion, only those old enough, only up to the limit, per parser version."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(n) for n in range(8)], now_us=1)
        for n, claim in enumerate(await claimed(store, 10, limit=8)):
            state = State.GONE if n == 7 else State.FETCHED
            await store.complete(fetched(claim, 20 + n, state=state))
        await store.adopt(outcome(candidate(7), 90), State.FETCHED, "", 91)
        await store.accept_outputs([output(0, 20), output(2, 22)])
        await store.put_job(job(3, 23))
        await settle(store)
        found = await store.unparsed(1, before_us=26, limit=9)
        assert [one.fp for one in found] == [fp(1), fp(4), fp(5)]
        assert [one.fp for one in await store.unparsed(1, before_us=10**9, limit=2)] == [fp(1), fp(4)]
        await store.accept_outputs([output(1, 21), output(4, 24)])
        assert [one.fp for one in await store.unparsed(1, before_us=10**9, limit=9)] == [fp(5), fp(6), fp(7)]
        assert len(await store.unparsed(2, before_us=10**9, limit=99)) == 7
        await store.accept_outputs([output(5, 25), output(6, 26), output(7, 90)])
        assert await store.unparsed(1, before_us=10**9, limit=9) == []
        assert len(await store.unparsed(2, before_us=10**9, limit=99)) == 7

    run(rig, scenario)


# -- repair, notices, operator -----------------------------------------------------------------------------------------
def test_a_repair_item_is_open_once_until_closed(rig: StoreRig) -> None:
    """Its age is that of the first finding; closing what is not open changes nothing."""

    async def scenario(store: UrlStore) -> None:
        first = RepairItem(kind="due", subject="s", detail="d", created_us=50)
        older = RepairItem(kind="seen", subject="s", detail="d", created_us=40)
        await store.put_repair(first)
        await store.put_repair(RepairItem(kind="due", subject="s", detail="other", created_us=60))
        await store.put_repair(older)
        assert await store.repairs() == [older, first]
        await check_counters(store)
        await store.close_repair("due", "s")
        await store.close_repair("due", "s")
        assert await store.repairs() == [older]
        await check_counters(store)
        await store.put_repair(first)
        assert await store.repairs() == [older, first]
        await check_counters(store)

    run(rig, scenario)


def test_notices_gather_until_delivered(rig: StoreRig) -> None:
    """One notice per kind, host and reason; delivery takes off what it showed and no more."""

    async def scenario(store: UrlStore) -> None:
        await store.notify("failed", "a.example", "tls", "https://a.example/1", 10)
        await store.notify("failed", "a.example", "tls", "https://a.example/2", 20, count=4)
        await store.notify("failed", "b.example", "tls", "https://b.example/", 30)
        shown = await store.notices()
        assert [(n.host, n.count, n.sample, n.first_us, n.last_us) for n in shown] == [
            ("a.example", 5, "https://a.example/1", 10, 20),
            ("b.example", 1, "https://b.example/", 30, 30),
        ]
        await store.notify("failed", "a.example", "tls", "https://a.example/3", 40, count=2)
        await store.delivered(shown)
        await store.delivered([])
        assert [(n.host, n.count) for n in await store.notices()] == [("a.example", 2)]
        await store.delivered(await store.notices())
        assert await store.notices() == []
        await store.notify("failed", "a.example", "tls", "https://a.example/4", 50)
        (anew,) = await store.notices()
        assert (anew.count, anew.sample) == (1, "https://a.example/4")
        await store.delivered(shown)
        assert await store.notices() == [anew]

    run(rig, scenario)


def test_an_operator_takes_a_host_out_and_puts_it_back(rig: StoreRig) -> None:
    """Due and leased rows are cancelled with the reason, a piece at a time and no other host's; leases end at once."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(n) for n in range(6)] + [candidate(9, B)], now_us=1)
        done, held, _ = await claimed(store, 5, limit=3)
        assert await store.complete(fetched(done, 6)) is True
        assert await store.cancelled_hosts("operator") == []
        assert [await store.cancel("a.example", "operator", 10, 2) for _ in range(4)] == [2, 2, 1, 0]
        rows = await store.rows(State.CANCELLED)
        assert len(rows) == 5
        assert {(row.host, row.reason, row.due_us, row.token) for row in rows} == {("a.example", "operator", 0, b"")}
        assert await store.leased_hosts() == []
        assert await store.complete(fetched(held, 11)) is False
        assert await store.renew([held], 11, 900) == [False]
        await store.hand_back([held], 0, 11)
        assert await store.outcomes(held.fp) == []
        assert [queue.authority for queue in await store.queues()] == [B]
        assert await claimed(store, 20, limit=9) == []
        assert await store.cancelled_hosts("operator") == ["a.example"]
        assert await store.cancelled_hosts("another") == []
        await check_counters(store)
        await check_due_index(store)
        assert await store.uncancel("a.example", "another", 30, 9) == 0
        assert [await store.uncancel("a.example", "operator", 30, 3) for _ in range(3)] == [3, 2, 0]
        assert {row.due_us for row in await store.rows(State.DUE) if row.host == "a.example"} == {30}
        assert await store.cancelled_hosts("operator") == []
        assert len(await claimed(store, 40, limit=9)) == 5
        await check_counters(store)
        await check_due_index(store)

    run(rig, scenario)


def test_leases_end_before_what_is_due_is_cancelled(rig: StoreRig) -> None:
    """What somebody is about to send comes first."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(n) for n in range(4)], now_us=1)
        claim = await claim_one(store, 5)
        assert await store.cancel("a.example", "operator", 10, 1) == 1
        assert [row.fp for row in await store.rows(State.CANCELLED)] == [claim.fp]

    run(rig, scenario)


def test_cancelling_survives_a_death(rig: StoreRig) -> None:
    """It is durable before it is answered; and a host that was never met has nothing to cancel."""

    async def scenario() -> None:
        store = await rig.open()
        await store.admit([candidate(1), candidate(2)], now_us=1)
        assert await store.cancel("a.example", "operator", 10, 9) == 2
        assert await store.cancel("never.example", "operator", 10, 9) == 0
        await rig.kill()
        store = await rig.open()
        assert len(await store.rows(State.CANCELLED)) == 2
        assert await store.queues() == []
        await check_counters(store)
        await rig.close()

    asyncio.run(scenario())


def test_a_url_may_be_born_cancelled(rig: StoreRig) -> None:
    """It has its row and is never due; whoever cancelled it may put it back."""

    async def scenario(store: UrlStore) -> None:
        one = candidate(1, cancelled="operator", parked="host_cap")
        assert await store.admit([one], now_us=1) == [AdmitResult.NEW]
        row = await store.row(one.fp)
        assert row is not None
        assert (row.state, row.reason) == (State.CANCELLED, "operator")
        assert await store.queues() == []
        await check_counters(store)
        assert await store.uncancel("a.example", "operator", 7, 9) == 1
        assert (await claim_one(store, 8)).fp == one.fp
        await check_counters(store)

    run(rig, scenario)


def test_an_orphan_of_a_cancelled_url_is_adopted(rig: StoreRig) -> None:
    """A request that was under way when its lease was ended has been answered: nobody needs to ask again."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1)], now_us=1)
        claim = await claim_one(store, 5)
        assert await store.cancel("a.example", "operator", 10, 9) == 1
        assert await store.adopt(outcome(claim, 6), State.FETCHED, "", 12) is True
        row = await store.row(claim.fp)
        assert row is not None
        assert (row.state, row.reason, row.latest_us) == (State.FETCHED, "", 6)
        assert await store.has_outcome(claim.fp, 6)
        assert await store.cancelled_hosts("operator") == []
        await check_counters(store)
        await check_due_index(store)

    run(rig, scenario)


def test_an_operator_rearms_what_is_out_of_the_queue(rig: StoreRig) -> None:
    """`failed`, `parked`, `review`, `gone` become due with counts cleared; due, leased, fetched, denied rows stay."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(n) for n in range(6)] + [candidate(6, parked="trap")], now_us=1)
        ends = [State.FAILED, State.REVIEW, State.GONE, State.FETCHED, State.DENIED]
        for claim, state in zip(await claimed(store, 10, limit=5), ends, strict=True):
            await store.complete(Completion(claim=claim, state=state, now_us=11, reason="r", failures=3))
        leased = await claim_one(store, 12)
        everything = [fp(n) for n in range(8)]
        assert await store.rearm(everything, 50) == 4
        assert await store.rearm(everything, 51) == 0
        rows = {row.fp: row for row in await store.rows()}
        for number in (0, 1, 2, 6):
            row = rows[fp(number)]
            assert (row.state, row.reason, row.failures, row.due_us) == (State.DUE, "", 0, 50)
        assert [rows[fp(number)].state for number in (3, 4, 5)] == [State.FETCHED, State.DENIED, State.LEASED]
        assert await store.complete(fetched(leased, 60)) is True
        await check_counters(store)
        await check_due_index(store)

    run(rig, scenario)


# -- durability --------------------------------------------------------------------------------------------------------
def test_what_was_acknowledged_survives_the_death_of_the_owner(rig: StoreRig) -> None:
    """Rows, leases, outcomes, outputs, jobs, hosts, notices, counters: all as the last answer left them."""

    async def main() -> None:
        store = await rig.open()
        await store.admit([candidate(n) for n in range(6)], now_us=1)
        claims = await claimed(store, 10, limit=3)
        await store.complete(fetched(claims[0], 20, due_us=700), HostRow(host="a.example", wait_us=5))
        await store.hand_back([claims[1]], 55, now_us=21)
        await store.accept_outputs([output(0, 20)])
        await store.put_job(job(1, 10))
        await store.add_seed(f"{A}/")
        await store.notify("k", "h", "r", "s", 1)
        await store.put_repair(RepairItem(kind="k", subject="s", detail="d", created_us=1))
        await store.put_authority(AuthorityRow(authority=A, host="a.example", robots=b"r"))
        before = await _everything(store)
        await rig.kill()
        store = await rig.open()
        assert await _everything(store) == before
        await check_counters(store)
        await check_due_index(store)
        assert await store.complete(fetched(claims[2], 30)) is True  # the lease outlives its holder
        await rig.close()

    asyncio.run(main())


def test_what_was_not_acknowledged_is_there_whole_or_not_at_all(rig: StoreRig) -> None:
    """Death under a write leaves no half of it: a row with its due entry, a completion with its outcome, or neither."""

    async def main() -> None:
        store = await rig.open()
        await store.admit([candidate(n) for n in range(3)], now_us=1)
        claims = await claimed(store, 10, limit=3)
        writes = [asyncio.ensure_future(store.complete(fetched(claim, 20, due_us=500))) for claim in claims]
        writes += [asyncio.ensure_future(_admitted(store, n)) for n in range(10, 14)]
        await asyncio.sleep(0)  # noqa: TID251 - they are queued, and nobody has heard an answer
        await rig.kill()
        answers = await asyncio.gather(*writes, return_exceptions=True)
        assert len(answers) == 7
        store = await rig.open()
        await check_counters(store)
        await check_due_index(store)
        for row in await store.rows():
            assert (row.state is State.FETCHED) == bool(await store.outcomes(row.fp))
        await rig.close()

    asyncio.run(main())


def test_a_killed_store_can_be_reopened_again_and_again(rig: StoreRig) -> None:
    """Each owner begins where the last one was acknowledged."""

    async def main() -> None:
        for life in range(5):
            store = await rig.open()
            assert len(await store.rows()) == life
            assert await store.admit([candidate(life)], now_us=life) == [AdmitResult.NEW]
            await rig.kill()
        store = await rig.open()
        await settle(store)
        assert (await store.counters())["admitted"] == 5
        await rig.close()

    asyncio.run(main())


def test_a_returned_write_is_visible_to_the_next_read(rig: StoreRig) -> None:
    """No reader sees less than what was answered, with many writers at work."""

    async def scenario(store: UrlStore) -> None:
        async def writer(number: int) -> None:
            await store.admit([candidate(number)], now_us=1)
            assert await store.row(fp(number)) is not None
            assert (await store.counters())["admitted"] >= 1

        await asyncio.gather(*(writer(number) for number in range(40)))
        assert (await store.counters())["admitted"] == 40

    run(rig, scenario)


async def _admitted(store: UrlStore, number: int) -> bool:
    return await store.admit([candidate(number)], now_us=1) == [AdmitResult.NEW]


def _fields(record: UrlRow | HostRow) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


async def _snapshot(store: UrlStore) -> tuple[object, ...]:
    """What a guarded write that lost its guard must leave alone."""
    return await store.rows(), await store.all_outcomes(), sorted(map(repr, await store.queues())), await store.jobs()


async def _everything(store: UrlStore) -> dict[str, object]:
    return {
        "rows": await store.rows(),
        "outcomes": await store.all_outcomes(),
        "queues": sorted(map(repr, await store.queues())),
        "jobs": await store.jobs(),
        "hosts": await store.hosts(),
        "authority": await store.authority(A),
        "seeds": await store.seeds(),
        "repairs": await store.repairs(),
        "notices": await store.notices(),
        "counters": await store.counters(),
        "output": await store.output(fp(0), 20, 1),
        "leased": await store.leased_hosts(),
    }

"""The contract of the urlstore port: how claims end, what robots and politeness must remember."""

import asyncio
from typing import Any

import pytest

from contract.storereads import fields, snapshot
from contract.stores import (
    LEASE_US,
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
    interrupt,
    outcome,
    retried,
    robots_fetch,
    run,
)
from limpet.model.lifecycle import IllegalTransitionError, State
from limpet.urlstore import (
    AuthorityRow,
    Completion,
    HostRow,
    UrlStore,
)

DAY_US = 86_400_000_000

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
        before = await snapshot(store)
        assert await store.complete(fetched(claim, 10 + LEASE_US)) is False
        assert await snapshot(store) == before
        assert (await store.counters())["late_completions"] == 1
        await store.expire(10 + LEASE_US, dead=False, poison_after=POISON)
        before = await snapshot(store)
        assert await store.complete(fetched(claim, 20)) is False
        assert await snapshot(store) == before
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
        before = await snapshot(store)
        assert await store.complete(fetched(old, 31)) is False
        assert await store.renew([old], 31, 10**9) == [False]
        await store.hand_back([old], 0, now_us=31)
        assert await snapshot(store) == before
        assert await store.complete(fetched(new, 32)) is True
        await check_counters(store)

    run(rig, scenario)


def test_a_replayed_completion_changes_nothing(rig: StoreRig) -> None:
    """The same completion again finds its guard gone; the outcome is there once."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1)], now_us=1)
        end = fetched(await claim_one(store, 10), 20, due_us=500)
        assert await store.complete(end) is True
        before = await snapshot(store)
        assert await store.complete(end) is False
        assert await snapshot(store) == before
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
        assert await store.host("a.example") == HostRow(**{**fields(row), "urls": 2})
        assert await store.complete(fetched(claim, 20), HostRow(host="a.example", response_us=6)) is True
        assert await store.host("a.example") == HostRow(host="a.example", response_us=6, urls=2)

    run(rig, scenario)


@pytest.mark.parametrize("state", [State.LEASED, State.PARKED, State.CANCELLED])
def test_a_completion_that_the_life_cycle_does_not_hold_is_refused_whole(rig: StoreRig, state: State) -> None:
    """An illegal transition raises and nothing of it is written; other writes of the moment are."""

    async def scenario(store: UrlStore) -> None:
        await store.admit([candidate(1)], now_us=1)
        claim = await claim_one(store, 10)
        before = await snapshot(store)
        bad = store.complete(fetched(claim, 20, state=state), HostRow(host="a.example", wait_us=5))
        answers = await asyncio.gather(bad, store.add_seed("https://seed.example/"), return_exceptions=True)
        assert isinstance(answers[0], IllegalTransitionError)
        assert await snapshot(store) == before
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


def test_requests_for_robots_are_kept_and_counted_once(rig: StoreRig) -> None:
    """By URL and time; each counts among the requests of its day, unless none went out."""

    async def scenario(store: UrlStore) -> None:
        first, second = robots_fetch(7 * DAY_US + 5), robots_fetch(7 * DAY_US + 5, "b.example")
        redirected = robots_fetch(8 * DAY_US, url=f"{A}/{'long' * 3000}")
        unsent = robots_fetch(8 * DAY_US + 1, status=0, failure="dns", location=None)
        for fetch in (redirected, second, first, unsent):
            assert await store.put_robots_fetch(fetch) is True
        assert await store.put_robots_fetch(first) is False
        assert await store.has_robots_fetch(first.outcome.url, 7 * DAY_US + 5) is True
        assert await store.has_robots_fetch(first.outcome.url, 7 * DAY_US + 6) is False
        found = await store.robots_fetches()
        assert sorted(found[:2], key=lambda one: one.outcome.url) == [first, second]
        assert found[2:] == [redirected, unsent]
        assert [await store.requests(day) for day in (6, 7, 8)] == [0, 2, 1]

    run(rig, scenario)

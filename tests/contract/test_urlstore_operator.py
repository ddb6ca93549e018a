"""The contract of the urlstore port: repair items, notices, and an operator's orders."""

import asyncio

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
    outcome,
    run,
)
from limpet.model.lifecycle import State
from limpet.urlstore import (
    AdmitResult,
    Completion,
    RepairItem,
    UrlStore,
)


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
        assert [await store.waits(host) for host in ("a.example", "b.example", "c.example")] == [True, True, False]
        assert [await store.cancel("a.example", "operator", 10, 2) for _ in range(4)] == [2, 2, 1, 0]
        rows = await store.rows(State.CANCELLED)
        assert len(rows) == 5
        assert {(row.host, row.reason, row.due_us, row.token) for row in rows} == {("a.example", "operator", 0, b"")}
        assert await store.leased_hosts() == []
        assert await store.waits("a.example") is False
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


def test_an_operator_takes_a_part_of_a_host_out_and_puts_it_back(rig: StoreRig) -> None:
    """What begins so, whatever the authority, due or leased; what another block still holds stays out."""

    async def scenario(store: UrlStore) -> None:
        port = f"{A}:8443"
        urls = [candidate(n) for n in (1, 10, 2, 20, 3)] + [candidate(11, port), candidate(12, B)]
        await store.admit(urls, now_us=1)
        assert len(await claimed(store, 5, limit=3)) == 3
        assert [await store.cancel("a.example", "operator", 10, 2, ["/1", "/20"]) for _ in range(3)] == [2, 2, 0]
        assert {row.url for row in await store.rows(State.CANCELLED)} == {f"{A}/1", f"{A}/10", f"{A}/20", f"{port}/11"}
        await check_counters(store)
        await check_due_index(store)
        assert [await store.uncancel("a.example", "operator", 30, 9, ["/10", "/2"]) for _ in range(2)] == [2, 0]
        assert {row.url for row in await store.rows(State.CANCELLED)} == {f"{A}/10", f"{A}/20"}
        assert await store.cancelled_hosts("operator") == ["a.example"]
        assert await store.uncancel("a.example", "operator", 30, 9) == 2
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

"""The contract of the urlstore port: what was acknowledged stays, whoever dies."""

import asyncio

from contract.stores import (
    A,
    StoreRig,
    candidate,
    check_counters,
    check_due_index,
    claimed,
    fetched,
    fp,
    job,
    output,
    robots_fetch,
    run,
    settle,
)
from limpet.model.lifecycle import State
from limpet.urlstore import (
    AdmitResult,
    AuthorityRow,
    HostRow,
    RepairItem,
    UrlStore,
)


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
        await store.put_robots_fetch(robots_fetch(15))
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
        "robots": await store.robots_fetches(),
        "requests": await store.requests(0),
    }

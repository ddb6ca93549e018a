"""The contract of the urlstore port: outputs of the parser, and its jobs."""

import pytest

from contract.stores import (
    POISON,
    StoreRig,
    candidate,
    check_counters,
    claimed,
    fetched,
    fp,
    job,
    outcome,
    output,
    run,
    settle,
)
from limpet.model.lifecycle import State
from limpet.urlstore import (
    AdmitResult,
    UrlStore,
)


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


def test_documents_are_found_by_where_their_links_went(rig: StoreRig) -> None:
    """Of one partition and log, from an offset to before another; more documents than a page of a listing holds."""

    async def scenario(store: UrlStore) -> None:
        outputs = [output(number, 10, positions=((3, 0, number), (4, 1, 7))) for number in range(1, 30)]
        await store.accept_outputs([*outputs, output(1, 11), output(1, 12, positions=((3, 1, 5), (2, 0, 5)))])
        assert sorted(await store.published(3, 0, 5, 8)) == sorted((fp(number), 10) for number in (5, 6, 7))
        assert sorted(await store.published(3, 1, 0, 9)) == [(fp(1), 12)]
        assert len(await store.published(4, 1, 7, 8)) == 29
        assert await store.published(4, 1, 8, 99) == []

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

"""The life of URLs against a model: any sequence of claims, completions, deaths and recoveries.

The model is a dict and knows nothing of tables. After every step each URL that was admitted has exactly one row in the
state the model says (no lost URL, no stale overwrite), each outcome is there once (no double acceptance), and counters
and due index equal a recount.
"""

import asyncio
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from contract.stores import (
    LEASE_US,
    POISON,
    A,
    B,
    SqliteRig,
    candidate,
    check_counters,
    check_due_index,
    fp,
    outcome,
)
from limpet.model.lifecycle import State
from limpet.urlstore import AdmitResult, Claim, Completion, UrlStore

T = TypeVar("T")
NUMBERS = st.integers(0, 11)
AUTHORITIES = {number: A if number % 2 else B for number in range(12)}


@dataclass(frozen=True)
class Url:
    """What the model knows of one URL."""

    state: State
    due_us: int = 0
    failures: int = 0
    interruptions: int = 0
    alone: bool = False
    token: bytes = b""
    lease_us: int = 0
    fetch_times: frozenset[int] = field(default_factory=frozenset)

    @property
    def claimable(self) -> bool:
        """Whether it has a due entry."""
        return self.state is State.DUE or (self.state is State.FETCHED and self.due_us > 0)

    def ended(self, **changes: Any) -> "Url":
        """Without its lease, and with these changes."""
        return replace(self, token=b"", lease_us=0, alone=False, **changes)


class Lives(RuleBasedStateMachine):
    """Time goes on by itself, one tick a step, so that every fetch time is unique."""

    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.rig = SqliteRig(Path(self.folder.name), threaded=False)
        self.store: UrlStore
        self.urls: dict[int, Url] = {}
        self.now_us = 1000

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run one call of the store."""
        return self.loop.run_until_complete(work)

    def tick(self) -> int:
        """The next moment."""
        self.now_us += 1
        return self.now_us

    @initialize()
    def open(self) -> None:
        """The first owner."""
        self.store = self.do(self.rig.open())

    def teardown(self) -> None:
        """The last owner."""
        self.do(self.rig.close())
        self.loop.close()
        self.folder.cleanup()

    # -- steps ---------------------------------------------------------------------------------------------------------
    @rule(
        numbers=st.lists(NUMBERS, max_size=6),
        wait_us=st.sampled_from([0, 0, 50]),
        parked=st.sampled_from(["", "", "cap"]),
        cancelled=st.sampled_from(["", "", "operator"]),
    )
    def admit(self, numbers: list[int], wait_us: int, parked: str, cancelled: str) -> None:
        """Links are found, old ones and new ones."""
        now_us = self.tick()
        due_us = now_us + wait_us if wait_us else 0
        state = State.CANCELLED if cancelled else State.PARKED if parked else State.DUE
        more = {"due_us": due_us, "parked": parked, "cancelled": cancelled}
        candidates = [candidate(n, AUTHORITIES[n], **more) for n in numbers]
        expected = []
        for number in numbers:
            known = number in self.urls
            expected.append(AdmitResult.KNOWN if known else AdmitResult.NEW)
            if not known:
                self.urls[number] = Url(state, due_us)
        assert self.do(self.store.admit(candidates, now_us)) == expected

    @rule(target=claims, authority=st.sampled_from([A, B]), limit=st.integers(1, 4))
    def claim(self, authority: str, limit: int) -> Any:
        """A crawl node takes work: what it gets was due, is not held by anybody, and poison comes alone."""
        now_us = self.tick()
        due = {
            n for n, url in self.urls.items() if AUTHORITIES[n] == authority and url.claimable and url.due_us <= now_us
        }
        claims = self.do(
            self.store.claim(authority, limit=limit, now_us=now_us, lease_us=now_us + LEASE_US, holder="node")
        )
        assert len(claims) <= limit
        assert bool(claims) == bool(due)
        if all(self.urls[n].interruptions == 0 for n in due):
            assert len(claims) == min(limit, len(due))
        for claim in claims:
            number = _number(claim)
            assert number in due
            due.discard(number)
            url = self.urls[number]
            assert (claim.failures, claim.interruptions) == (url.failures, url.interruptions)
            assert claim.alone == (url.interruptions > 0)
            assert not claim.alone or len(claims) == 1
            self.urls[number] = replace(
                url, state=State.LEASED, token=claim.token, lease_us=claim.lease_us, alone=claim.alone
            )
        return multiple(*claims)

    @rule(
        claim=claims,
        state=st.sampled_from([State.FETCHED, State.GONE, State.DENIED, State.FAILED, State.REVIEW, State.DUE]),
        wait_us=st.sampled_from([0, 20]),
        failures=st.integers(0, 2),
    )
    def complete(self, claim: Claim, state: State, wait_us: int, failures: int) -> None:
        """A claim ends, perhaps for the second time, perhaps long after somebody else took over."""
        now_us = self.tick()
        url = self.urls[_number(claim)]
        ours = url.token == claim.token and url.lease_us > now_us
        due_us = now_us + wait_us if wait_us and state in {State.FETCHED, State.DUE} else 0
        status = {State.FETCHED: 200, State.GONE: 404}.get(state, 500)
        end = Completion(
            claim=claim,
            state=state,
            now_us=now_us,
            due_us=due_us,
            failures=failures,
            outcome=None if state is State.DENIED else outcome(claim, now_us, status=status),
        )
        assert self.do(self.store.complete(end)) is ours
        if ours:
            success = state in {State.FETCHED, State.GONE}
            self.urls[_number(claim)] = url.ended(
                state=state,
                due_us=due_us,
                failures=0 if success else failures,
                interruptions=0 if success else url.interruptions,
                fetch_times=url.fetch_times if end.outcome is None else url.fetch_times | {now_us},
            )

    @rule(claim=consumes(claims))
    def hand_back(self, claim: Claim) -> None:
        """A claim was not sent."""
        url = self.urls[_number(claim)]
        self.do(self.store.hand_back([claim], 0, self.tick()))
        if url.token == claim.token:
            self.urls[_number(claim)] = url.ended(state=State.DUE)

    @rule(claim=claims)
    def renew(self, claim: Claim) -> None:
        """A claim takes long."""
        now_us = self.tick()
        url = self.urls[_number(claim)]
        ours = url.token == claim.token and url.lease_us > now_us
        assert self.do(self.store.renew([claim], now_us, now_us + LEASE_US)) == [ours]
        if ours:
            self.urls[_number(claim)] = replace(url, lease_us=now_us + LEASE_US)

    @rule(dead=st.booleans())
    def expire(self, dead: bool) -> None:
        """Recovery looks for leases that ended without a word."""
        now_us = self.tick()
        ended = self.do(self.store.expire(now_us, dead=dead, poison_after=POISON))
        over = {n for n, url in self.urls.items() if url.state is State.LEASED and (dead or url.lease_us <= now_us)}
        assert {_number(row) for row, _ in ended} == over
        for row, state in ended:
            number = _number(row)
            url = self.urls[number]
            assert row.state is State.LEASED
            poison = url.alone and url.interruptions >= POISON
            assert state is (State.REVIEW if poison else State.DUE)
            self.urls[number] = url.ended(
                state=state, due_us=0 if poison else now_us, interruptions=url.interruptions + 1
            )

    @rule(number=NUMBERS, gone=st.booleans(), known=st.booleans())
    def adopt(self, number: int, gone: bool, known: bool) -> None:
        """Recovery finds a record, with or without an outcome."""
        now_us = self.tick()
        url = self.urls.get(number)
        times = url.fetch_times if url else frozenset[int]()
        fetched_us = max(times) if known and times else now_us
        orphan = outcome(candidate(number, AUTHORITIES[number]), fetched_us, status=404 if gone else 200)
        state = State.GONE if gone else State.FETCHED
        expected = url is not None and fetched_us not in url.fetch_times
        assert self.do(self.store.adopt(orphan, state, "", now_us)) is expected
        if url is None or not expected:
            return
        url = replace(url, fetch_times=url.fetch_times | {fetched_us})
        if url.state in {State.DUE, State.LEASED, State.CANCELLED}:
            url = url.ended(state=state, due_us=0, failures=0, interruptions=0)
        self.urls[number] = url

    @rule(numbers=st.lists(NUMBERS, max_size=6, unique=True))
    def rearm(self, numbers: list[int]) -> None:
        """An operator wants URLs again."""
        now_us = self.tick()
        out = {State.FAILED, State.PARKED, State.REVIEW, State.GONE, State.CANCELLED}
        moved = [n for n in numbers if n in self.urls and self.urls[n].state in out]
        assert self.do(self.store.rearm([fp(n) for n in numbers], now_us)) == len(moved)
        for number in moved:
            self.urls[number] = replace(self.urls[number], state=State.DUE, due_us=now_us, failures=0, interruptions=0)

    @rule(authority=st.sampled_from([A, B]))
    def rearm_denied(self, authority: str) -> None:
        """A robots.txt changed."""
        now_us = self.tick()
        denied = [n for n, url in self.urls.items() if url.state is State.DENIED and AUTHORITIES[n] == authority]
        assert self.do(self.store.rearm_denied(authority, now_us)) == len(denied)
        for number in denied:
            self.urls[number] = replace(self.urls[number], state=State.DUE, due_us=now_us, failures=0, interruptions=0)

    @rule(authority=st.sampled_from([A, B]))
    def wait_out(self, authority: str) -> None:
        """A robots.txt stayed unreachable for too long."""
        waiting = [n for n, url in self.urls.items() if url.state is State.DUE and AUTHORITIES[n] == authority]
        assert self.do(self.store.wait_out(authority, "robots_unreachable", self.tick())) == len(waiting)
        for number in waiting:
            self.urls[number] = replace(self.urls[number], state=State.FAILED, due_us=0)

    @rule(authority=st.sampled_from([A, B]), limit=st.integers(1, 12))
    def cancel(self, authority: str, limit: int) -> None:
        """An operator takes a host out, a piece at a time: leases first."""
        host = authority.partition("://")[2]
        mine = {n: url for n, url in self.urls.items() if AUTHORITIES[n] == authority}
        waiting = {n for n, url in mine.items() if url.state in {State.LEASED, State.DUE}}
        assert self.do(self.store.cancel(host, "operator", self.tick(), limit)) == min(limit, len(waiting))
        out = {_number(row) for row in self.do(self.store.rows(State.CANCELLED))} & waiting
        assert len(out) == min(limit, len(waiting))
        assert all(mine[n].state is State.DUE or n in out for n in waiting) or len(out) == limit
        for number in out:
            self.urls[number] = self.urls[number].ended(state=State.CANCELLED, due_us=0)

    @rule(authority=st.sampled_from([A, B]))
    def uncancel(self, authority: str) -> None:
        """The operator takes the block back."""
        now_us = self.tick()
        host = authority.partition("://")[2]
        out = [n for n, url in self.urls.items() if url.state is State.CANCELLED and AUTHORITIES[n] == authority]
        assert (host in self.do(self.store.cancelled_hosts("operator"))) is bool(out)
        assert self.do(self.store.uncancel(host, "operator", now_us, 100)) == len(out)
        for number in out:
            self.urls[number] = replace(self.urls[number], state=State.DUE, due_us=now_us, failures=0, interruptions=0)

    @rule(ticks=st.sampled_from([10, 100, LEASE_US]))
    def time_goes_on(self, ticks: int) -> None:
        """Leases run out, due times come."""
        self.now_us += ticks

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        """The owner ends or dies; nothing that was answered is lost."""
        self.do(self.rig.close() if clean else self.rig.kill())
        self.store = self.do(self.rig.open())

    # -- what holds after every step -----------------------------------------------------------------------------------
    @invariant()
    def rows_are_as_the_model_says(self) -> None:
        """Every admitted URL has its row, once, and nothing else has one."""
        rows = {_number(row): row for row in self.do(self.store.rows())}
        assert len(rows) == len(self.do(self.store.rows()))
        found = {
            number: Url(
                row.state,
                row.due_us,
                row.failures,
                row.interruptions,
                row.alone,
                row.token,
                row.lease_us,
                frozenset(one.fetched_us for one in self.do(self.store.outcomes(row.fp))),
            )
            for number, row in rows.items()
        }
        assert found == self.urls

    @invariant()
    def outcomes_are_there_once(self) -> None:
        """One outcome per URL and fetch time."""
        keys = [(one.fp, one.fetched_us) for one in self.do(self.store.all_outcomes())]
        assert len(keys) == len(set(keys)) == sum(len(url.fetch_times) for url in self.urls.values())

    @invariant()
    def indexes_and_counters_equal_a_recount(self) -> None:
        """Whatever happened before."""
        self.do(check_due_index(self.store))
        self.do(check_counters(self.store))


def _number(record: Any) -> int:
    return next(number for number in range(12) if fp(number) == record.fp)


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

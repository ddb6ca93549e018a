"""Gaps, shared ceilings, ownership, the budget, lines and explanations, on a clock that the test sets."""

import asyncio

import pytest

from limpet.config.settings import Politeness
from limpet.politeness import Governor, HostState, LocalShares
from limpet.politeness.breaker import Answer
from limpet.politeness.governor import PARKED_SECONDS
from limpet.urlstore.types import HostRow
from unit.politeness.hosts import EPOCH_US, PUBLIC, SetClock, make, nobody, ready


def exchange(governor: Governor, state: HostState, duration_us: int = 1_000) -> None:
    """One request, over at once."""
    permit = governor.permit(state)
    assert permit is not None
    governor.end(permit, duration_us)


# -- gaps --------------------------------------------------------------------------------------------------------------
def test_one_connection_a_host() -> None:
    """A second permit is not to be had before the first has ended."""
    clock, governor = make()
    state = ready(governor, clock, "a.example")
    assert governor.permit(state) is not None
    clock.pass_seconds(3_600)
    assert governor.permit(state) is None
    assert governor.ready_in(state) > 0


@pytest.mark.parametrize(
    ("crawl_delay", "latency_seconds", "gap"),
    [(0, 0.01, 1.0), (0, 0.5, 2.5), (0, 100, 30.0), (4, 0.5, 4.0), (86_400, 0.1, 86_400.0)],
)
def test_the_gap_is_the_largest_wish(crawl_delay: float, latency_seconds: float, gap: float) -> None:
    """Floor 1 s; crawl-delay of any finite size; five times the last response, at most 30 s."""
    clock, governor = make()
    state = ready(governor, clock, "a.example")
    governor.set_crawl_delay(state, crawl_delay)
    clock.pass_seconds(max(0.0, governor.ready_in(state)))
    exchange(governor, state, int(latency_seconds * 1e6))
    assert governor.ready_in(state) == pytest.approx(gap)
    assert governor.is_slow(state) is (crawl_delay > 3_600)


def test_after_a_start_a_host_waits_one_full_gap() -> None:
    """Tokens do not pile up while we are down."""
    _, governor = make()
    assert governor.ready_in(governor.meet(HostRow(host="a.example"))) == 1.0


def test_a_long_crawl_delay_is_a_wait_that_a_start_knows() -> None:
    """From the last answer on, whoever asked; a delay of a minute or less stays in memory and starts anew."""
    clock, governor = make()
    state = ready(governor, clock, "a.example")
    governor.set_crawl_delay(state, 7_200)
    clock.pass_seconds(max(0.0, governor.ready_in(state)))
    exchange(governor, state)
    row = governor.unsaved(state)
    assert row is not None
    assert (row.wait_us, row.wait_reason) == (clock.wall_us() + 7_200_000_000, "crawl-delay")
    assert governor.unsaved(state) is None
    clock.pass_seconds(3_000)
    later = Governor(clock, Politeness(), nobody)
    again = later.meet(row)
    later.set_crawl_delay(again, 7_200)
    assert later.ready_in(again) == pytest.approx(4_200)
    clock.pass_seconds(4_199)
    assert later.permit(again) is None
    clock.pass_seconds(1.1)
    exchange(later, again)
    assert later.ready_in(again) == pytest.approx(7_200)
    fresh = later.meet(HostRow(host="b.example"))
    later.set_crawl_delay(fresh, 7_200)
    assert later.ready_in(fresh) == pytest.approx(7_200 - 4_200.1), (
        "a gap from the start: nobody knows when it was asked"
    )


def test_a_short_crawl_delay_is_no_wait_of_the_row() -> None:
    """It would cost a write for each answer."""
    clock, governor = make()
    state = ready(governor, clock, "a.example")
    governor.set_crawl_delay(state, 60)
    clock.pass_seconds(max(0.0, governor.ready_in(state)))
    exchange(governor, state)
    assert governor.unsaved(state) is None
    assert state.row.wait_us == 0


def test_a_long_crawl_delay_keeps_no_breaker_from_opening() -> None:
    """A wait that lies ahead means an open breaker; the delay is added when the answer has been judged."""
    clock, governor = make()
    state = ready(governor, clock, "a.example")
    governor.set_crawl_delay(state, 4_000)
    for _ in range(7):
        clock.pass_seconds(max(0.0, governor.ready_in(state)))
        exchange(governor, state)
        governor.answered(state, Answer.TRANSIENT)
        governor.unsaved(state)
    assert state.row.trips == 3
    assert state.row.wait_us - clock.wall_us() >= 4_000_000_000


def test_what_a_late_reader_read_does_not_undo_what_happened_since() -> None:
    """Two tasks read the same row at once; the first is done, and persists a wait, before the second is."""
    clock, governor = make()
    asked: list[asyncio.Event] = []
    both_ask = asyncio.Event()

    async def read(host: str) -> HostRow | None:
        answer = asyncio.Event()
        asked.append(answer)
        if len(asked) == 2:
            both_ask.set()
        await answer.wait()
        return HostRow(host=host)

    async def scenario() -> None:
        assert governor.known("a.example") is None
        first = asyncio.create_task(governor.load("a.example", read))
        second = asyncio.create_task(governor.load("a.example", read))
        await both_ask.wait()
        asked[0].set()
        governor.wait_until(await first, clock.wall_us() + 60_000_000, "http_429")
        asked[1].set()
        assert await second is await first is governor.known("a.example")
        assert governor.ready_in(await second) == pytest.approx(60)

    asyncio.run(scenario())


# -- ceilings ----------------------------------------------------------------------------------------------------------
def test_two_connections_a_registrable_domain() -> None:
    """However many hosts it has."""
    clock, governor = make()
    states = [ready(governor, clock, f"{name}.example.org") for name in "abc"]
    permits = [governor.permit(state) for state in states]
    assert [permit is not None for permit in permits] == [True, True, False]
    assert permits[0] is not None
    governor.end(permits[0], 1_000)
    assert governor.permit(states[2]) is not None


def test_five_starts_a_second_and_two_connections_an_address() -> None:
    """Many small sites on one machine are one machine."""
    clock, governor = make()
    states = [ready(governor, clock, f"{n}.example", PUBLIC) for n in range(8)]
    assert governor.permit(states[0]) is not None
    clock.pass_seconds(0.199)
    assert governor.permit(states[1]) is None
    clock.pass_seconds(0.001)
    permit = governor.permit(states[1])
    assert permit is not None
    clock.pass_seconds(10)
    assert governor.permit(states[2]) is None
    governor.end(permit, 1_000)
    assert governor.permit(states[2]) is not None


def test_a_host_with_several_addresses_needs_a_share_of_each() -> None:
    """The exchange may end up at any of them."""
    clock, governor = make()
    both = ready(governor, clock, "both.example", "192.0.2.1", "192.0.2.2")
    one = ready(governor, clock, "one.example", "192.0.2.2")
    assert governor.permit(both) is not None
    assert governor.permit(one) is None
    clock.pass_seconds(0.2)
    assert governor.permit(one) is not None


def test_eight_connections_and_four_starts_a_second_a_platform() -> None:
    """Whatever addresses its tenants have."""
    clock, governor = make()
    states = [ready(governor, clock, f"{n}.github.io", f"192.0.2.{n}") for n in range(10)]
    granted = 0
    for state in states:
        assert governor.permit(state) is None or granted < 8
        granted += state.busy
        clock.pass_seconds(0.25)
    assert granted == 8


def test_workers_share_the_ceilings_of_address_and_platform() -> None:
    """One ledger: what one worker holds the other does not get."""
    clock = SetClock()
    shares = LocalShares(clock.boot_us())
    first, second = (Governor(clock, Politeness(), nobody, shares=shares) for _ in range(2))
    here = [ready(first, clock, f"{n}.example", PUBLIC) for n in range(2)]
    there = ready(second, clock, "z.example", PUBLIC)
    assert first.permit(here[0]) is not None
    clock.pass_seconds(0.2)
    assert second.permit(there) is not None
    clock.pass_seconds(0.2)
    assert first.permit(here[1]) is None


def test_an_address_backs_off_when_three_of_its_hosts_are_told_to_wait() -> None:
    """429 and 503 alike; also after a restart, from the rows."""
    clock, governor = make()
    hosts = [ready(governor, clock, f"{n}.example", PUBLIC) for n in range(3)]
    other = ready(governor, clock, "other.example", PUBLIC)
    far = ready(governor, clock, "far.example", "192.0.2.9")
    now_us = clock.wall_us()
    rows = [
        governor.wait_until(state, now_us + seconds * 1_000_000, f"http_{status}")
        for state, seconds, status in zip(hosts, (600, 300, 400), (429, 503, 429), strict=True)
    ]
    assert governor.ready_in(other) == pytest.approx(300)
    assert governor.ready_in(far) <= 0
    again = Governor(clock, Politeness(), nobody)
    for row in rows:
        again.meet(row)
    other = ready(again, clock, "other.example", PUBLIC)
    assert again.ready_in(other) == pytest.approx(299)


def test_a_host_has_to_be_located_and_located_again() -> None:
    """Before its first permit, and when the answer has grown old."""
    clock, governor = make(is_owned=lambda host: host == "mine.example")
    state = governor.meet(HostRow(host="a.example"))
    assert governor.needs_locating(state)
    governor.located(state, [PUBLIC])
    assert not governor.needs_locating(state)
    assert state.row.addresses == PUBLIC
    clock.pass_seconds(61)
    assert governor.needs_locating(state)
    assert not governor.needs_locating(governor.meet(HostRow(host="mine.example")))


# -- hosts of one's own ------------------------------------------------------------------------------------------------
def test_owned_hosts_at_private_addresses_have_no_shared_ceiling() -> None:
    """Every host of a private address is the operator's; crawl-delay and the one connection stay."""
    clock, governor = make(is_owned=lambda _: True)
    states = [governor.meet(HostRow(host=f"{n}.corp.example")) for n in range(9)]
    for state in states:
        governor.met(state, "10.0.0.7")
        assert governor.permit(state) is not None
        assert governor.permit(state) is None
    assert clock.seconds == 100.0


def test_an_owned_host_beside_a_stranger_of_its_domain_keeps_the_domain_ceiling() -> None:
    """It is lifted only where every host of the key is owned."""
    clock, governor = make(is_owned=lambda host: host.startswith("mine"))
    mine = [ready(governor, clock, f"mine{n}.example.org") for n in range(3)]
    ready(governor, clock, "other.example.org")
    assert [governor.permit(state) is not None for state in mine] == [True, True, False]


def test_a_public_address_is_owned_only_if_its_robots_names_us() -> None:
    """Nobody's word makes somebody else's server ours; every robots.txt of the host has to say so."""
    clock, governor = make(is_owned=lambda _: True)
    state = ready(governor, clock, "mine.example")
    governor.prove(state, "http://mine.example", named=False)
    assert state.owned, "not seen at a public address yet"
    governor.met(state, PUBLIC)
    assert not state.owned
    assert governor.gap_seconds(state) == 1.0
    governor.prove(state, "http://mine.example", named=True)
    assert state.owned
    assert governor.gap_seconds(state) == 0.0
    governor.prove(state, "https://mine.example", named=False)
    assert not state.owned


def test_a_host_that_nobody_claims_is_not_owned_because_robots_names_us() -> None:
    """The proof confirms the operator's word and does not replace it."""
    clock, governor = make()
    state = ready(governor, clock, "a.example", PUBLIC)
    governor.met(state, PUBLIC)
    governor.prove(state, "http://a.example", named=True)
    assert not state.owned


def test_a_tenant_never_lifts_the_ceilings_of_the_platform_or_of_a_public_address() -> None:
    """Unless the operator's list covers the address itself."""
    for covered in (False, True):
        _, governor = make(is_owned=lambda _: True, owns_address=lambda _, yes=covered: yes)
        state = governor.meet(HostRow(host="me.github.io"))
        governor.prove(state, "https://me.github.io", named=True)
        governor.met(state, PUBLIC)
        assert state.owned
        names = [key.name for key in governor._shared_keys(state)]
        assert names == ([] if covered else ["platform github.io", f"address {PUBLIC}"])


# -- the budget --------------------------------------------------------------------------------------------------------
def test_the_budget_is_a_ceiling_until_midnight() -> None:
    """Requests of all hosts count; at the end of the UTC day the next budget begins."""
    clock, governor = make(Politeness(budget_per_day=3))
    clock.pass_seconds(86_400 / 4)
    state = ready(governor, clock, "a.example")
    for _ in range(3):
        while (seconds := governor.ready_in(state)) > 0:
            clock.pass_seconds(seconds)
        exchange(governor, state)
    midnight = EPOCH_US + 86_400_000_000 * (1 + (clock.wall_us() - EPOCH_US) // 86_400_000_000)
    clock.pass_seconds(60)
    assert governor.permit(state) is None
    assert governor.ready_in(state) == pytest.approx((midnight - clock.wall_us()) / 1e6)
    clock.pass_seconds(governor.ready_in(state))
    exchange(governor, state)


def test_what_never_went_out_costs_no_budget() -> None:
    """A permit given back, and a request for which there was no address."""
    clock, governor = make(Politeness(budget_per_day=2, floor_seconds=0.0))
    clock.pass_seconds(86_400)
    state = ready(governor, clock, "a.example")
    for options in ({"sent": False}, {"counts": False}, {}, {}):
        clock.pass_seconds(40_000)
        permit = governor.permit(state)
        assert permit is not None, options
        governor.end(permit, 1, **options)
    clock.pass_seconds(1_000)
    assert governor.permit(state) is None


# -- lines -------------------------------------------------------------------------------------------------------------
def test_who_waits_for_a_shared_thing_is_called_in_turn() -> None:
    """First come, first served; a newcomer stands behind; thousands need not ask."""
    clock, governor = make()
    states = [ready(governor, clock, f"{n}.example", PUBLIC) for n in range(4)]
    exchange(governor, states[0])
    assert [governor.line_up(state) for state in states[1:]] == [PARKED_SECONDS] * 3
    order = []
    while (call_in := governor.next_call_in()) is not None:
        clock.pass_seconds(max(0.0, call_in))
        for host in governor.call():
            order.append(host)
            exchange(governor, governor.meet(HostRow(host=host)))
    assert order == ["1.example", "2.example", "3.example"]
    assert clock.seconds == pytest.approx(101.6)


def test_a_turn_that_is_not_used_goes_to_the_next() -> None:
    """A host that has nothing to send after all holds nobody up."""
    clock, governor = make()
    states = [ready(governor, clock, f"{n}.example", PUBLIC) for n in range(3)]
    exchange(governor, states[0])
    for state in states[1:]:
        governor.line_up(state)
    clock.pass_seconds(0.2)
    assert governor.call() == ["1.example"]
    governor.leave_line(states[1])
    assert governor.call() == ["2.example"]
    exchange(governor, states[2])


def test_the_head_of_a_line_may_go_without_being_called() -> None:
    """Who asks again by itself is not held up by its own place."""
    clock, governor = make()
    states = [ready(governor, clock, f"{n}.example", PUBLIC) for n in range(3)]
    exchange(governor, states[0])
    for state in states[1:]:
        governor.line_up(state)
    clock.pass_seconds(0.2)
    assert governor.permit(states[2]) is None
    exchange(governor, states[1])


def test_a_request_that_holds_up_another_goes_ahead_of_the_line_not_of_the_ceiling() -> None:
    """The next hop of a redirected robots.txt."""
    clock, governor = make()
    states = [ready(governor, clock, f"{n}.example", PUBLIC) for n in range(3)]
    exchange(governor, states[0])
    governor.line_up(states[1])
    assert governor.permit(states[2], ahead=True) is None
    clock.pass_seconds(0.2)
    assert governor.permit(states[2]) is None
    assert governor.permit(states[2], ahead=True) is not None


# -- explanations ------------------------------------------------------------------------------------------------------
def test_explain_names_what_is_in_force() -> None:
    """The gap's parts, longest first; then what is waited for."""
    clock, governor = make()
    state = ready(governor, clock, "a.example", PUBLIC)
    governor.set_crawl_delay(state, 7.0)
    governor.wait_until(state, clock.wall_us() + 90_000_000, "http_503")
    reasons = dict(governor.explain("a.example"))
    assert reasons["crawl-delay"] == 7.0
    assert reasons["floor"] == 1.0
    assert reasons["wait: http_503"] == pytest.approx(90)
    assert next(iter(reasons)) == "crawl-delay"
    assert governor.explain("unknown.example") == []


def test_a_stored_row_is_the_beginning() -> None:
    """Waits and addresses of the last run are in force before anything is asked."""
    clock, governor = make()
    row = HostRow(host="a.example", wait_us=clock.wall_us() + 5_000_000, wait_reason="http_503", addresses=PUBLIC)
    state = governor.meet(row)
    assert state.addresses == (PUBLIC,)
    assert governor.ready_in(state) == pytest.approx(5)

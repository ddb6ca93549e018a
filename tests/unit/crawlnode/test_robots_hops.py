"""What a robots.txt means that leads to a host which may not be asked for long."""

from limpet.crawlnode.errands import NotAsked
from limpet.crawlnode.robots import waiting
from limpet.robots import RobotsState, advance, gives_up

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
YEARS_3_US = 3 * 365 * DAY_US


def live(told: NotAsked, days: int) -> tuple[RobotsState, list[int], str | None]:
    """Try again as soon as allowed, for so many days: the state, the waits, and why it was given up."""
    state, now_us, waits_us = RobotsState(), 0, list[int]()
    while now_us < days * DAY_US and gives_up(state, now_us) is None:
        state = advance(state, waiting(told), now_us, 0.0)
        waits_us.append(state.retry_at_us - now_us)
        now_us = state.retry_at_us
    return state, waits_us, gives_up(state, now_us)


def test_a_wait_that_the_host_asked_for_is_robots_out_of_reach() -> None:
    """As its own 429 would be: tried again daily at most, given up after 30 days, never allowed."""
    state, waits_us, reason = live(NotAsked("redirect_to_waiting_host", YEARS_3_US, theirs=True), 40)
    assert set(waits_us) == {DAY_US}
    assert (len(waits_us), reason) == (30, "robots_unreachable")
    assert state.copy is None


def test_tries_are_further_and_further_apart() -> None:
    """Short waits too back off, from five minutes on."""
    _, waits_us, _ = live(NotAsked("redirect_to_waiting_host", 60_000_000, theirs=True), 1)
    assert waits_us[:4] == [HOUR_US // 12 << n for n in range(4)]


def test_our_own_waits_are_held_against_nobody() -> None:
    """A crawl-delay, the day's budget, an operator's order: tried again when that is over, and never given up."""
    state, waits_us, reason = live(NotAsked("redirect_to_waiting_host", HOUR_US), 60)
    assert set(waits_us) == {HOUR_US}
    assert (reason, state.failures, state.copy) == (None, 0, None)

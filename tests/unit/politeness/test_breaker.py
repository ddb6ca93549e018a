"""The breaker: five failures or ten refusals, ten minutes doubling to a day, one probe, a week."""

from limpet.config.settings import Politeness
from limpet.politeness import BREAKER, Answer, Governor, HostState
from limpet.urlstore import HostRow
from unit.politeness.hosts import SetClock, make, ready

MINUTE = 60.0


def fail(governor: Governor, clock: SetClock, state: HostState, answer: Answer = Answer.TRANSIENT) -> bool:
    """One exchange that ends so."""
    clock.pass_seconds(max(0.0, governor.ready_in(state)))
    permit = governor.permit(state)
    assert permit is not None
    governor.awaits(state)
    governor.end(permit, 1_000)
    gave_up = governor.answered(state, answer)
    governor.overlooked(state)
    return gave_up


def test_five_transient_failures_open_it_for_ten_minutes() -> None:
    """Four do not."""
    clock, governor = make()
    state = ready(governor, clock, "a.example")
    for _ in range(4):
        fail(governor, clock, state)
    assert governor.ready_in(state) < 2
    fail(governor, clock, state)
    assert 10 * MINUTE <= governor.ready_in(state) <= 12.5 * MINUTE
    assert governor.meet(HostRow(host="a.example")).row.wait_reason == BREAKER


def test_a_good_answer_ends_the_streak() -> None:
    """Consecutive means that nothing good lies between."""
    clock, governor = make()
    state = ready(governor, clock, "a.example")
    for _ in range(3):
        for _ in range(4):
            fail(governor, clock, state)
        fail(governor, clock, state, Answer.GOOD)
    assert governor.ready_in(state) < 2


def test_ten_refusals_open_it_and_nine_do_not() -> None:
    """401, 403 and 429 say that we are not wanted."""
    clock, governor = make()
    state = ready(governor, clock, "a.example")
    for _ in range(9):
        fail(governor, clock, state, Answer.REFUSED)
    assert not governor.probes(state)
    fail(governor, clock, state, Answer.REFUSED)
    assert governor.ready_in(state) >= 10 * MINUTE


def test_one_probe_doubling_up_to_a_day() -> None:
    """While a probe's answer is not judged nothing else is sent; each failure doubles the wait."""
    clock, governor = make(Politeness(floor_seconds=0.0), is_owned=lambda _: True)
    state = ready(governor, clock, "a.example")
    for _ in range(5):
        fail(governor, clock, state)
    waits = []
    for _ in range(10):
        waits.append(governor.ready_in(state))
        clock.pass_seconds(waits[-1])
        permit = governor.permit(state)
        assert permit is not None
        governor.awaits(state)
        governor.end(permit, 1_000)
        assert governor.permit(state) is None, "one probe"
        governor.answered(state, Answer.TRANSIENT)
        governor.overlooked(state)
    assert [round(seconds / MINUTE) for seconds in waits[:5]] == [10, 20, 40, 80, 160]
    assert waits[-1] == 86_400
    fail(governor, clock, state, Answer.GOOD)
    assert not governor.probes(state)
    assert governor.permit(state) is not None


def test_jitter_lengthens_and_never_shortens() -> None:
    """Hosts that failed together are not asked together again."""
    clock, governor = make(fraction=lambda: 0.999)
    state = ready(governor, clock, "a.example")
    for _ in range(5):
        fail(governor, clock, state)
    assert 12 * MINUTE < governor.ready_in(state) <= 12.5 * MINUTE


def test_after_a_week_the_host_is_given_up_once_and_then_tried_afresh() -> None:
    """The probe after seven days decides; what an operator re-arms later begins at nothing."""
    clock, governor = make()
    state = ready(governor, clock, "a.example")
    begun = clock.seconds
    while not fail(governor, clock, state):
        assert clock.seconds - begun < 9 * 86_400
    assert clock.seconds - begun >= 7 * 86_400
    assert not governor.probes(state)
    assert not fail(governor, clock, state)


def test_a_restart_forgets_nothing_of_it() -> None:
    """Count, trips and the beginning of the trouble are in the row, which is to be saved whenever they change."""
    clock, governor = make()
    state = ready(governor, clock, "a.example")
    for _ in range(5):
        fail(governor, clock, state)
        row = governor.unsaved(state)
    assert row is not None
    again = Governor(clock, Politeness(), lambda _: False)
    state = again.meet(row)
    assert again.probes(state)
    assert again.ready_in(state) >= 10 * MINUTE
    clock.pass_seconds(again.ready_in(state))
    fail(again, clock, state)
    assert again.ready_in(state) >= 20 * MINUTE


def test_a_probe_that_is_told_to_wait_failed_all_the_same() -> None:
    """The short wait that a 503 begins at its headers is not the breaker's: that one doubles, whoever is longer."""
    clock, governor = make()
    state = ready(governor, clock, "a.example")
    for _ in range(5):
        fail(governor, clock, state)
    clock.pass_seconds(governor.ready_in(state))
    governor.wait_until(state, clock.wall_us() + 30_000_000, "http_503")
    assert governor.answered(state, Answer.TRANSIENT) is False
    assert 20 * MINUTE <= governor.ready_in(state) <= 25 * MINUTE
    assert state.row.wait_reason == BREAKER

"""How far ahead of now entries of the due index are put."""

from limpet.urlstore.cassandra.pace import AHEAD_US_MAX, Pace

SECOND_US = 1_000_000


def test_quick_writes_put_nothing_off() -> None:
    """An entry and its row are written within half of the lag: a reader cannot have gone by."""
    pace = Pace(2 * SECOND_US)
    for _ in range(100):
        pace.took(SECOND_US // 5)
    assert pace.ahead_us == 0


def test_one_slow_write_puts_the_next_entries_ahead_for_a_while() -> None:
    """Slowness comes in spells; what was entered ahead needs no second, conditional write."""
    pace = Pace(2 * SECOND_US)
    pace.took(3 * SECOND_US)
    assert pace.ahead_us == 6 * SECOND_US
    ahead = []
    for _ in range(40):
        pace.took(SECOND_US // 100)
        ahead.append(pace.ahead_us)
    assert ahead == sorted(ahead, reverse=True)
    assert ahead[5] > SECOND_US
    assert ahead[-1] == 0


def test_a_due_url_is_put_off_within_a_bound() -> None:
    """However slow the servers are."""
    pace = Pace(2 * SECOND_US)
    pace.took(3600 * SECOND_US)
    assert pace.ahead_us == AHEAD_US_MAX

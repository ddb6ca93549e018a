"""Timestamps that an owner's epoch leads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.clock import SystemClock
from limpet.model.errors import Definite
from limpet.urlstore.cassandra.led import Led


class SetClock(SystemClock):
    """A wall clock that stands where a test sets it."""

    def __init__(self, wall_us: int) -> None:
        self.now_us = wall_us

    def wall_us(self) -> int:
        """See `Clock.wall_us`."""
        return self.now_us


YEAR_US = 365 * 86_400_000_000


@given(
    epoch=st.integers(1, 2**23 - 2),
    stale=st.lists(st.integers(0, 200 * YEAR_US), min_size=1, max_size=20),
    own=st.lists(st.integers(0, 200 * YEAR_US), min_size=1, max_size=20),
)
def test_a_later_epoch_wins_whatever_the_clocks_say(epoch: int, stale: list[int], own: list[int]) -> None:
    """Also of an owner whose clock is a century ahead; and each owner's timestamps rise, however its clock jumps."""
    clock = SetClock(0)
    found: dict[int, list[int]] = {}
    for number, times in ((epoch, stale), (epoch + 1, own)):
        led = Led(number, clock)
        found[number] = []
        for clock.now_us in times:
            found[number].append(led.next("put"))
    assert max(found[epoch]) < min(found[epoch + 1])
    assert all(values == sorted(set(values)) for values in found.values())
    assert max(found[epoch + 1]) < 2**63


def test_without_an_epoch_nothing_is_written() -> None:
    """The error says that nothing happened, and why."""
    with pytest.raises(Definite, match="put_host: only the owner"):
        Led(0, SystemClock()).next("put_host")


@pytest.mark.parametrize("epoch", [-1, 2**23])
def test_an_epoch_has_a_place_in_a_timestamp(epoch: int) -> None:
    """One that has not is refused at once."""
    with pytest.raises(ValueError, match="epoch"):
        Led(epoch, SystemClock())

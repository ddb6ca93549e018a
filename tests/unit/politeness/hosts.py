"""A governor on a clock that tests set, and addresses that are nobody's."""

import math
from collections.abc import Callable
from typing import Any

from limpet.config.settings import Politeness
from limpet.politeness import Governor, HostState
from limpet.urlstore import HostRow

EPOCH_US = 1_800_000_000_000_000 // 86_400_000_000 * 86_400_000_000  # midnight
PUBLIC = "93.184.216.34"


class SetClock:
    """A `Clock` that stands still until it is told to pass."""

    def __init__(self) -> None:
        self._us = 100_000_000

    @property
    def seconds(self) -> float:
        return self._us / 1e6

    def wall_us(self) -> int:
        return EPOCH_US + self.boot_us()

    def monotonic(self) -> float:
        return self.seconds

    def boot_us(self) -> int:
        return self._us

    def boot_id(self) -> str:
        return "test"

    async def sleep(self, seconds: float) -> None:
        self.pass_seconds(seconds)

    def pass_seconds(self, seconds: float) -> None:
        """At least so long, in whole microseconds."""
        self._us += math.ceil(round(seconds * 1e6, 3))


def nobody(_: str) -> bool:
    """Owns nothing."""
    return False


def make(
    policy: Politeness | None = None, *, is_owned: Callable[[str], bool] = nobody, **options: Any
) -> tuple[SetClock, Governor]:
    """A governor and its clock."""
    clock = SetClock()
    return clock, Governor(clock, policy or Politeness(), is_owned, **options)


def ready(governor: Governor, clock: SetClock, host: str, *addresses: str) -> HostState:
    """A host that was found at `addresses` and whose first gap is over."""
    state = governor.meet(HostRow(host=host))
    governor.located(state, addresses)
    clock.pass_seconds(max(0.0, state.free_at - clock.monotonic()))
    return state

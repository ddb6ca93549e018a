"""Long crawl-delays as durable waits.

The gap after an answer is kept in memory, which is enough for seconds. A crawl-delay of minutes or days is something
that others have to know: what is due next, whether a run can end, and from when on a process that starts may ask.
"""

import math
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from limpet.politeness.state import HostState

LONG_DELAY_SECONDS: Final = 60.0
CRAWL_DELAY: Final = "crawl-delay"


def is_long(state: HostState) -> bool:
    """Whether the crawl-delay in force is one that the row tells of."""
    return state.crawl_delay_seconds > LONG_DELAY_SECONDS


def gap_of_start(state: HostState, gaps: Iterable[tuple[str, float]]) -> float:
    """The gap of a host that this process has not asked yet: a crawl-delay whose end the row tells counts from then."""
    told = state.row.wait_reason == CRAWL_DELAY
    return max((seconds for name, seconds in gaps if name != CRAWL_DELAY or not told), default=0.0)


def hold(state: HostState, monotonic: float, wall_us: int) -> None:
    """Have what is left of a long crawl-delay in the row; a longer wait stays.

    To be called when the answer has been judged: for the breaker a wait that lies ahead means that it is open.
    """
    left = min(state.free_at - monotonic, state.crawl_delay_seconds)
    until_us = wall_us + math.ceil(left * 1e6)
    if is_long(state) and left > 0 and until_us > state.row.wait_us:
        state.row = replace(state.row, wait_us=until_us, wait_reason=CRAWL_DELAY)

"""The breaker: a host in trouble is left alone for longer and longer, then asked once.

Five transient failures in a row, or ten refusals, open it for ten minutes; each probe that fails doubles that, up to a
day. All of it lies in the host's row. While it is open the host waits like one that asked for it, with the reason
`breaker`; then the first answer decides.
"""

from enum import Enum
from typing import Final

from msgspec.structs import replace

from limpet.urlstore.types import HostRow

BREAKER: Final = "breaker"
HOST_UNREACHABLE: Final = "host_unreachable"
TRANSIENT_MAX: Final = 5
REFUSED_MAX: Final = 10
OPEN_SECONDS: Final = 600.0
OPEN_SECONDS_MAX: Final = 86_400.0
JITTER: Final = 0.25
GIVE_UP_SECONDS: Final = 7 * 86_400.0
_DOUBLINGS_MAX: Final = 16


class Answer(Enum):
    """What an exchange says of its host."""

    GOOD = "good"
    TRANSIENT = "transient"  # network, DNS, TLS, 5xx, 408, 425
    REFUSED = "refused"  # 401, 403, 429
    NEITHER = "neither"  # nothing went out, or what came says nothing


def counted(row: HostRow, answer: Answer) -> HostRow:
    """The row with the answer in its counts. Only a good answer ends a streak; it closes the breaker too."""
    if answer is Answer.GOOD:
        if not (row.transient or row.refused or row.trips or row.broken_us):
            return row
        return replace(row, transient=0, refused=0, trips=0, broken_us=0)
    if answer is Answer.TRANSIENT:
        return replace(row, transient=row.transient + 1)
    return replace(row, refused=row.refused + 1) if answer is Answer.REFUSED else row


def opens(row: HostRow, answer: Answer, now_us: int) -> bool:
    """Whether `answer`, counted already, opens the breaker: a full streak, or a failed probe."""
    if answer not in {Answer.TRANSIENT, Answer.REFUSED} or is_open(row, now_us):
        return False
    return row.trips > 0 or row.transient >= TRANSIENT_MAX or row.refused >= REFUSED_MAX


def is_open(row: HostRow, now_us: int) -> bool:
    """Whether the host is left alone for its failures; a wait that a failed probe brought with it is another one."""
    return row.trips > 0 and row.wait_us > now_us and row.wait_reason == BREAKER


def probes(row: HostRow) -> bool:
    """Whether the next answer decides (the breaker is open, or half open)."""
    return row.trips > 0


def undecided(row: HostRow, unjudged: int) -> bool:
    """Whether `unjudged` answers have to be known before another request: a probe's, or those that may open it."""
    if unjudged <= 0:
        return False
    failing = row.transient > 0 and row.transient + unjudged >= TRANSIENT_MAX
    refusing = row.refused > 0 and row.refused + unjudged >= REFUSED_MAX
    return row.trips > 0 or failing or refusing


def opened(row: HostRow, now_us: int, fraction: float) -> HostRow:
    """The row of a host that is now left alone. `fraction` in [0, 1) lengthens the wait by up to a quarter."""
    seconds = min(OPEN_SECONDS_MAX, OPEN_SECONDS * 2 ** min(row.trips, _DOUBLINGS_MAX))
    until_us = now_us + int(min(OPEN_SECONDS_MAX, seconds * (1 + JITTER * fraction)) * 1e6)
    row = replace(row, trips=row.trips + 1, broken_us=row.broken_us or now_us)
    return replace(row, wait_us=until_us, wait_reason=BREAKER) if until_us > row.wait_us else row


def gives_up(row: HostRow, now_us: int) -> bool:
    """Whether the host was in trouble for a week, and the probe at its end failed too."""
    return row.broken_us > 0 and now_us - row.broken_us >= GIVE_UP_SECONDS * 1e6


def forgotten(row: HostRow) -> HostRow:
    """The row of a host that was given up: what an operator re-arms is tried afresh."""
    return replace(row, transient=0, refused=0, trips=0, broken_us=0)

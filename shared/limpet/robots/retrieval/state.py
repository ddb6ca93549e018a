"""What an authority's row remembers about its robots.txt, and how one more answer changes it."""

from __future__ import annotations

from typing import Final

import msgspec

from limpet.robots.retrieval.answers import (
    COPY_LIFE_US,
    DAY_US,
    SECOND_US,
    Failing,
    RobotsCopy,
    Settled,
    copy_of,
)

JITTER_SHARE: Final = 0.1
"""Retries are spread over so much of their wait, and never fall below it or rise above the maximum."""

LATE_US_MAX: Final = DAY_US
"""How late a retry may come and still count the whole time since the last one as time unreachable."""

GAVE_UP: Final = "robots_unreachable"
NO_SUCH_NAME: Final = "dns_nxdomain"
REFUSED_BY_GATE: Final = "refused_by_gate"
"""What a page would end with, whose server the connect gate refuses: so nobody waits for its robots.txt."""


class RetryPolicy(msgspec.Struct, frozen=True):
    """How long an unreachable robots.txt is waited for."""

    first_us: int = 300 * SECOND_US
    us_max: int = DAY_US
    nxdomain_us: int = DAY_US // 2
    nxdomain_tries: int = 3
    http_give_up_us: int = 30 * DAY_US
    connection_give_up_us: int = 7 * DAY_US


DEFAULT_POLICY: Final = RetryPolicy()


class RobotsState(msgspec.Struct, frozen=True):
    """Robots state of one authority (scheme, host, port). Plain data; instants in microseconds of the UTC epoch.

    `failing_us` and `connection_us` add up *observed* time: between two attempts that both failed, and no longer than
    the wait that was planned plus a day. A crawl that stood still for a month has watched nobody fail for a month.
    """

    copy: RobotsCopy | None = None
    """The copy that may license URLs, until it expires."""
    digest: str = ""
    """The digest of the last usable copy, kept when the copy itself is dropped: a change across an outage shows."""
    first_failure_us: int | None = None
    last_attempt_us: int = 0
    failures: int = 0
    """Attempts in a row that failed through the site's fault."""
    failing: Failing | None = None
    """What the last attempt failed with; None if it did not, or not through the site's fault."""
    failing_us: int = 0
    connection_us: int = 0
    """The part of `failing_us` since the last HTTP answer."""
    retry_at_us: int = 0
    host_until_us: int = 0
    """Until then the whole host waits (429, 503); to be kept with the host's other waits."""
    reason: str = ""
    """The reason of the last attempt."""
    nxdomain: int = 0
    """Attempts in a row that found no such host name."""


def advance(
    state: RobotsState, settled: Settled, now_us: int, jitter: float, policy: RetryPolicy = DEFAULT_POLICY
) -> RobotsState:
    """The state after an answer; `jitter` in [0, 1). Pure.

    A usable answer replaces all. A failure keeps a copy that has not expired (section 2.4), waits 5 minutes doubling
    to 24 hours, at least as long as Retry-After says, and never allows anything by itself. A failure of ours waits
    5 minutes and changes nothing else; a name that does not exist is tried again after half a day.
    """
    if settled.status != "unreachable":
        copy = copy_of(settled, now_us)
        return RobotsState(copy=copy, digest=copy.digest, last_attempt_us=now_us, reason=settled.reason)
    ours = settled.failing is None
    failures = state.failures + (not ours)
    wait_us = max(_backoff_us(0 if ours else failures - 1, jitter, policy), settled.retry_after_us)
    no_name = ours and settled.reason == "nxdomain"
    if no_name:
        wait_us = int(policy.nxdomain_us * (1 + JITTER_SHARE * jitter))
    return RobotsState(
        copy=usable_copy(state, now_us),
        digest=state.digest,
        first_failure_us=now_us if state.first_failure_us is None and not ours else state.first_failure_us,
        last_attempt_us=now_us,
        failures=failures,
        failing=settled.failing,
        failing_us=state.failing_us + (0 if ours else _observed_us(state, now_us)),
        connection_us=_connection_us(state, settled.failing, now_us),
        retry_at_us=now_us + wait_us,
        host_until_us=now_us + wait_us if settled.whole_host else state.host_until_us,
        reason=settled.reason,
        nxdomain=state.nxdomain + 1 if no_name else 0,
    )


def usable_copy(state: RobotsState, now_us: int) -> RobotsCopy | None:
    """The copy that may license a URL now: of a kind that can, at most 24 hours old, and not from the future.

    A copy "from the future" means that a clock was wrong, so its age is unknown; asking again costs one request.
    """
    copy = state.copy
    if copy is None or copy.status == "unreachable":
        return None
    age_us = now_us - copy.fetched_us
    return copy if 0 <= age_us < COPY_LIFE_US and now_us < copy.expires_us else None


def gives_up(state: RobotsState, now_us: int, policy: RetryPolicy = DEFAULT_POLICY) -> str | None:
    """The reason to end the authority's URLs with: 30 days unreachable, or 7 days without any HTTP answer.

    None as long as there is hope, and whenever the last failure was ours. A server that the connect gate refused is
    given up at once, a name that does not exist after its third try; both only until the next attempt is due: names
    move, and operators name more hosts as owned. Giving up fails URLs; it never allows them, though section 2.3.1.4
    would permit that.
    """
    if state.failing is None:
        if now_us >= state.retry_at_us or usable_copy(state, now_us) is not None:
            return None
        if state.nxdomain >= policy.nxdomain_tries:
            return NO_SUCH_NAME
        return REFUSED_BY_GATE if state.reason == "gate" else None
    since_us = _observed_us(state, now_us)
    if state.failing == "connection" and state.connection_us + since_us >= policy.connection_give_up_us:
        return GAVE_UP
    return GAVE_UP if state.failing_us + since_us >= policy.http_give_up_us else None


def _observed_us(state: RobotsState, now_us: int) -> int:
    """Time since the last attempt that counts as unreachable; none if that one did not fail by the site's fault."""
    if state.failing is None:
        return 0
    planned_us = state.retry_at_us - state.last_attempt_us
    return min(max(now_us - state.last_attempt_us, 0), planned_us + LATE_US_MAX)


def _connection_us(state: RobotsState, failing: Failing | None, now_us: int) -> int:
    if failing == "http":
        return 0
    gained_us = _observed_us(state, now_us) if failing == state.failing == "connection" else 0
    return state.connection_us + gained_us


def _backoff_us(failures_before: int, jitter: float, policy: RetryPolicy) -> int:
    """The first wait, doubled for each failure before, spread upwards by the jitter, never above the maximum."""
    base_us = policy.first_us << min(failures_before, 32)
    room_us = int(policy.us_max / (1 + JITTER_SHARE))
    return min(int(min(base_us, room_us) * (1 + JITTER_SHARE * jitter)), policy.us_max)

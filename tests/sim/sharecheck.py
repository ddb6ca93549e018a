"""Judges what nodes sent together. It knows the sends in true time and nothing of leases, turns or portions.

A node's clocks may run at another rate than true time: what it keeps apart by a second of its own is less apart by
`stretch`. A day begins for a node when its wall clock says so, within `SKEW_US`.
"""

import bisect
import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

SECOND: Final = 1_000_000
DAY_US: Final = 86_400 * SECOND
SKEW_US: Final = 1 * SECOND
"""How far a node's wall clock may be from true time (`limpet.cluster.machine.CLOCKS_APART_US_MAX`)."""

ROUNDING_US: Final = 5
"""Whole microseconds of clocks that run at different rates."""

DOMAIN_CONNECTIONS: Final = 2
PLATFORM_CONNECTIONS: Final = 8
PLATFORM_STARTS: Final = 4
ADDRESS_CONNECTIONS: Final = 2
ADDRESS_STARTS: Final = 5
CATCH_UP: Final = 1.5
WINDOWS_SECONDS: Final = (1, 10, 60)


class Send(NamedTuple):
    """One request. `end_us`: when the site had answered, or could not be answering any more."""

    node: str
    host: str
    domain: str
    platform: str
    address: str
    start_us: int
    end_us: int


@dataclass(frozen=True)
class Law:
    """What the crawl promised. `day_zero_us`: true time of a UTC midnight. `budget` 0 = none.

    `before`: requests of each day that the list does not have.
    """

    floor_us: int
    stretch: float
    budget: int = 0
    day_zero_us: int = 0
    before: int = 0


def violations(sends: Iterable[Send], law: Law) -> list[str]:
    """Every rule broken, as text; [] = polite."""
    log = sorted(sends, key=lambda send: send.start_us)
    found = [text for requests in _grouped(log, lambda s: s.host).values() for text in _gaps(requests, law)]
    found += _shared("domain", _grouped(log, lambda s: s.domain), DOMAIN_CONNECTIONS, 0, law)
    platforms = _grouped((s for s in log if s.platform), lambda s: s.platform)
    found += _shared("platform", platforms, PLATFORM_CONNECTIONS, PLATFORM_STARTS, law)
    found += _shared("address", _grouped(log, lambda s: s.address), ADDRESS_CONNECTIONS, ADDRESS_STARTS, law)
    return found + (_day(log, law) + _pace(log, law) if law.budget else [])


def _grouped(log: Iterable[Send], key: Callable[[Send], str]) -> dict[str, list[Send]]:
    groups: dict[str, list[Send]] = defaultdict(list)
    for send in log:
        groups[key(send)].append(send)
    return groups


def _gaps(requests: Sequence[Send], law: Law) -> list[str]:
    found = []
    for before, after in pairwise(requests):
        if after.start_us < before.end_us:
            found.append(f"host {after.host}: two connections at {after.start_us}, {before.node} and {after.node}")
        elif after.start_us - before.end_us < law.floor_us / law.stretch - ROUNDING_US:
            found.append(f"host {after.host}: {after.start_us - before.end_us} us after the last answer")
    return found


def _shared(kind: str, groups: dict[str, list[Send]], connections: int, starts: int, law: Law) -> list[str]:
    found = []
    second_us = SECOND / law.stretch - ROUNDING_US
    for name, requests in groups.items():
        ends: list[int] = []
        for place, send in enumerate(requests):
            while ends and ends[0] <= send.start_us + ROUNDING_US:
                heapq.heappop(ends)
            heapq.heappush(ends, send.end_us)
            if len(ends) > connections:
                found.append(f"{kind} {name}: {len(ends)} connections at {send.start_us}, {send.node}")
            if starts and place >= starts and send.start_us - requests[place - starts].start_us < second_us:
                found.append(f"{kind} {name}: more than {starts} starts in the second before {send.start_us}")
    return found


def _day(log: Sequence[Send], law: Law) -> list[str]:
    """No day has more than its budget, whichever day the sends of the seconds around midnight are counted to."""
    starts = [send.start_us - law.day_zero_us for send in log]
    if not starts:
        return []
    most, first = law.budget - law.before, starts[0] // DAY_US
    found = []
    for day in range(first, starts[-1] // DAY_US + 1):
        end_us = (day + 1) * DAY_US - SKEW_US
        within = _between(starts, day * DAY_US + SKEW_US, end_us)
        so_far = _between(starts, starts[0], end_us)
        if within > most or so_far > (day - first + 1) * most:
            found.append(f"budget of day {day - first}: {within} requests, {so_far} so far, {most} a day")
    return found


def _pace(log: Sequence[Send], law: Law) -> list[str]:
    """Each node that sent may make good a second of its part, and have one start begun."""
    rate = law.budget * CATCH_UP / 86_400
    starts = [send.start_us for send in log]
    for seconds in WINDOWS_SECONDS:
        for place, start_us in enumerate(starts):
            end = bisect.bisect_left(starts, start_us + seconds * SECOND)
            nodes = len({send.node for send in log[place:end]})
            if end - place > rate * (seconds * law.stretch + nodes) + nodes:
                return [f"pace: {end - place} starts of {nodes} nodes within {seconds} s at {start_us}"]
    return []


def _between(starts: Sequence[int], begin: int, end: int) -> int:
    return max(0, bisect.bisect_left(starts, end) - bisect.bisect_left(starts, begin))

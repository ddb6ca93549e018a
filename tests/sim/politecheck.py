"""Judges what was sent in a simulated world. Shares no code with the governor: the rules are written down again here.

Times are true microseconds from the start of the world, as a site's own clock would tell them.
"""

import heapq
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from sim.politeworld import SECOND, Site, World

DOMAIN_CONNECTIONS: Final = 2
PLATFORM_CONNECTIONS: Final = 8
PLATFORM_STARTS: Final = 4
ADDRESS_CONNECTIONS: Final = 2
ADDRESS_STARTS: Final = 5
CDN_CONNECTIONS: Final = 16
CDN_STARTS: Final = 40
CATCH_UP: Final = 1.5
TOLD_HOSTS: Final = 3


class Request(NamedTuple):
    """One request. `n` counts the host's requests; `cut` = the process died before the answer."""

    site: Site
    n: int
    start_us: int
    end_us: int
    cut: bool = False


def violations(world: World, log: Sequence[Request]) -> list[str]:
    """Every rule broken, as text; [] = polite."""
    found: list[str] = []
    hosts = _grouped(log, lambda request: request.site.name)
    for requests in hosts.values():
        found += _gaps(world, requests)
        found += _breaker(requests)
    found += _shared("domain", _grouped(log, lambda r: r.site.domain), DOMAIN_CONNECTIONS, 0)
    platforms = _grouped((r for r in log if r.site.platform), lambda r: r.site.platform)
    found += _shared("platform", platforms, PLATFORM_CONNECTIONS, PLATFORM_STARTS)
    for address, requests in _grouped(log, lambda r: r.site.address).items():
        connections, starts = limits_of(address)
        found += _shared("address", {address: requests}, connections, starts)
        found += _backed_off(requests)
    return found + _budget(world, log)


def limits_of(address: str) -> tuple[int, int]:
    """(connections, starts a second) of an address."""
    cdn = address.startswith("198.51.100.")
    return (CDN_CONNECTIONS, CDN_STARTS) if cdn else (ADDRESS_CONNECTIONS, ADDRESS_STARTS)


def gap_us(world: World, request: Request) -> int:
    """The least pause after a request. The crawl-delay is known once robots.txt is."""
    site = request.site
    delay_us = int(site.crawl_delay_seconds * SECOND) if request.n > 0 or not request.cut else 0
    own_us = int(world.floor_seconds * SECOND)
    latency_us = min(30 * SECOND, 5 * (request.end_us - request.start_us)) if not request.cut else 0
    gap = max(own_us, delay_us, latency_us)
    return max(2 * max(own_us, delay_us), 10 * SECOND) if request.cut else gap


def _grouped(log: Iterable[Request], key: Callable[[Request], str]) -> dict[str, list[Request]]:
    groups: dict[str, list[Request]] = defaultdict(list)
    for request in log:
        groups[key(request)].append(request)
    for requests in groups.values():
        requests.sort(key=lambda request: request.start_us)
    return groups


def _gaps(world: World, requests: list[Request]) -> list[str]:
    found, told_us = [], 0
    for before, after in itertools.pairwise(requests):
        name = after.site.name
        if after.start_us < before.end_us:
            found.append(f"{name}: two connections at {after.start_us}")
        elif after.start_us < before.end_us + gap_us(world, before):
            found.append(f"{name}: {after.start_us - before.end_us} us after the last answer, at {after.start_us}")
        if not before.cut:
            told_us = max(told_us, before.end_us + before.site.answer(before.n).retry_after_seconds * SECOND)
        if after.start_us < told_us:
            found.append(f"{name}: {told_us - after.start_us} us before the end of Retry-After")
    return found


def _breaker(requests: list[Request]) -> list[str]:
    """Five failures in a row, or ten refusals: ten minutes, doubling to a day."""
    found, failures, refusals, trips, open_us = [], 0, 0, 0, 0
    for request in requests:
        if request.start_us < open_us:
            found.append(f"{request.site.name}: {open_us - request.start_us} us before the breaker closes")
        status = request.site.answer(request.n).status
        if request.cut or request.n == 0:
            continue
        if status == 200:
            failures = refusals = trips = 0
            continue
        failures, refusals = failures + (status == 0), refusals + (status == 429)
        if trips or failures >= 5 or refusals >= 10:
            open_us = request.end_us + min(86_400, 600 * 2**trips) * SECOND
            trips += 1
    return found


def _shared(kind: str, groups: dict[str, list[Request]], connections: int, starts: int) -> list[str]:
    found = []
    for name, requests in groups.items():
        ends: list[int] = []
        for place, request in enumerate(requests):
            while ends and ends[0] <= request.start_us:
                heapq.heappop(ends)
            heapq.heappush(ends, request.end_us)
            if len(ends) > connections:
                found.append(f"{kind} {name}: {len(ends)} connections at {request.start_us}")
            if starts and place >= starts and request.start_us - requests[place - starts].start_us < SECOND:
                found.append(f"{kind} {name}: more than {starts} starts in the second before {request.start_us}")
    return found


def _backed_off(requests: list[Request]) -> list[str]:
    """No start at an address while three of its hosts are told to wait."""
    found = []
    told: list[tuple[int, int, str]] = []  # (from, until, host)
    events = sorted(requests, key=lambda request: request.start_us)
    waits = sorted(
        (r.end_us, r.end_us + r.site.answer(r.n).retry_after_seconds * SECOND, r.site.name)
        for r in events
        if not r.cut and r.site.answer(r.n).status == 429
    )
    place = 0
    for request in events:
        while place < len(waits) and waits[place][0] <= request.start_us:
            told.append(waits[place])
            place += 1
        told = [wait for wait in told if wait[1] > request.start_us]
        if len({host for *_, host in told}) >= TOLD_HOSTS:
            found.append(f"address {request.site.address}: a start at {request.start_us} while three hosts must wait")
    return found


def _budget(world: World, log: Sequence[Request]) -> list[str]:
    if not world.budget:
        return []
    found = []
    days: dict[int, int] = defaultdict(int)
    for request in log:
        days[request.start_us // (86_400 * SECOND)] += 1
    found += [f"day {day}: {count} requests" for day, count in days.items() if count > world.budget]
    rate = world.budget * CATCH_UP / 86_400
    starts = sorted(request.start_us for request in log)
    for seconds in (10, 600):
        most = int(rate * (seconds + 1)) + 1
        for first, last in zip(starts, starts[most:], strict=False):
            if last - first < seconds * SECOND:
                found.append(f"more than {most} starts within {seconds} s at {first}")
                break
    return found

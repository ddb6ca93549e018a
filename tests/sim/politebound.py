"""The most that any polite schedule could have sent by a time, computed without scheduling anything.

A host alone, asked as early as its rules allow, gives the most that it could take. What hosts share bounds the sums:
a maximum flow from platforms over domains and hosts to addresses. No schedule can beat either; the true best may lie
below (flow splits requests, and hosts wait for each other), so a schedule close to this bound is close to the best.
"""

import itertools
from collections import defaultdict, deque

from limpet.politeness.delays import LONG_DELAY_SECONDS
from sim.politecheck import DOMAIN_CONNECTIONS, PLATFORM_CONNECTIONS, PLATFORM_STARTS, limits_of
from sim.politeworld import SECOND, SETTLE_US, Site, World


def best_by(world: World, at_us: int) -> int:
    """An upper bound on the requests that a polite schedule has begun by `at_us`."""
    open_us = at_us - sum(min(SETTLE_US, at_us - jump_us) for jump_us, _ in world.jumps if jump_us < at_us)
    alone = {site.name: most_alone(world, site, at_us) for site in world.sites}
    network = _Network()
    domains: dict[str, str] = {}
    fastest: dict[str, int] = defaultdict(lambda: 1 << 60)
    for site in world.sites:
        for node in (f"domain {site.domain}", f"platform {site.platform}", f"address {site.address}"):
            fastest[node] = min(fastest[node], site.latency_us)
        network.add(f"domain {site.domain}", site.name, alone[site.name])
        network.add(site.name, f"address {site.address}", alone[site.name])
        domains[site.domain] = site.platform
    for address in {site.address for site in world.sites}:
        connections, starts = limits_of(address)
        node = f"address {address}"
        network.add(node, "end", _most(open_us, connections, starts, fastest[node]))
    for domain, platform in domains.items():
        node = f"domain {domain}"
        most = _most(open_us, DOMAIN_CONNECTIONS, 0, fastest[node])
        network.add(f"platform {platform}" if platform else "begin", node, most)
    for platform in {platform for platform in domains.values() if platform}:
        node = f"platform {platform}"
        network.add("begin", node, _most(open_us, PLATFORM_CONNECTIONS, PLATFORM_STARTS, fastest[node]))
    most = network.flow("begin", "end")
    return min(most, _most_by_budget(world, at_us)) if world.budget else most


def _most(at_us: int, connections: int, starts: int, latency_us: int) -> int:
    by_connections = connections * (at_us // latency_us + 1)
    return min(by_connections, starts * at_us // SECOND + 1) if starts else by_connections


def _most_by_budget(world: World, at_us: int) -> int:
    day_us = 86_400 * SECOND
    whole, rest_us = divmod(at_us, day_us)
    today = min(world.budget, int(world.budget * 1.5 * (rest_us + SECOND) / day_us) + 1)
    return whole * world.budget + today


def most_alone(world: World, site: Site, at_us: int) -> int:
    """Requests of a host that has the world to itself, as early as gap, waits, breaker, restarts and clock allow."""
    floor_us, delay_us = int(world.floor_seconds * SECOND), int(site.crawl_delay_seconds * SECOND)
    settled = [jump_us + SETTLE_US for jump_us, _ in world.jumps]
    restarts = sorted(settled + [back for _, worker, back in world.kills if worker == site.worker])
    now_us, n, done, failures, refusals, trips = floor_us, 0, 0, 0, 0, 0
    while done < site.pages:
        while restarts and restarts[0] <= now_us:
            known = site.crawl_delay_seconds > LONG_DELAY_SECONDS  # then the row tells when it is over
            now_us = max(now_us, restarts.pop(0) + max(floor_us, 0 if known else delay_us))
        for jump_us, _ in world.jumps:
            if jump_us <= now_us < jump_us + SETTLE_US:
                now_us = jump_us + SETTLE_US
        if now_us > at_us:
            break
        answer = site.answer(n)
        end_us = now_us + answer.duration_us
        wait_us = answer.retry_after_seconds * SECOND
        if n > 0 and answer.status == 200:
            done, failures, refusals, trips = done + 1, 0, 0, 0
        elif n > 0:
            failures, refusals = failures + (answer.status == 0), refusals + (answer.status == 429)
            if trips or failures >= 5 or refusals >= 10:
                wait_us, trips = max(wait_us, min(86_400, 600 * 2**trips) * SECOND), trips + 1
        n += 1
        now_us = end_us + max(floor_us, delay_us, min(30 * SECOND, 5 * answer.duration_us), wait_us)
    return n


class _Network:
    """Maximum flow by levels and blocking flows (Dinic 1970)."""

    def __init__(self) -> None:
        self._room: dict[str, dict[str, int]] = defaultdict(dict)

    def add(self, source: str, target: str, room: int) -> None:
        self._room[source][target] = self._room[source].get(target, 0) + room
        self._room[target].setdefault(source, 0)

    def flow(self, source: str, target: str) -> int:
        total = 0
        while levels := self._levels(source, target):
            edges = {node: list(self._room[node]) for node in levels}
            while pushed := self._push(source, target, levels, edges):
                total += pushed
        return total

    def _levels(self, source: str, target: str) -> dict[str, int]:
        levels, waiting = {source: 0}, deque([source])
        while waiting:
            node = waiting.popleft()
            for other, room in self._room[node].items():
                if room > 0 and other not in levels:
                    levels[other] = levels[node] + 1
                    waiting.append(other)
        return levels if target in levels else {}

    def _push(self, source: str, target: str, levels: dict[str, int], edges: dict[str, list[str]]) -> int:
        path = [source]
        while path[-1] != target:
            node = path[-1]
            while edges[node]:
                other = edges[node][-1]
                if self._room[node][other] > 0 and levels.get(other, -1) == levels[node] + 1:
                    path.append(other)
                    break
                edges[node].pop()
            else:
                if len(path) == 1:
                    return 0
                path.pop()
                edges[path[-1]].pop()
        amount = min(self._room[a][b] for a, b in itertools.pairwise(path))
        for a, b in itertools.pairwise(path):
            self._room[a][b] -= amount
            self._room[b][a] += amount
        return amount

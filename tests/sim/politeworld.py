"""Seeded worlds to be polite to: hosts that share domains, platforms and addresses, and what each answers.

Knows nothing of how Limpet works: who shares what is written down as the world is made, not looked up.
"""

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

SECOND: Final = 1_000_000
PLATFORMS: Final = ("github.io", "blogspot.com", "netlify.app", "pages.dev")
CDN_NETWORK: Final = "198.51.100.0/24"


class Answer(NamedTuple):
    """What a host says to its n-th request. `retry_after_seconds` 0 = it does not say."""

    status: int
    duration_us: int
    retry_after_seconds: int = 0


class Site(NamedTuple):
    """One host. Request 0 is robots.txt. Answers follow from the number of the request alone."""

    name: str
    domain: str
    platform: str  # "" = none
    address: str
    worker: int
    pages: int
    latency_us: int
    crawl_delay_seconds: float
    storm: tuple[int, int, int]  # requests from, to: 429 with Retry-After of so many seconds
    outage: tuple[int, int]  # requests from, to: no answer

    def answer(self, n: int) -> Answer:
        """The answer to request `n`."""
        if self.storm[0] <= n < self.storm[1]:
            return Answer(429, self.latency_us, self.storm[2])
        if self.outage[0] <= n < self.outage[1]:
            return Answer(0, self.latency_us)
        return Answer(200, self.latency_us)


SETTLE_US: Final = 15 * SECOND
"""How long nothing may be sent after the wall clock was moved, until it is taken as right."""


class World(NamedTuple):
    """Hosts, workers, and what befalls the machine. Times are microseconds from the start."""

    sites: tuple[Site, ...]
    workers: int
    kills: tuple[tuple[int, int, int], ...]  # (time, worker, back at)
    jumps: tuple[tuple[int, int], ...]  # (time, by how much the wall clock is moved)
    horizon_us: int
    budget: int = 0
    floor_seconds: float = 1.0


def make_world(seed: int, hosts: int, *, days: float = 3.0, workers: int = 4, budget: int = 0) -> World:
    """A world of `hosts` hosts."""
    rng = Random(seed)
    horizon_us = int(days * 86_400 * SECOND)
    sites = _sites(rng, hosts, workers)
    busy_us = 1_800 * SECOND  # most of the work is done early: that is when trouble must come
    times = sorted(rng.randrange(us) for us in [busy_us] * 4 + [horizon_us] * 3)
    kills = tuple((at, rng.randrange(workers), at + rng.randrange(1, 5) * SECOND) for at in times)
    jumps = (
        ()
        if budget
        else tuple((rng.randrange(us), rng.choice([-1, 1]) * 7_200 * SECOND) for us in (busy_us, busy_us, horizon_us))
    )
    return World(sites, workers, kills, tuple(sorted(jumps)), horizon_us, budget)


def _sites(rng: Random, hosts: int, workers: int) -> tuple[Site, ...]:
    servers = _servers(rng, hosts)
    sites: list[Site] = []
    while len(sites) < hosts:
        domain, platform, names = _domain(rng, len(sites))
        worker = rng.randrange(workers)
        for name in names[: hosts - len(sites)]:
            address, latency_us, stormy = rng.choices(servers, [weight for *_, weight in servers])[0][:3]
            sites.append(_site(rng, (name, domain, platform), address, worker, latency_us, stormy=stormy))
    return tuple(sites)


def _servers(rng: Random, hosts: int) -> list[tuple[str, int, bool, int]]:
    """(address, latency, whether its hosts have storms, weight): many small ones, some crowded, a few of a CDN."""
    servers = []
    for n in range(max(8, hosts // 4)):
        crowded = n % 25 == 0
        address = f"198.51.100.{n % 250}" if n % 40 == 1 else f"203.{n // 65_536}.{n // 256 % 256}.{n % 256}"
        latency_us = rng.choice([50, 120, 300, 900, 3_000]) * 1_000
        servers.append((address, latency_us, rng.random() < 0.05, 40 if crowded else 1))
    return servers


def _domain(rng: Random, n: int) -> tuple[str, str, list[str]]:
    if rng.random() < 0.3:
        platform = rng.choices(PLATFORMS, [12, 4, 1, 1])[0]
        domain = f"u{n}.{platform}"
        return domain, platform, [domain]
    domain = f"d{n}.example"
    return domain, "", [f"h{k}.{domain}" for k in range(rng.choice([1, 1, 1, 2, 6]))]


def _site(rng: Random, who: Sequence[str], address: str, worker: int, latency_us: int, *, stormy: bool) -> Site:
    pages = min(400, int(rng.paretovariate(1.1) * 10))
    delay = rng.choice([0, 0, 0, 0, 0, 0, 2, 10, 60, 4_000]) * 1.0
    begin = 2 if stormy else rng.randrange(1, 10)  # where it storms, it does so for all at once
    storm = (
        (begin, begin + rng.randrange(1, 4), rng.choice([5, 30, 600])) if stormy or rng.random() < 0.02 else (0, 0, 0)
    )
    outage = (begin + 3, begin + 3 + rng.randrange(3, 12)) if rng.random() < 0.03 else (0, 0)
    return Site(who[0], who[1], who[2], address, worker, pages, latency_us, delay, storm, outage)

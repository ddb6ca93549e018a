"""A robots.txt that redirects to a host of another worker: asked for by its owner, at its pace, seen from the sites."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from e2e.raw_site import RawCrawl, RawSites, Site, Steps, answer, moved, ok
from limpet.clock import SystemClock
from limpet.model.identity import BUCKETS, SHARDS, bucket_of, shard_of

HOSTS = 8
DELAY_SECONDS = 0.4
RULES = answer(b"200 OK", b"User-agent: *\nDisallow: /secret\n", b"Content-Type: text/plain")
PAGE = ok(b"<a href=/secret>s</a><a href=/open>o</a>")


class Witness:
    """When each host was asked, as the host sees it."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)
        self._clock = SystemClock()

    def saw(self, host: str, data: bytes) -> Callable[[int], Steps]:
        """An answer that is remembered."""

        def steps(_visit: int) -> Steps:
            self.times[host].append(self._clock.monotonic())
            return (data,)

        return steps


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RawCrawl, Witness]]:
    """Each host's robots.txt leads to the next host's rules; two workers."""
    witness = Witness()
    sites = {}
    for number in range(HOSTS):
        host, following = f"127.0.8.{number + 1}", f"127.0.8.{(number + 1) % HOSTS + 1}"
        pages = {"/": PAGE, "/open": ok(b"o"), "/secret": ok(b"s"), "/rules": RULES}
        pages["/robots.txt"] = moved(f"http://{following}:8099/rules".encode())
        sites[host] = Site({path: witness.saw(host, data) for path, data in pages.items()}, host=host, port=8099)
    with RawSites(sites) as raw:
        words = ("--workers", "2", "--delay", f"{DELAY_SECONDS}s", "--patience", "5s")
        yield RawCrawl(tmp_path_factory.mktemp("errands"), raw, *words), witness


def test_the_case_is_met() -> None:
    """Some redirects cross from one worker to the other."""
    owners = [shard_of(bucket_of(f"127.0.8.{number + 1}", BUCKETS), SHARDS) % 2 for number in range(HOSTS)]
    assert any(one != following for one, following in pairwise([*owners, owners[0]]))


def test_every_host_is_crawled_by_the_rules_it_was_led_to(seen: tuple[RawCrawl, Witness]) -> None:
    """Nobody waits, and what the rules of the other host forbid is not asked for."""
    crawl, _ = seen
    assert crawl.waits == {}
    states = {url.partition(":8099")[2]: set() for url in crawl.rows}  # type: dict[str, set[tuple[str, str]]]
    for url, state in crawl.rows.items():
        states[url.partition(":8099")[2]].add(state)
    assert {state for state, _ in states["/"] | states["/open"]} == {"fetched"}
    assert {state for state, _ in states["/secret"]} == {"denied"}
    assert all("/secret" not in crawl.sites.asked(name) for name in crawl.sites._sites)
    assert crawl.result.code == 0, crawl.result


def test_no_host_is_asked_faster_than_its_pace(seen: tuple[RawCrawl, Witness]) -> None:
    """Errands spend the permits of the host that they go to, beside its owner's own requests."""
    _, witness = seen
    gaps = {host: min((b - a for a, b in pairwise(times)), default=math.inf) for host, times in witness.times.items()}
    assert len(gaps) == HOSTS
    assert min(gaps.values()) >= DELAY_SECONDS * 0.95, gaps


def test_the_archive_has_every_answer(seen: tuple[RawCrawl, Witness]) -> None:
    """Each robots.txt and each hop is on record, whichever worker asked."""
    crawl, _ = seen
    assert crawl.verify() == []
    assert crawl.audit() == []
    hops = sum(url.endswith("/rules") for url in crawl.archive)
    assert hops == HOSTS

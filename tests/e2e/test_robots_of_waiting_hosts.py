"""A robots.txt that redirects to a host that is to be left alone for long: it waits too, and the crawl can end."""

from collections.abc import Iterator

import pytest

from e2e.raw_site import RawCrawl, RawSites, Site, answer, moved, ok
from limpet.model.identity import BUCKETS, SHARDS, bucket_of, shard_of
from limpet.testing.web import Pause

PORT = 8098
RULES = answer(b"200 OK", b"User-agent: *\nDisallow:\n", b"Content-Type: text/plain")
REASON = "robots_redirect_to_waiting_host"
SECONDS_MAX = 4.0
LATE = Pause(1.5)  # so the host that is led to has had its say before


def delayed(seconds: int) -> bytes:
    """Rules that ask for a pause between requests."""
    return answer(b"200 OK", b"User-agent: *\nCrawl-delay: %d\n" % seconds, b"Content-Type: text/plain")


def leading_to(host: str) -> Site:
    """A site whose robots.txt lies on another host."""
    return Site({"/": ok(b"x"), "/robots.txt": (LATE, moved(f"http://{host}:{PORT}/rules".encode()))})


def owner(host: str) -> int:
    """Which of two workers asks this host."""
    return shard_of(bucket_of(host, BUCKETS), SHARDS) % 2


def pairs() -> list[tuple[str, str]]:
    """Hosts of different workers: who redirects, and where to."""
    hosts = [f"127.0.7.{number}" for number in range(1, 40)]
    return list(zip([h for h in hosts if owner(h) == 0], [h for h in hosts if owner(h) == 1], strict=False))[:3]


@pytest.fixture(scope="module", params=[1, 2], ids=["one worker", "two workers"])
def crawl(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawCrawl]:
    """Three sites are led to others: one that said Retry-After, and two with crawl-delays, of a day and of 20 s."""
    targets = {
        "told": Site({"/": answer(b"429 Too Many", b"", b"Retry-After: 99999999"), "/rules": RULES}),
        "slow": Site({"/": ok(b"x"), "/rules": RULES, "/robots.txt": delayed(100_000)}),
        "slowish": Site({"/": ok(b"x"), "/rules": RULES, "/robots.txt": delayed(20)}),
    }
    sites: dict[str, Site] = {}
    for (name, target), (source_host, target_host) in zip(targets.items(), pairs(), strict=True):
        source = leading_to(target_host)
        source.host, target.host = source_host, target_host
        source.port = target.port = PORT
        sites |= {name: target, f"to {name}": source}
    with RawSites(sites) as raw:
        words = ("--workers", str(request.param), "--patience", "60s", "--time-limit", f"{SECONDS_MAX}s")
        yield RawCrawl(tmp_path_factory.mktemp("waiting"), raw, *words)


def test_the_run_ends_in_good_order(crawl: RawCrawl) -> None:
    """The time limit holds, also for a hop that waits for its turn: nothing stays leased."""
    assert crawl.result.code != -9, crawl.result  # what the watchdog leaves
    states = {crawl.state(name)[0] for name in ("to told", "to slow", "to slowish")}
    assert states == {"due"}
    assert crawl.verify() == []


def test_the_waiting_host_is_left_alone(crawl: RawCrawl) -> None:
    """Nothing is asked of it but what made it wait."""
    assert [crawl.sites.asked(name) for name in ("told", "slow", "slowish")] == [["/"], [], []]


@pytest.mark.parametrize("name", ["to told", "to slow"])
def test_who_redirects_there_waits_with_a_reason(crawl: RawCrawl, name: str) -> None:
    """Of its own, and it is asked for robots.txt once, not in a loop."""
    assert crawl.waits[f"http://{crawl.sites.authority(name)}"] == REASON
    assert crawl.sites.asked_robots(name) == 1
    assert crawl.sites.asked(name) == []


def test_a_hop_that_was_broken_off_leaves_no_wait(crawl: RawCrawl) -> None:
    """Nobody answered and nobody is to blame: the next run asks at once."""
    assert crawl.waits.get(f"http://{crawl.sites.authority('to slowish')}", "") == ""

"""The governor inside the whole ring: addresses, budget, breaker and proof as a site would see them."""

import asyncio
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from limpet.config import Settings
from limpet.config.settings import Politeness, Retries, Work
from limpet.fetch import NetFailure
from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.testing.loop import VirtualLoop, run_virtual
from limpet.testing.web import FakeAnswer
from limpet.urlstore import RobotsFetch, UrlRow
from limpet.urlstore.sqlite import SqliteUrlStore
from limpet.urlstore.types import HostRow
from sim.politering import PoliteRing

PUBLIC = "93.184.216.34"
DAY_US = 86_400_000_000
SETTINGS = Settings(
    retries=Retries(base_seconds=2.0, factor=2.0),
    work=Work(commit_interval_seconds=0.0, reconcile_seconds=60.0),
    min_free_bytes=0,
)


def polite(root: Path, **politeness: float) -> PoliteRing:
    """A ring under these settings."""
    wishes = msgspec.structs.replace(Politeness(), **politeness)
    return PoliteRing(root, msgspec.structs.replace(SETTINGS, politeness=wishes))


class Left:
    """What a crawl left behind."""

    def __init__(self, ring: PoliteRing) -> None:
        self.rows: list[UrlRow] = []
        self.hosts: list[HostRow] = []
        self.requests = 0
        self._day = ring.clock.wall_us() // DAY_US
        run_virtual(ring.with_stores(self._read), VirtualLoop())

    async def _read(self, store: SqliteUrlStore) -> None:
        self.rows += await store.rows()
        self.hosts += await store.hosts()
        self.requests += await store.requests(self._day)

    def states(self) -> Counter[State]:
        """Rows by state."""
        return Counter(row.state for row in self.rows)


def test_hosts_of_one_address_are_one_server_to_the_whole_ring(tmp_path: Path) -> None:
    """2 connections, 5 starts a second, robots.txt included; requests go where they were permitted; all counted."""
    ring = polite(tmp_path)
    seeds = []
    for n in range(12):
        ring.web.addresses[f"h{n}.example"] = PUBLIC
        ring.web.site(f"h{n}.example", 5, latency_seconds=0.05)
        seeds.append(f"http://h{n}.example/")
    ring.crawl(seeds, 60.0)
    log = ring.web.log
    starts = sorted(visit.start_us for visit in log)
    assert len(log) == 12 * 7
    assert all(later - earlier >= 1_000_000 for earlier, later in zip(starts, starts[5:], strict=False))
    for visit in log:
        at_once = sum(v.start_us <= visit.start_us < (v.end_us or 0) for v in log)
        assert at_once <= 2
        assert visit.request.addresses == (PUBLIC,)
    assert max(starts) - min(starts) < 1.05 * (len(log) / 5) * 1e6
    left = Left(ring)
    assert left.states() == {State.FETCHED: 12 * 6}
    assert left.requests == len(log)
    assert {host.addresses for host in left.hosts if host.addresses} <= {PUBLIC}


def test_the_budget_holds_over_a_restart(tmp_path: Path) -> None:
    """A ring that starts again on the same day knows what was sent before: three requests are left, three go out."""
    ring = polite(tmp_path, budget_per_day=10_000)
    ring.web.site("a.example", 60)
    ring.crawl(["http://a.example/"], 60.0)
    before, day = len(ring.web.log), ring.clock.wall_us() // DAY_US
    assert before > 3
    assert Left(ring).requests == before

    async def spend(store: SqliteUrlStore) -> None:
        if await store.host("a.example") is not None:
            asked = Outcome(fp=b"", fetched_us=day * DAY_US, url="http://a.example/robots.txt", status=200)
            lines = [msgspec.structs.replace(asked, fetched_us=day * DAY_US + n) for n in range(10_000 - before - 3)]
            fetches = [RobotsFetch(outcome=line, hops="P", via="", cause=b"") for line in lines]
            await asyncio.gather(*map(store.put_robots_fetch, fetches))

    ring.again(spend, 600.0)
    assert len(ring.web.log) == before + 3


@pytest.fixture
def dead(tmp_path: Path) -> PoliteRing:
    """A host whose pages refuse every connection."""
    ring = polite(tmp_path)
    ring.web.site("dead.example", 30, FakeAnswer(failure=NetFailure(kind="refused", detail="nobody listens")))
    return ring


def test_a_host_in_trouble_is_left_alone_and_its_urls_are_not_used_up(dead: PoliteRing) -> None:
    """Five failures, then ten minutes of silence, then one probe; probes cost the URLs nothing."""
    dead.crawl(["http://dead.example/"], 1_500.0)
    tries = [visit for visit in dead.web.log if visit.url != "http://dead.example/" and "robots" not in visit.url]
    assert len(tries) == 6
    silence_us = tries[5].start_us - tries[4].start_us
    assert 600e6 <= silence_us <= 760e6, "ten minutes and a quarter at most, and what judging takes"
    left = Left(dead)
    (host,) = [row for row in left.hosts if row.host == "dead.example"]
    assert (host.trips, host.wait_reason) == (2, "breaker")
    assert max(row.failures for row in left.rows) == 1
    assert left.states() == {State.FETCHED: 1, State.DUE: 30}


def test_after_a_week_everything_that_waits_is_given_up_with_one_notice(
    dead: PoliteRing, caplog: pytest.LogCaptureFixture
) -> None:
    """The probe at the end of the week decides."""
    dead.crawl(["http://dead.example/"], 60.0)
    left = Left(dead)
    (host,) = [row for row in left.hosts if row.host == "dead.example"]
    old = msgspec.structs.replace(host, broken_us=dead.clock.wall_us() - 8 * DAY_US, wait_us=0)

    async def age(store: SqliteUrlStore) -> None:
        if await store.host("dead.example") is not None:
            await store.put_host(old)

    dead.again(age, 30.0)
    left = Left(dead)
    assert left.states() == {State.FETCHED: 1, State.FAILED: 30}
    assert {row.reason for row in left.rows if row.state is State.FAILED} == {"host_unreachable"}
    told = [record for record in caplog.records if record.name == "limpet.notice"]
    assert len(told) == 1

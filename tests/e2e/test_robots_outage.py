"""Failures that strike unrelated hosts at once are ours, also where robots.txt is what could not be had."""

from pathlib import Path

from e2e.command import limpet
from e2e.raw_site import RawCrawl, RawSites, Site, ok

NOBODY = 18_096
"""A port where nobody listens."""


def test_robots_that_fail_everywhere_at_once_are_put_off_by_half_a_minute(tmp_path: Path) -> None:
    """Hosts that had answered: their other servers wait half a minute, no clock of theirs runs, nothing failed."""
    names = [f"127.0.6.{number}" for number in range(1, 4)]
    sites = {name: Site({"/": ok(f"<a href=http://{name}:{NOBODY}/>x</a>".encode())}, host=name) for name in names}
    with RawSites(sites) as raw:
        words = ("--workers", "1", "--patience", "4s", "--time-limit", "60s", "--scope", "any", "--limit", "50")
        crawl = RawCrawl(tmp_path, raw, *words)
        assert (crawl.result.code, crawl.result.json["ended"]) == (3, "done"), crawl.result
        assert crawl.waits == {f"http://{name}:{NOBODY}": "robots_outage" for name in names}
        assert {crawl.state(name)[0] for name in names} == {"fetched"}
        assert {one["breaker_trips"] for one in limpet("hosts", crawl.folder, "--json").json} == {0}
        assert crawl.verify() == []

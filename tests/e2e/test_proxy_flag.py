"""`--proxy` through the command line: everything goes through it, and nothing of its faults is the site's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.command import limpet
from e2e.in_thread import InThread
from e2e.raw_site import RawCrawl, RawSites, Site, moved, ok
from limpet.clock import SystemClock
from limpet.testing.proxy import FakeProxy

SECRET = "user:s3cret-word"  # noqa: S105 - nobody's


SITES = {
    "one": Site({"/": ok(b"<a href=/next>x</a>"), "/next": moved(b"/there"), "/there": ok(b"t")}),
    "robots": Site({"/": ok(b"r"), "/robots.txt": moved(b"/rules"), "/rules": ok(b"User-agent: *\nAllow: /\n")}),
}


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RawCrawl, FakeProxy]]:
    """One crawl through a proxy that wants credentials, given in the environment."""
    proxy = FakeProxy()
    with InThread(proxy), RawSites(SITES) as sites:
        words = ("--proxy", proxy.url, "--workers", "1", "--patience", "1s", "-v")
        env = {"LIMPET_PROXY_CREDENTIALS": SECRET}
        yield RawCrawl(tmp_path_factory.mktemp("proxied"), sites, *words, env=env), proxy


def test_pages_robots_and_redirects_go_through_the_proxy(proxied: tuple[RawCrawl, FakeProxy]) -> None:
    """As many tunnels as requests, each to a checked address, each with the credentials."""
    crawl, proxy = proxied
    assert crawl.result.code == 0, crawl.result
    assert crawl.state("one", "/there") == ("fetched", "")
    assert crawl.state("robots") == ("fetched", "")
    requests = sum(len(crawl.sites.heads(name)) for name in SITES)
    assert len(proxy.asked) == requests == sum(crawl.sites.connections(name) for name in SITES)
    assert set(proxy.targets) == {crawl.sites.authority(name) for name in SITES}
    assert all(b"Proxy-Authorization: Basic " in head for head in proxy.asked)


def test_credentials_are_written_nowhere(proxied: tuple[RawCrawl, FakeProxy]) -> None:
    """Not in logs, settings, shards or records, in clear or in base64."""
    crawl, _ = proxied
    blocks = b"".join(stored.block for found in crawl.archive.values() for stored in found)
    files = [path for path in crawl.folder.rglob("*") if path.is_file()]
    for data in [blocks, *(path.read_bytes() for path in files)]:
        assert b"s3cret" not in data
        assert b"czNjcmV0" not in data
        assert b"dXNlcjpzM2NyZXQ" not in data


def test_a_proxy_that_fails_costs_the_sites_nothing(tmp_path: Path) -> None:
    """No URL has failed, none was tried in the clear, and the wait says whose fault it is."""
    proxy = FakeProxy(b"HTTP/1.1 407 No\r\n\r\n")
    with InThread(proxy), RawSites({"one": SITES["one"]}) as sites:
        words = ("--proxy", proxy.url, "--workers", "1", "--patience", "1s")
        crawl = RawCrawl(tmp_path, sites, *words)
        assert crawl.result.code == 3
        assert crawl.state("one") == ("due", "")
        assert crawl.sites.connections("one") == 0
        assert list(crawl.waits.values()) == ["robots_proxy"]


@pytest.mark.slow  # it waits for real
def test_robots_are_asked_for_again_half_a_minute_after_a_proxy_fault(tmp_path: Path) -> None:
    """The fault is ours: no back-off of robots.txt runs, nothing is counted, and a run that begins later goes on."""
    proxy = FakeProxy(b"HTTP/1.1 407 No\r\n\r\n")
    with InThread(proxy), RawSites({"one": SITES["one"]}) as sites:
        words = ("--proxy", proxy.url, "--workers", "1", "--patience", "1s")
        crawl = RawCrawl(tmp_path, sites, *words)
        (waiting,) = crawl.result.json["waiting"]
        (row,) = limpet("hosts", crawl.folder, "--json").json
        now_us = SystemClock().wall_us()
        assert 0 < row["next_us"] - now_us <= 30_000_000
        assert (waiting["reason"], row["next_reason"], row["breaker_trips"]) == ("robots_proxy", "robots_proxy", 0)
        assert (
            limpet("hosts", crawl.folder, row["host"], "--json").json["authorities"][0]["wait_reason"] == "robots_proxy"
        )
        asked = len(proxy.asked)
        assert asked == 1, "and then nobody is asked for half a minute"
        proxy.reply = None
        mended, _ = crawl.run("--proxy", proxy.url, "--workers", "1", "--patience", "40s")
        assert mended.code == 0, mended
        assert crawl.state("one") == ("fetched", "")
        assert crawl.audit() == crawl.verify() == []


def test_credentials_on_the_command_line_are_refused(tmp_path: Path) -> None:
    """Everybody on the machine could read them; the complaint does not repeat them."""
    told = limpet("crawl", "http://127.0.0.1/", "--into", tmp_path / "c", "--proxy", f"http://{SECRET}@127.0.0.1:1")
    assert told.code == 2
    assert "LIMPET_PROXY_CREDENTIALS" in told.complaint
    assert "s3cret" not in told.stderr

"""Host names through the command line: those that exist, those that do not, servers that fail."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.in_thread import InThread
from e2e.raw_site import RawCrawl, RawSites, Site, ok
from limpet.testing.dns import SERVFAIL, DnsAnswer, FakeDns

HERE = "127.0.9.77"


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RawCrawl, FakeDns]]:
    """One crawl of a name that exists, one that does not, and one whose servers fail."""
    names = {"here.test": DnsAnswer(addresses=(HERE,)), "broken.test": DnsAnswer(code=SERVFAIL)}
    sites = {"here": Site({"/": ok(b"<a href=/next>x</a>"), "/next": ok(b"n")}, host=HERE, name="here.test")}
    dns = FakeDns(names)
    with InThread(dns), RawSites(sites) as raw:
        config = f"""
[fetching]
nameservers = ["{dns.address}"]
[retries]
base_seconds = 0.1
factor = 1.0
nxdomain_seconds = 0.3
"""
        path: Path = tmp_path_factory.mktemp("names")
        yield (
            RawCrawl(
                path,
                raw,
                "--workers",
                "1",
                "--patience",
                "6s",
                config=config,
                owned=("here.test", "gone.test", "broken.test"),
                seeds=["http://gone.test/a", "http://gone.test/b", "http://broken.test/"],
            ),
            dns,
        )


def test_a_name_of_the_given_server_is_crawled(crawl: tuple[RawCrawl, FakeDns]) -> None:
    """`nameservers` are asked instead of the machine's."""
    assert crawl[0].state("here", "/next") == ("fetched", "")
    assert "here.test" in crawl[1].asked


def test_a_name_that_does_not_exist_is_given_up_after_three_tries(crawl: tuple[RawCrawl, FakeDns]) -> None:
    """Not before, and not for ever; its URLs say why."""
    rows = {url: state for url, state in crawl[0].rows.items() if "gone.test" in url}
    assert set(rows.values()) == {("failed", "dns_nxdomain")}
    assert len(rows) == 2
    assert crawl[0].result.code == 3


def test_servers_that_fail_are_no_fact_about_the_name(crawl: tuple[RawCrawl, FakeDns]) -> None:
    """The authority waits, and nothing of it has failed."""
    assert crawl[0].rows["http://broken.test/"][0] == "due"
    assert crawl[0].waits["http://broken.test"] == "robots_dns"

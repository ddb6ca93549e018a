"""`--accept-invalid-cert HOST`: that host and no other, and the archive says so."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.command import limpet
from e2e.raw_site import RawCrawl, RawSites, Site, ok, ours
from limpet.warc import parse_fields
from unit.fetch.test_wire_tls import server_context


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawCrawl]:
    """Two hosts with certificates that nobody vouches for, one of them accepted."""
    page = {"/": ok(b"<a href=/next>x</a>"), "/next": ok(b"n")}
    sites = {
        "taken": Site(page, tls=server_context(), host="127.0.0.1", name="localhost"),
        "refused": Site(page, tls=server_context(), host="127.0.0.1"),
    }
    with RawSites(sites) as raw:
        yield RawCrawl(
            tmp_path_factory.mktemp("certificates"),
            raw,
            *("--accept-invalid-cert", "localhost", "--workers", "1", "--patience", "1s"),
            config="[retries]\nbase_seconds = 0.1\n",
            owned=("127.0.0.0/8", "localhost"),
        )


def test_only_the_named_host_is_crawled(crawl: RawCrawl) -> None:
    """The other waits for its robots.txt, with the reason."""
    assert crawl.state("taken", "/next") == ("fetched", "")
    assert crawl.sites.heads("refused") == []
    assert list(crawl.waits.values()) == ["robots_tls_certificate"]


def test_outcome_and_metadata_record_say_so(crawl: RawCrawl) -> None:
    """Of pages and of robots.txt: whoever reads the archive knows what it is worth."""
    (outcome,) = crawl.show("taken")["outcomes"]
    assert outcome["insecure_tls"] is True
    assert outcome["detail"].startswith("accepted although invalid: certificate: ")
    told = [
        parse_fields(record.block).get("insecure-tls")
        for segment in crawl.segments
        for record in ours(segment)
        if record.type == "metadata"
    ]
    assert told == ["accepted"] * 3
    assert crawl.verify() == []
    assert crawl.audit() == []


def test_what_is_no_host_is_refused(tmp_path: Path) -> None:
    """A URL or a list of hosts is a mistake, told before anything is done."""
    told = limpet("crawl", "https://localhost/", "--into", tmp_path / "c", "--accept-invalid-cert", "https://x/")
    assert told.code == 2
    assert "--accept-invalid-cert" in told.complaint

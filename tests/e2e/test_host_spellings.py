"""A host is asked at one pace, however its name is spelled."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from e2e.raw_site import RawCrawl, RawSites, Site, Steps, ok
from limpet.clock import SystemClock

CRAWL_DELAY_SECONDS = 1.0
ROBOTS_BODY = f"User-agent: *\nCrawl-delay: {CRAWL_DELAY_SECONDS:g}\n".encode()


def test_a_dot_at_the_end_of_a_name_makes_no_second_host(tmp_path: Path) -> None:
    """`h.` and `h` are one machine (RFC 3986 §3.2.2): one connection, one gap, whichever name a link uses."""
    clock = SystemClock()
    asked: list[float] = []

    def noting(body: bytes) -> Callable[[int], Steps]:
        def answer(_visit: int) -> Steps:
            asked.append(clock.monotonic())
            return (ok(body),)

        return answer

    site = Site(answers={}, name="localhost", host="127.0.0.1", default=noting(b""))
    answers = {"/robots.txt": ok(ROBOTS_BODY, b"Content-Type: text/plain")}
    with RawSites({"h": site}) as sites:
        port = sites.authority("h").rpartition(":")[2].encode()
        links = b"".join(b"<a href='http://localhost.:%s/%d'>d</a><a href='/%d'>p</a>" % (port, n, n) for n in range(2))
        site.answers = {**answers, "/": noting(links)}
        crawl = RawCrawl(tmp_path, sites, "--scope", "domain", owned=("localhost", "127.0.0.0/8"))
    assert len(asked) == 5
    assert len(crawl.rows) == 5
    gaps = [after - before for before, after in pairwise(asked)]
    assert min(gaps) >= CRAWL_DELAY_SECONDS - 0.01
    assert crawl.audit() == []

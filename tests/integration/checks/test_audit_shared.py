"""`audit` and what hosts share: an honest archive is called polite, and each violation planted in it is named.

One archive, one plant at a time: which finding must appear, of which URL, and none besides.
"""

import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import structs

from integration.crawl_maker import Sent, answer, make_crawl, robots
from integration.planting import noted
from limpet.config import Settings
from limpet.config.settings import Politeness, SharedRange
from limpet.reconciler.audit import audit
from limpet.reconciler.report import Report

DAY = 86_400.0
BUSY = answer(503, b"", b"Retry-After: 60")
DELAYED = b"User-agent: *\nCrawl-delay: 10\n"

ADDRESSES = {
    **{f"{name}.example.com": f"203.0.113.{number}" for number, name in enumerate("abc", 1)},  # one domain
    **{f"t{number}.github.io": f"198.51.100.{number}" for number in range(1, 10)},  # one platform
    **{f"s{number}.test": "203.0.113.50" for number in range(1, 7)},  # one address
    **{f"v{number}.test": f"2001:db8::{number}" for number in range(1, 4)},  # one /64
    "slow.test": "203.0.113.60",
    "down.test": "203.0.113.61",
}


def to(host: str, at: float, path: str = "/", **changes: object) -> Sent:
    """A page of a host."""
    return Sent(url=f"http://{host}{path}", at=at, ip=ADDRESSES[host], **changes)  # type: ignore[arg-type] # of Sent


def several(hosts: Sequence[str], apart: float, seconds: float, **changes: object) -> list[Sent]:
    """A page of each host, from the 100th second on, starts so far apart."""
    return [to(host, 100 + number * apart, "/", seconds=seconds, **changes) for number, host in enumerate(hosts)]


def named(prefix: str, suffix: str = "") -> list[str]:
    """Hosts by name."""
    return [host for host in ADDRESSES if host.startswith(prefix) and host.endswith(suffix)]


TENANTS, SIX = named("t", ".github.io"), named("v")
NEIGHBOURS = [f"s{number}.test" for number in range(1, 7)]
FAMILY = named("", ".example.com")


def honest() -> list[Sent]:
    """Every host's robots.txt and first page, a second and more apart; as much at once as is allowed, later on."""
    found: list[Sent] = []
    for number, (host, ip) in enumerate(ADDRESSES.items()):
        text = DELAYED if host == "slow.test" else b"User-agent: *\nDisallow: /private\n"
        asked = structs.replace(robots(number, text, host), ip=ip)
        found.append(structs.replace(asked, wire=answer(503)) if host == "down.test" else asked)
    found += [to(FAMILY[0], 40, "/first", seconds=4), to(FAMILY[1], 41, "/first", seconds=4)]
    found += [to(host, 50 + 0.25 * number, "/first", seconds=9) for number, host in enumerate(TENANTS[:8])]
    found += [to(host, 40 + 0.2 * number, "/first") for number, host in enumerate(NEIGHBOURS)]
    return found


PLANTS: dict[str, tuple[str, str, list[Sent]]] = {
    "a disallowed fetch": ("disallowed", "http://v1.test/private", [to("v1.test", 100, "/private")]),
    "a copy older than a day": ("expired_copy", "http://v1.test/", [to("v1.test", DAY + 100)]),
    "robots.txt was down": ("no_copy", "http://down.test/", [to("down.test", 400)]),
    "a gap too short": ("gap_too_short", "http://v1.test/b", [to("v1.test", 100), to("v1.test", 100.6, "/b")]),
    "crawl-delay": (
        "crawl_delay_ignored",
        "http://slow.test/b",
        [to("slow.test", 100, gap=10.0), to("slow.test", 105, "/b", gap=10.0)],
    ),
    "two connections a host": (
        "overlap",
        "http://v1.test/b",
        [to("v1.test", 100, seconds=9), to("v1.test", 105, "/b")],
    ),
    "three connections a domain": (
        "too_many_connections",
        f"http://{FAMILY[2]}/",
        several(FAMILY, 0.3, 5),
    ),
    "a connection that is still being made is one": (
        "too_many_connections",
        f"http://{FAMILY[2]}/",
        several(FAMILY, 0.3, 0.1, connect=5.0),
    ),
    "nine connections a platform": (
        "too_many_connections",
        f"http://{TENANTS[8]}/",
        several(TENANTS, 0.25, 9),
    ),
    "six starts a second a platform": ("starts_too_close", "http://t5.github.io/", several(TENANTS[:6], 0.17, 0.05)),
    "three connections an address": ("too_many_connections", "http://s3.test/", several(NEIGHBOURS[:3], 0.3, 5)),
    "ten starts a second an address": ("starts_too_close", "http://s4.test/", several(NEIGHBOURS[:4], 0.1, 0.02)),
    "three connections a /64": ("too_many_connections", "http://v3.test/", several(SIX, 0.3, 5)),
    "Retry-After": (
        "retry_after_ignored",
        "http://v1.test/b",
        [to("v1.test", 100, wire=BUSY), to("v1.test", 130, "/b")],
    ),
    "a busy answer without a time": (
        "own_wait_ignored",
        "http://v1.test/b",
        [to("v1.test", 100, wire=answer(429)), to("v1.test", 120, "/b")],
    ),
    "a host in trouble": (
        "breaker_ignored",
        "http://v1.test/b",
        [*(to("v1.test", 100 + 2 * n, f"/{n}", wire=answer(500)) for n in range(5)), to("v1.test", 300, "/b")],
    ),
    "an address with three hosts that must wait": (
        "address_not_spared",
        "http://s4.test/",
        [*several(NEIGHBOURS[:3], 0.5, 0.1, wire=BUSY), to("s4.test", 130)],
    ),
    "another name than ours": (
        "wrong_agent",
        "http://v1.test/",
        [to("v1.test", 100, request=b"GET / HTTP/1.1\r\nHost: v1.test\r\nUser-Agent: Mozilla/5.0\r\n\r\n")],
    ),
}


def judged(path: Path, planted: Sequence[Sent], settings: Settings | None = None) -> Report:
    """The audit of the honest archive with something planted in it."""
    sent = sorted([*honest(), *planted], key=lambda one: one.at)
    return audit(make_crawl(path / "crawl", sent, settings=settings))


def found(report: Report) -> list[tuple[str, str]]:
    return [(finding.kind, finding.subject) for finding in report.findings]


def test_an_honest_archive_is_called_polite(tmp_path: Path) -> None:
    """As many connections and starts as the ceilings allow, and everything was looked at."""
    report = judged(tmp_path, [])
    assert (report.findings, report.notes) == ([], [])
    keys = {name: count for name, count in report.checked.items() if name.startswith("ceilings_")}
    assert keys == {"ceilings_domain": 1, "ceilings_platform": 1, "ceilings_address": 3 + 9 + 1 + 1 + 2}
    assert report.checked["hosts"] == len(ADDRESSES)


@pytest.mark.parametrize("plant", PLANTS)
def test_each_planted_violation_is_found_and_nothing_else(tmp_path: Path, plant: str) -> None:
    """Ten kinds and more, one archive each."""
    kind, subject, sent = PLANTS[plant]
    report = judged(tmp_path, sent)
    assert found(report) == [(kind, subject)]


def test_the_budget_of_a_day_is_a_ceiling(tmp_path: Path) -> None:
    """Every request of a UTC day counts; so many as are allowed are no violation."""
    count = len(honest())
    assert judged(tmp_path / "kept", [], Settings(politeness=Politeness(budget_per_day=10**6))).findings == []
    report = judged(tmp_path / "broken", [], Settings(politeness=Politeness(budget_per_day=count - 1)))
    assert {kind for kind, _ in found(report)} == {"budget_exceeded", "starts_too_close"}
    assert any(f"{count} requests" in finding.detail for finding in report.findings)
    assert all("crawl: " in finding.detail for finding in report.findings if finding.kind == "starts_too_close")


def test_hosts_of_ones_own_share_nothing_that_is_bounded(tmp_path: Path) -> None:
    """The operator's private addresses and hosts: many connections at once; one connection a host stays."""
    crowd = [
        *several(NEIGHBOURS[:4], 0.01, 5),
        *several(FAMILY, 0.01, 5),
        *several(TENANTS, 0.01, 5),
    ]
    settings = Settings(owned=tuple(ADDRESSES))
    assert judged(tmp_path / "all", crowd, settings).findings == []
    stranger = Settings(owned=tuple(host for host in ADDRESSES if host != "a.example.com"))
    report = judged(tmp_path / "one", crowd, stranger)
    assert {finding.detail.partition(":")[0] for finding in report.findings} == {"domain example.com"}


def test_a_public_address_is_owned_only_if_the_site_says_so(tmp_path: Path) -> None:
    """The operator's word is not enough there: floor and ceilings hold for a host whose robots.txt does not name us."""
    ours = Settings(owned=("mine.test", "8.8.8.8"))

    def crawl(text: bytes) -> list[Sent]:
        first = structs.replace(robots(0, text, "mine.test"), ip="8.8.8.8")
        pages = [Sent(url=f"http://mine.test/{n}", at=0.2 + n * 0.2, ip="8.8.8.8", gap=0.0) for n in range(1, 5)]
        return [first, *pages]

    named_us = audit(make_crawl(tmp_path / "named", crawl(b"User-agent: limpet\nDisallow:\n"), settings=ours))
    assert named_us.findings == []
    unnamed = audit(make_crawl(tmp_path / "unnamed", crawl(b"User-agent: *\nDisallow:\n"), settings=ours))
    assert {kind for kind, _ in found(unnamed)} == {"gap_too_short", "gap_understated"}


def test_a_named_network_raises_the_ceiling_of_its_addresses(tmp_path: Path) -> None:
    """`shared_ranges` says which addresses stand for more than one server."""
    cdn = SharedRange(networks=("203.0.113.48/29",))
    crowd = several(NEIGHBOURS, 0.03, 5)
    assert found(judged(tmp_path / "plain", crowd)) != []
    settings = Settings(politeness=Politeness(shared_ranges={"cdn": cdn}))
    assert judged(tmp_path / "named", crowd, settings).findings == []


def test_a_reader_that_cannot_judge_is_named(tmp_path: Path) -> None:
    """A file that protego cannot bear is judged by the others, and how many fetches that concerns is said."""
    hostile = b"".join(b"User-agent: a%d\n" % number for number in range(3_000)) + b"Disallow: /x\n"
    sent = [robots(0, hostile), Sent(url="http://a.test/", at=2), Sent(url="http://a.test/y", at=4)]
    report = audit(make_crawl(tmp_path / "crawl", sent))
    assert (report.findings, noted(report)) == ([], {"reader_absent"})
    assert report.notes[0].detail.startswith("2 fetches")


@pytest.mark.slow
def test_an_audit_takes_bounded_memory_and_linear_time(tmp_path: Path) -> None:
    """Three times the requests: no more of Python's memory, and about three times the processor time."""
    spent = [_audited(tmp_path / str(hosts), hosts) for hosts in (100, 300)]
    (few_seconds, few_bytes), (many_seconds, many_bytes) = spent
    assert many_bytes < few_bytes + 1_000_000
    assert many_seconds < 6 * few_seconds


def _audited(path: Path, hosts: int) -> tuple[float, int]:
    """Processor time of an audit of that many hosts, and the most memory that its objects took."""
    sent: list[Sent] = []
    for number in range(hosts):
        host, at = f"h{number}.d{number // 3}.example", number * 0.5
        sent.append(robots(at, host=host))
        sent += [Sent(url=f"http://{host}/{page}", at=at + 2 + 2 * page) for page in range(20)]
    folder = make_crawl(path, sent)
    audit(folder)  # suffix lists and the like are read once
    tracemalloc.start()
    began = time.process_time()
    try:
        report = audit(folder)
        return time.process_time() - began, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        assert (report.findings, report.checked["requests"]) == ([], hosts * 21)

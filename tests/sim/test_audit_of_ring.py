"""The auditor over whole rings: what the governor permits it calls polite, what a governor too lax permits it finds."""

import os
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from limpet.config import Settings
from limpet.config.settings import Politeness, Retries, Work
from limpet.fetch import FetchRequest, NetFailure
from limpet.reconciler.audit import audit
from limpet.reconciler.report import Report
from limpet.testing.loop import EPOCH_US
from limpet.testing.web import FakeAnswer, Handler
from limpet.urlstore.sqlite import SqliteUrlStore
from sim.politering import HTML, PoliteRing

SERVER = "93.184.216.34"
STRICT = Politeness(floor_seconds=1.0)
BASE = Settings(
    retries=Retries(base_seconds=2.0, factor=2.0),
    work=Work(commit_interval_seconds=0.0, reconcile_seconds=60.0),
    min_free_bytes=0,
)
HOSTS = {
    **{f"h{n}.example": SERVER for n in range(6)},  # one address
    **{f"n{n}.family.example": f"93.184.217.{n + 1}" for n in range(5)},  # one domain
    **{f"t{n}.github.io": f"2606:2800:{n + 1:x}::1" for n in range(12)},  # one platform
}


def crawled(root: Path, in_force: Politeness, told: Politeness = STRICT) -> Report:
    """The audit of a ring that went by `in_force`, while its folder says that it went by `told`."""
    ring = PoliteRing(root, msgspec.structs.replace(BASE, politeness=in_force))
    ring.folder.store_settings(msgspec.structs.replace(BASE, politeness=told))
    os.utime(root / "crawl" / "settings.json", ns=(EPOCH_US * 1000, EPOCH_US * 1000))
    for number, (host, address) in enumerate(HOSTS.items()):
        ring.web.addresses[host] = address
        page = FakeAnswer(headers=(HTML,), body=b"a page", remote_ip=address, latency_seconds=0.05 + 0.3 * (number % 4))
        ring.web.site(host, 6, page)
        ring.web.route(f"http://{host}/3", _busy_once(page))
    ring.crawl([f"http://{host}/" for host in HOSTS], 240.0)
    assert ring.ports.disk is not None
    return audit(ring.folder, disk=ring.ports.disk)


def _busy_once(page: FakeAnswer) -> Handler:
    """Told to come back later, the first time."""
    asked: list[str] = []

    def answer(request: FetchRequest, _now_us: int) -> FakeAnswer:
        asked.append(request.url)
        busy = msgspec.structs.replace(page, status=503, headers=((b"Retry-After", b"7"),), body=b"")
        return busy if len(asked) == 1 else page

    return answer


def test_what_the_governor_permits_the_auditor_calls_polite(tmp_path: Path) -> None:
    """Hosts that share an address, a domain, a platform; waits; everything was under some ceiling."""
    report = crawled(tmp_path, STRICT)
    assert report.findings == []
    assert report.notes == []
    assert report.checked["pages"] >= len(HOSTS) * 8
    assert report.checked["ceilings_address"] == 1 + 5 + 12
    assert (report.checked["ceilings_domain"], report.checked["ceilings_platform"]) == (1, 1)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"floor_seconds": 0.9}, "gap_understated"),
        ({"latency_multiple": 1.0}, "gap_too_short"),
        ({"domain_connections_max": 3}, "too_many_connections"),
        ({"platform_connections_max": 12, "platform_starts_per_second_max": 40.0}, "starts_too_close"),
        ({"address_connections_max": 3}, "too_many_connections"),
        ({"address_starts_per_second_max": 8.0}, "starts_too_close"),
    ],
)
def test_a_governor_that_is_a_little_too_lax_is_found_out(tmp_path: Path, change: dict[str, float], kind: str) -> None:
    """One ceiling a little too high, everything else as it should be."""
    report = crawled(tmp_path, msgspec.structs.replace(STRICT, **change))
    assert kind in {finding.kind for finding in report.findings}


def test_a_budget_that_was_not_kept_is_found(tmp_path: Path) -> None:
    """The folder says a hundred a day, and more were sent."""
    kept = crawled(tmp_path / "kept", msgspec.structs.replace(STRICT, budget_per_day=100_000))
    assert kept.findings == []
    lax = crawled(tmp_path / "lax", STRICT, msgspec.structs.replace(STRICT, budget_per_day=100))
    assert {finding.kind for finding in lax.findings} == {"budget_exceeded", "starts_too_close"}


TROUBLE = {
    "broken.example": FakeAnswer(status=500),
    "closed.example": FakeAnswer(status=403),
    "busy.example": FakeAnswer(status=503),
    "limited.example": FakeAnswer(status=429),
    "deaf.example": FakeAnswer(failure=NetFailure(kind="timeout", detail="nothing came")),
    "torn.example": FakeAnswer(headers=(HTML,), body=b"half a page", sent_body_bytes=4, ending="reset"),
}


def test_hosts_in_trouble_are_left_alone_as_the_auditor_wants_it(tmp_path: Path) -> None:
    """Hours with hosts that fail, refuse or are busy, one whose robots.txt is, and a restart in between."""
    ring = PoliteRing(tmp_path, msgspec.structs.replace(BASE, politeness=STRICT))
    ring.folder.store_settings(ring.settings)
    os.utime(tmp_path / "crawl" / "settings.json", ns=(EPOCH_US * 1000, EPOCH_US * 1000))
    for number, (host, trouble) in enumerate(TROUBLE.items()):
        address = f"93.184.218.{number + 1}"
        ring.web.addresses[host] = address
        ring.web.site(host, 12, msgspec.structs.replace(trouble, remote_ip=address))
    ring.web.addresses["shut.example"] = "93.184.218.99"
    ring.web.route("http://shut.example/robots.txt", FakeAnswer(status=503, remote_ip="93.184.218.99"))
    ring.crawl([*(f"http://{host}/" for host in TROUBLE), "http://shut.example/"], 4_000.0)

    async def nothing(_store: SqliteUrlStore) -> None:
        return

    ring.again(nothing, 4_000.0)
    assert ring.ports.disk is not None
    report = audit(ring.folder, disk=ring.ports.disk)
    assert report.findings == []
    visits = Counter(visit.url.split("/")[2] for visit in ring.web.log)
    assert set(visits) == {*TROUBLE, "shut.example"}
    assert all(visits[host] > 6 for host in ("broken.example", "busy.example", "deaf.example"))

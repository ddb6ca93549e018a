"""The short form of the proof that the cluster holds: one `kill -9` of each role; the siege is in the file beside."""

from pathlib import Path

import pytest

from e2e.cluster.conftest import Keep, StartServers
from e2e.cluster.faults import kill_role
from e2e.cluster.proof import prove
from origin import OriginProcess

pytestmark = pytest.mark.servers

FAULTS = ("admission-1", "crawlnode-2", "parser-1", "reconciler-1")


def test_a_killed_cluster_ends_as_if_nothing_had_happened(
    tmp_path: Path, start_cluster: StartServers, keep: Keep
) -> None:
    """Every role is killed once: every page in the end, nothing lost, nothing invented, no host wronged."""
    servers = start_cluster("single")
    web = OriginProcess(
        "kill",
        log_path=tmp_path / "origin.log",
        pages=400,
        hosts=16,
        latency_ms=300.0,  # 40 pages a second at most: the crawl outlasts its faults
        slow_ms=500.0,
        retry_after_seconds=1.0,
    )
    with web as origin:
        proof = prove(servers, tmp_path, origin, [kill_role(name) for name in FAULTS])
    keep("smoke", proof.figures)
    assert proof.findings == []

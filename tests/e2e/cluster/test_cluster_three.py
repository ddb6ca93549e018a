"""Three brokers, three Cassandra nodes, three DataNodes: any one of them dies, and the crawl goes on.

`LIMPET_EVIDENCE=1 make test-cluster-three` also writes the figures to loadtest/evidence/cluster.json.
"""

from pathlib import Path
from typing import Final

import pytest

from e2e.cluster.conftest import Keep, Say, StartServers, web
from e2e.cluster.faults import Fault, freeze_server, kill_role, kill_server
from e2e.cluster.proof import prove

pytestmark = [pytest.mark.servers, pytest.mark.slow]

SEED: Final = 20261130
DOWN_SECONDS: Final = 6.0
STANDSTILL_SECONDS_MAX: Final = 30.0
"""The patience of a write to the bus, 10 s, a take-over if a lease should run out meanwhile, 17 s, and polls."""


def deaths() -> list[Fault]:
    """One server of each kind, in turns; two that freeze; one crawl node."""
    kinds = ("kafka", "cassandra", "datanode")
    kills = [kill_server(f"{kind}-{number}", DOWN_SECONDS) for number in (1, 2, 3) for kind in kinds]
    return [*kills, freeze_server("cassandra-2", 8.0), freeze_server("kafka-3", 5.0), kill_role("crawlnode-1")]


def test_one_of_three_may_die(tmp_path: Path, start_cluster: StartServers, say: Say, keep: Keep) -> None:
    """Each in turn dies and is gone for a while: nothing is lost, and nobody waits longer than is stated."""
    servers = start_cluster("three")
    with web(tmp_path, pages=2_500, hosts=32, latency_ms=1_600.0) as origin:
        proof = prove(servers, tmp_path, origin, deaths(), seed=SEED, say=say)
    keep("three", proof.figures)
    assert proof.findings == []
    still = {kind: found["standstill_seconds_max"] for kind, found in proof.figures["by_kind"].items()}
    assert {kind: seconds for kind, seconds in still.items() if seconds > STANDSTILL_SECONDS_MAX} == {}

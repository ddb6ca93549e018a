"""The siege of the cluster form: thousands of pages while everything dies, freezes, loses replies or its data.

`LIMPET_EVIDENCE=1 python -m pytest -m servers tests/e2e/cluster/test_cluster_siege.py` also writes the figures to
loadtest/evidence/cluster.json.
"""

import random
from pathlib import Path

import pytest

from e2e.cluster.conftest import Keep, Say, StartServers, web
from e2e.cluster.faults import (
    Fault,
    drop_replies,
    freeze_role,
    freeze_server,
    hold,
    join,
    kill_role,
    kill_server,
    leave,
    restart_role,
    sever,
    wipe_shard,
)
from e2e.cluster.proof import FREEZE_SECONDS_LONG, Proof, prove

pytestmark = [pytest.mark.servers, pytest.mark.slow]

SEED = 20261130


def test_an_undisturbed_crawl_for_comparison(tmp_path: Path, start_cluster: StartServers, say: Say, keep: Keep) -> None:
    """Nothing is asked twice, and what it costs is what it costs."""
    servers = start_cluster("single")
    with web(tmp_path, pages=1500, hosts=64, latency_ms=20.0) as origin:
        proof = prove(servers, tmp_path, origin, [], say=say)
    keep("undisturbed", proof.figures)
    assert proof.findings == []
    assert len(proof.evidence.visits) == proof.figures["requests"]


def deaths(chance: random.Random) -> list[Fault]:
    """Everything that is done to Limpet's own processes and to the servers of the single form, in a seeded order."""
    shard, other, third = chance.sample(range(32), 3)
    faults = [
        *(kill_role(f"crawlnode-{number}") for number in (1, 2, 3)),
        *(kill_role(f"{role}-{number}") for role in ("parser", "admission") for number in (1, 2)),
        kill_role("reconciler-1"),
        restart_role("crawlnode-2"),
        restart_role("admission-1"),
        freeze_role("crawlnode-3", 3.0),
        freeze_role("crawlnode-1", FREEZE_SECONDS_LONG, held_for_dead=True),
        freeze_role("parser-1", 12.0),  # longer than the group waits for it
        freeze_role("admission-2", 12.0),
        freeze_role("reconciler-1", 12.0),
        kill_server("kafka-1"),
        kill_server("cassandra-1"),
        kill_server(f"valkey-{shard:02}"),
        kill_server("datanode-2", 5.0),
        kill_server("namenode"),
        wipe_shard(f"valkey-{other:02}"),
        freeze_server("kafka-1", 5.0),
        freeze_server("cassandra-1", 8.0),
        freeze_server("datanode-3", 8.0),
        *(drop_replies(name, 3.0) for name in ("kafka-1", "cassandra-1", "namenode", f"valkey-{third:02}")),
        *(hold(name, 4.0) for name in ("kafka-1", "cassandra-1", "namenode")),
        *(sever(name) for name in ("kafka-1", "cassandra-1", "namenode")),
    ]
    chance.shuffle(faults)
    return [join("crawlnode-4"), *faults, leave("crawlnode-4")]


def test_a_besieged_cluster_ends_as_if_nothing_had_happened(
    tmp_path: Path, start_cluster: StartServers, say: Say, keep: Keep
) -> None:
    """Five thousand pages, everything that can be done to a cluster: every page in the end, and no host wronged."""
    servers = start_cluster("single")
    with web(tmp_path, pages=5_000, hosts=40, latency_ms=2_000.0) as origin:
        proof = prove(servers, tmp_path, origin, deaths(random.Random(SEED)), seed=SEED, say=say)
    keep("siege", proof.figures)
    assert proof.findings == []
    none_for_nothing(proof)


def none_for_nothing(proof: Proof) -> None:
    """Faults that take nothing from anybody cost no site a request: a clean leave, a clean restart, a short freeze."""
    for kind in ("leave crawlnode", "restart crawlnode", "restart admission", "join crawlnode"):
        assert proof.figures["by_kind"][kind]["duplicates"] == 0, kind

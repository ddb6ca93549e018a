"""The configuration of a crawl on the servers of a test: short leases, short waits, everything owned."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from e2e.cluster.servers_up import ClusterServers

KEYSPACE: Final = "siege"
PREFIX: Final = "siege"
ROOT: Final = "/siege"

CONNECT_SECONDS: Final = 2.0
WALL_SECONDS: Final = 6.0
FETCH_SECONDS_MAX: Final = CONNECT_SECONDS + WALL_SECONDS
URL_LEASE_SECONDS: Final = 20.0
LEASE_SECONDS: Final = 12.0
MARGIN_SECONDS: Final = 1.0
TAKEOVER_SECONDS: Final = LEASE_SECONDS + MARGIN_SECONDS + FETCH_SECONDS_MAX
"""From a death until others may have its shards, without polls."""

Table = Mapping[str, Any]


def tables(servers: ClusterServers, *, http: str, folder: Path) -> dict[str, Table]:
    """The whole file, as tables; "" holds what belongs to none."""
    copies = 1 if servers.form == "single" else 3
    return {
        "": {"owned": ["127.0.0.0/8"], "min_free_bytes": 0},
        "crawl": {
            "contact": "mailto:siege@example.org",
            "scope": "any",
            "depth": 50,
            "seen_capacity": 1_000_000,
            "segment_bytes": 2_000_000,  # small, so that segments are sealed in the midst of it all
        },
        "rules": {"owned_hosts_only": True},
        "cluster": {
            "http": http,
            "folder": str(folder),
            "lease_seconds": LEASE_SECONDS,
            "margin_seconds": MARGIN_SECONDS,
            "poll_seconds": 0.5,
            "orphan_seconds": 5.0,
        },
        "work": {
            "lease_seconds": URL_LEASE_SECONDS,
            "reconcile_seconds": 3.0,
            "republish_grace_seconds": 5.0,
            "drain_seconds_max": 30.0,
        },
        "fetching": {"connect_seconds_max": CONNECT_SECONDS, "wall_seconds_max": WALL_SECONDS},
        "retries": {"base_seconds": 2.0, "factor": 2.0},
        "kafka": {
            "bootstrap": servers.bootstrap,
            "prefix": PREFIX,
            "replication": copies,
            "min_insync": min(2, copies),
            "delivery_seconds_max": 10.0,
        },
        "cassandra": {
            "contact_points": servers.contact_points,
            "port": servers.cassandra_port,
            "keyspace": KEYSPACE,
            "replication": copies,
            "slot_seconds": 60,
        },
        "seen": {"addresses": servers.seen_addresses},
        "hdfs": {
            "url": servers.namenode_url,
            "namenodes_http": [servers.namenode_http],
            "root": ROOT,
            "block_bytes": 1 << 20,
            "min_free_bytes": 0,
            "write_seconds_max": 5.0,
            "recover_seconds_max": 60.0,
        },
    }


def write_config(path: Path, found: Mapping[str, Table]) -> Path:
    """As TOML: the values are strings, numbers, booleans and lists of them, which JSON writes alike."""
    lines = []
    for name, table in found.items():
        lines += [f"[{name}]"] if name else []
        lines += [f"{key} = {json.dumps(value)}" for key, value in table.items()]
        lines.append("")
    path.write_text("\n".join(lines))
    return path

"""Keyspaces on a real Cassandra for the suites of the URL store."""

import asyncio
import zlib
from typing import Any

import msgspec

from limpet.clock import SystemClock
from limpet.schemas.cql import migrations
from limpet.urlstore.cassandra import CassandraSettings, migrate
from limpet.urlstore.cassandra.driver import cluster
from servers import Service

KEPT = frozenset({"migrations"})


def keyspace(servers: Service, name: str = "crawl", **changes: Any) -> CassandraSettings:
    """One more keyspace with the tables of this release. `changes`: of the settings.

    Its name carries a digest of the tables: servers that are kept up may hold those of yesterday.
    """
    tables = zlib.crc32(repr(migrations()).encode())
    found = servers.endpoints()
    settings = CassandraSettings(
        contact_points=tuple(found["contact_points"]),
        port=found["port"],
        datacenter=found["datacenter"],
        keyspace=f"{name}_{tables:08x}",
        replication=min(3, len(found["contact_points"])),
    )
    settings = msgspec.structs.replace(settings, **changes)
    asyncio.run(migrate(settings, SystemClock()))
    return settings


def empty(settings: CassandraSettings) -> None:
    """Truncate every table that holds something: much faster than a keyspace of its own."""
    connection = cluster(settings)
    try:
        session = connection.connect(settings.keyspace)
        tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s"
        for row in session.execute(tables, (settings.keyspace,)):
            table = row["table_name"]
            if table not in KEPT and list(session.execute(f"SELECT * FROM {table} LIMIT 1")):  # noqa: S608 - of our own
                session.execute(f"TRUNCATE {table}")
    finally:
        connection.shutdown()

"""The keyspace of a crawl: created once, its tables brought up to this release by named migrations."""

import asyncio
from typing import Any

from limpet.clock import Clock
from limpet.model.errors import CannotGoOn, LimpetError
from limpet.schemas.cql import Migration, migrations
from limpet.urlstore.cassandra import driver, errors
from limpet.urlstore.cassandra.settings import CassandraSettings


async def migrate(settings: CassandraSettings, clock: Clock) -> list[str]:
    """Create what is missing; the names of the migrations that were applied now.

    One process at a time, `limpet init`: Cassandra does not order changes of a schema that are made at once. A death
    in the middle is repaired by another call, because every statement may be repeated. Raises `CannotGoOn` when the
    keyspace is of a later release, `Definite` when Cassandra cannot be reached.
    """
    return await asyncio.to_thread(_migrate, settings, clock)


async def pending(settings: CassandraSettings) -> list[str]:
    """Migrations of this release that the keyspace lacks. Raises `CannotGoOn` as `migrate` does."""
    return await asyncio.to_thread(_pending, settings)


def _migrate(settings: CassandraSettings, clock: Clock) -> list[str]:
    cluster = driver.cluster(settings)
    try:
        session = cluster.connect()
        session.execute(
            f"CREATE KEYSPACE IF NOT EXISTS {settings.keyspace} WITH replication = "
            f"{{'class': 'NetworkTopologyStrategy', '{settings.datacenter}': {settings.replication}}}"
        )
        session.set_keyspace(settings.keyspace)
        session.execute("CREATE TABLE IF NOT EXISTS migrations (name text PRIMARY KEY, applied_us bigint)")
        missing = lacking(session, settings)
        for migration in missing:
            for statement in migration.statements:
                session.execute(statement)
            note = "INSERT INTO migrations (name, applied_us) VALUES (%s, %s)"
            session.execute(note, (migration.name, clock.wall_us()))
        return [migration.name for migration in missing]
    except LimpetError:
        raise
    except Exception as error:
        raise errors.of_connect(error, f"keyspace {settings.keyspace}") from error
    finally:
        cluster.shutdown()


def _pending(settings: CassandraSettings) -> list[str]:
    cluster = driver.cluster(settings)
    try:
        return [migration.name for migration in lacking(cluster.connect(), settings)]
    except LimpetError:
        raise
    except Exception as error:
        raise errors.of_connect(error, f"keyspace {settings.keyspace}") from error
    finally:
        cluster.shutdown()


def require(session: Any, settings: CassandraSettings) -> None:
    """Raises `CannotGoOn` for a keyspace that is not of this release, asked through the driver's session."""
    missing = lacking(session, settings)
    if missing:
        raise CannotGoOn(f"keyspace {settings.keyspace} lacks {missing[0].name}: run `limpet init`")


def lacking(session: Any, settings: CassandraSettings) -> list[Migration]:
    """Migrations that a keyspace lacks, asked through the driver's session. Raises `CannotGoOn` for a later release."""
    found = session.execute(f"SELECT name FROM {settings.keyspace}.migrations")  # noqa: S608 - the name was checked
    done = {row["name"] for row in found}
    known = migrations()
    strange = sorted(done - {migration.name for migration in known})
    if strange:
        raise CannotGoOn(f"keyspace {settings.keyspace}: made by a later release of Limpet (it has {strange[0]})")
    return [migration for migration in known if migration.name not in done]

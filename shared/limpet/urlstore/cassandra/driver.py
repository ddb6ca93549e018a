"""How the driver is set up: which levels, which host, and that it repeats no write behind our back."""

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from cassandra import ConsistencyLevel
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import ConstantReconnectionPolicy, DCAwareRoundRobinPolicy, RetryPolicy, TokenAwarePolicy
from cassandra.query import BatchStatement, BatchType, dict_factory

from limpet.urlstore.cassandra.settings import CassandraSettings

RECONNECT_SECONDS: Final = 0.5
PROTOCOL: Final = 5
"""Of Cassandra 4.0 and later."""
SERIAL: Final = "serial"
"""Name of the profile of reads that first settle what is under way on their partition."""


class Never(RetryPolicy):  # type: ignore[misc]  # the driver is untyped
    """A failed request is the caller's to judge: one that is repeated by a driver answers for the wrong attempt."""

    def on_read_timeout(self, *_: Any, **__: Any) -> tuple[int, None]:
        """Tell."""
        return self.RETHROW, None

    def on_write_timeout(self, *_: Any, **__: Any) -> tuple[int, None]:
        """Tell."""
        return self.RETHROW, None

    def on_unavailable(self, *_: Any, **__: Any) -> tuple[int, None]:
        """Tell."""
        return self.RETHROW, None

    def on_request_error(self, *_: Any, **__: Any) -> tuple[int, None]:
        """Tell."""
        return self.RETHROW, None


def cluster(settings: CassandraSettings) -> Cluster:
    """A cluster object, not yet connected."""
    return Cluster(
        list(settings.contact_points),
        port=settings.port,
        protocol_version=PROTOCOL,
        connect_timeout=settings.connect_seconds_max,
        control_connection_timeout=settings.connect_seconds_max,
        execution_profiles={
            EXEC_PROFILE_DEFAULT: _profile(settings, ConsistencyLevel.LOCAL_QUORUM),
            SERIAL: _profile(settings, ConsistencyLevel.LOCAL_SERIAL),
        },
        auth_provider=_auth(settings),
        ssl_context=ssl.create_default_context(cafile=settings.ca_file) if settings.ca_file else None,
        reconnection_policy=ConstantReconnectionPolicy(RECONNECT_SECONDS, max_attempts=None),
        schema_metadata_enabled=False,  # nobody reads it, and it is fetched anew after each change of the schema
        token_metadata_enabled=True,
    )


def batch(statements: Sequence[Any]) -> BatchStatement:
    """Bound statements as one request; what falls into one partition is written whole or not at all."""
    found = BatchStatement(BatchType.UNLOGGED)
    for statement in statements:
        found.add(statement)
    return found


def _profile(settings: CassandraSettings, level: int) -> ExecutionProfile:
    return ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy(local_dc=settings.datacenter)),
        retry_policy=Never(),
        consistency_level=level,
        serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL,
        request_timeout=settings.request_seconds_max,
        row_factory=dict_factory,
    )


def _auth(settings: CassandraSettings) -> PlainTextAuthProvider | None:
    if not settings.username:
        return None
    return PlainTextAuthProvider(settings.username, Path(settings.password_file).read_text("utf-8").strip())

"""The URL store on Cassandra: one partition a URL, guarded by conditional writes; a due index that is read forward.

Only this room knows the driver. Statements and tables: `limpet.schemas.cql`.
"""

from cassandra.query import UNSET_VALUE

from limpet.urlstore.cassandra.migrate import migrate, pending
from limpet.urlstore.cassandra.session import Row, Session, Tally, Verdict
from limpet.urlstore.cassandra.settings import CassandraSettings
from limpet.urlstore.cassandra.store import CassandraUrlStore

UNSET = UNSET_VALUE
"""A cell that a statement names and is not to write."""

__all__ = [
    "UNSET",
    "CassandraSettings",
    "CassandraUrlStore",
    "Row",
    "Session",
    "Tally",
    "Verdict",
    "migrate",
    "pending",
]

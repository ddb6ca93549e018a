"""A shard of the URL store on Cassandra, as one process uses it."""

from limpet.clock import Clock
from limpet.runtime import Random
from limpet.urlstore.cassandra import CassandraUrlStore, Session
from limpet.urlstore.cassandra.batches import UNRECORDED, Groups


def open_store(
    session: Session,
    shard: int,
    clock: Clock,
    random: Random,
    *,
    epoch: int | None = None,
    groups: Groups = UNRECORDED,
) -> CassandraUrlStore:
    """`epoch`: under which this process owns the shard; None for whoever does not. `groups` leaves receipts."""
    return CassandraUrlStore(session, shard, epoch=epoch, clock=clock, random=random, groups=groups)

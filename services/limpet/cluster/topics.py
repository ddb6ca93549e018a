"""The topics of a crawl: those of the bus, and empty ones whose groups hand out shares of the shards."""

from typing import Final

import msgspec

from limpet.bus.kafka import TopicSpec, specs_of
from limpet.cluster.settings import ClusterSettings

MEMBERS: Final = "members"
"""Crawl nodes: its partitions are shards. A hint only; leases decide (`limpet.membership`)."""

MEMBERS_RECONCILE: Final = "members-reconcile"
"""Reconcilers, likewise; nothing they do needs more than the hint."""

IDLE_RETENTION_SECONDS: Final = 86_400


def topics_of(settings: ClusterSettings) -> list[TopicSpec]:
    """Every topic of the crawl as it must be."""
    kafka = settings.kafka
    base = TopicSpec(
        name="",
        partitions=settings.crawl.shards,
        replication=kafka.replication,
        min_insync=kafka.min_insync,
        retention_seconds=kafka.retention_seconds,
        message_bytes_max=kafka.message_bytes_max,
    )
    idle = msgspec.structs.replace(base, retention_seconds=IDLE_RETENTION_SECONDS)
    return [*specs_of(base), *(msgspec.structs.replace(idle, name=name) for name in (MEMBERS, MEMBERS_RECONCILE))]

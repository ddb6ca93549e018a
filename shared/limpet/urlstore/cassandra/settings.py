"""Where Cassandra is, and the bounds of what is asked of it.

What the guarantees rest on (LOCAL_QUORUM, LOCAL_SERIAL, no retried write, no speculative execution) is not a setting.
`paxos_variant` and `commitlog_sync` belong to the servers: see docs/urlstore-cassandra.md.
"""

import re
from typing import Annotated, Final

import msgspec

from limpet.model.errors import UsageError

Count = Annotated[int, msgspec.Meta(ge=1)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,47}")
STREAMS_MAX: Final = 16_384
"""Requests under way on one connection; the protocol has room for twice as many."""


class CassandraSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one process talks to the cluster. One crawl is one keyspace.

    `replication` is the number of copies in `datacenter`. `lag_seconds` is how far the due index's readers stay behind
    now, and has to exceed the difference between the clocks of any two nodes plus the time of a usual write.
    `slot_seconds` is the length of one part of the due index, which is dropped whole; it may not change later.
    A request is given up after `request_seconds_max`, which has to exceed the servers' own time limits.
    """

    contact_points: tuple[str, ...]
    port: Port = 9042
    keyspace: str = "limpet"
    datacenter: str = "datacenter1"
    replication: Count = 3
    username: str = ""
    password_file: str = ""
    ca_file: str = ""  # certificates that the servers' are checked against; "" = no TLS
    lag_seconds: Annotated[float, msgspec.Meta(ge=0.5, le=60)] = 2.0
    slot_seconds: Annotated[int, msgspec.Meta(ge=10, le=86_400)] = 600
    in_flight_max: Annotated[int, msgspec.Meta(ge=1, le=STREAMS_MAX)] = 256
    connect_seconds_max: Seconds = 5.0
    request_seconds_max: Seconds = 12.0
    page_rows: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1_000

    def __post_init__(self) -> None:
        """Refuse what cannot work. Raises `UsageError` naming the key."""
        if not self.contact_points or not all(self.contact_points):
            raise UsageError("cassandra.contact_points: name at least one server, by host name or address")
        if not _NAME.fullmatch(self.keyspace):
            raise UsageError(
                f"cassandra.keyspace {self.keyspace!r}: a lower-case letter, then up to 47 letters, digits and _"
            )
        if bool(self.username) != bool(self.password_file):
            raise UsageError("cassandra.username and cassandra.password_file belong together")
        if "'" in self.datacenter or not self.datacenter:
            raise UsageError(f"cassandra.datacenter {self.datacenter!r} is no name of a data centre")

    @property
    def lag_us(self) -> int:
        """`lag_seconds` as durable time."""
        return int(self.lag_seconds * 1_000_000)

    @property
    def slot_us(self) -> int:
        """`slot_seconds` as durable time."""
        return self.slot_seconds * 1_000_000

"""Where the segments lie, how many copies count, and how long anything may take."""

from collections.abc import Awaitable, Callable, Mapping

import msgspec

IsAlive = Callable[[str], Awaitable[bool]]
"""incarnation -> whether it may still live. The judge of leases answers; when in doubt, True."""

Alert = Callable[[str, str], None]
"""(kind, detail): something that a person should know. Kinds: see `ALERTS`."""

ALERTS = ("replicas_short", "acknowledged_lost", "lease_not_recovered", "unsealed")
"""Too few replicas, nothing acknowledged · a recovered file is shorter than what was acknowledged · HDFS did not give
an abandoned file back in time · a full segment could not be sealed. The last two wait for the reconciler."""


class HdfsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One HDFS directory. Times are in seconds and bound single calls, unless they say otherwise."""

    url: str  # hdfs://host:port, or hdfs://nameservice with its NameNodes in `client`
    namenodes_http: tuple[str, ...]  # host:port of the HTTP address of each NameNode
    root: str  # absolute; made at the first start
    user: str = ""  # "": HADOOP_USER_NAME, or who we are; simple authentication only
    client: Mapping[str, str] = {}  # more keys of hdfs-site.xml for the client
    replication: int = 3
    replicas_min: int = 2  # live replicas without which nothing is acknowledged
    block_bytes: int = 134_217_728
    group_captures_max: int = 64
    write_seconds_max: float = 10.0  # one write, or one hsync
    call_seconds_max: float = 10.0  # one question to a NameNode
    read_seconds_max: float = 20.0  # one read of a closed block
    tail_seconds_max: float = 5.0  # one read from one DataNode
    idle_check_seconds: float = 30.0  # how long a segment may be idle before its replicas are checked
    replicas_seconds_max: float = 5.0  # in all, until a block just closed has its replicas reported
    recover_seconds_max: float = 300.0  # in all, until HDFS has closed an abandoned file
    close_seconds_max: float = 10.0  # in all: how long `close` waits for abandoned files
    reopen_seconds_max: float = 8.0  # the longest pause between tries to open a segment
    min_free_bytes: int = 10_000_000_000  # in the whole cluster

"""`limpet.toml`: the settings of a process of the cluster form, and what `limpet init` makes the crawl's facts of.

Every process of a crawl reads the same file. Tables that an embedded crawl knows, too, mean the same here. What does
not fit together is refused at the start, naming the key and the fix; see `limpet.cluster.matrix`.
"""

from pathlib import Path
from typing import Annotated, Final

import msgspec

from limpet.bus.kafka import KafkaSettings
from limpet.config import Settings
from limpet.config.faults import told
from limpet.config.settings import Count, Seconds, Span
from limpet.model.errors import UsageError
from limpet.segments.hdfs import HdfsSettings
from limpet.urlstore.cassandra import CassandraSettings

Shards = Annotated[int, msgspec.Meta(ge=1, le=1024)]


class CrawlTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[crawl]`: what becomes facts of the crawl at `limpet init`, and is compared with them at every start.

    `requisites` is off: a cluster follows links, and what pages need to be shown costs several times their number.
    """

    agent: str = "limpet"
    contact: str = ""
    scope: str = "host"
    depth: Annotated[int, msgspec.Meta(ge=0, le=10**6)] | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    follow_nofollow: bool = False
    requisites: bool = False
    extras: bool = True
    exact_urls: bool = False
    drop_session_ids: bool = False
    shards: Shards = 32
    segment_bytes: Annotated[int, msgspec.Meta(ge=1_000_000, le=10**12)] = 1_000_000_000
    seen_capacity: Count = 10_000_000_000


class ClusterTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[cluster]`: membership, this process's own address, and which back end serves which port.

    `folder` is a directory of this machine for spooled bodies and unclean receipts; nothing of the crawl lies in it.
    `http` is where `/live` and `/ready` answer; port 0 takes a free one and logs it.
    """

    lease_seconds: Annotated[float, msgspec.Meta(ge=1, le=600)] = 20.0
    margin_seconds: Annotated[float, msgspec.Meta(gt=0, le=600)] = 2.0
    poll_seconds: Annotated[float, msgspec.Meta(gt=0, le=60)] = 1.0
    orphan_seconds: Span = 20.0
    sweep_seconds: Span = 3_600.0
    folder: str = "limpet-run"
    http: str = "127.0.0.1:0"
    urlstore: str = "cassandra"
    bus: str = "kafka"
    seen: str = "redis"
    segments: str = "hdfs"


class KafkaTable(KafkaSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[kafka]`: the client's settings, and how topics are made."""

    replication: Annotated[int, msgspec.Meta(ge=1, le=32)] = 3
    min_insync: Annotated[int, msgspec.Meta(ge=1, le=32)] = 2
    retention_seconds: Annotated[int, msgspec.Meta(ge=3600, le=10**9)] = 7 * 86_400


class SeenTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[seen]`: one address for each shard; `epoch` grows when the URL store was restored from a copy."""

    addresses: tuple[str, ...] = ()
    epoch: Annotated[int, msgspec.Meta(ge=0, le=10**9)] = 0
    alert_seconds: Seconds = 60.0  # a shard that is waited for longer is named by /ready


class ClusterSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    kafka: KafkaTable
    cassandra: CassandraSettings
    hdfs: HdfsSettings
    crawl: CrawlTable = CrawlTable()
    cluster: ClusterTable = ClusterTable()
    seen: SeenTable = SeenTable()


def process_settings(settings: ClusterSettings) -> Settings:
    """What the roles go by. Without a contact nobody could reach us, so that no host but one's own is asked."""
    fields = {name: getattr(settings, name) for name in Settings.__struct_fields__}
    if not settings.crawl.contact:
        fields["rules"] = msgspec.structs.replace(settings.rules, owned_hosts_only=True)
    return Settings(**fields)


_NO_FILE: Final = "a cluster needs a configuration: --config limpet.toml (see docs/cluster.md)"


def load_cluster_settings(path: Path | None) -> ClusterSettings:
    """The checked file. Raises `UsageError` naming the file, the key and the fix."""
    from limpet.cluster.matrix import contradiction  # noqa: PLC0415 - it judges what is defined here

    if path is None:
        raise UsageError(_NO_FILE)
    try:
        settings = msgspec.toml.decode(path.read_bytes(), type=ClusterSettings)
    except OSError as error:
        raise UsageError(f"cannot read configuration {path}: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"configuration {path}: {told(error, ClusterSettings)}") from error
    except UsageError as error:
        raise UsageError(f"configuration {path}: {error}") from error
    fault = contradiction(settings)
    if fault:
        raise UsageError(f"configuration {path}: {fault}")
    return settings

"""Which back ends may be mixed, and which settings cannot hold together. Each refusal gives its reason and the way out.

| port | taken | refused, because |
|---|---|---|
| `urlstore` | `cassandra` | `sqlite`: one process owns a shard file, and no other machine can read it |
| `bus` | `kafka` | `sqlite`: a log in a shard file is read through the file system of one machine |
| `seen` | `redis`, `none` | `sqlite`: marks would stay behind when a partition moves, beyond the reach of a new epoch |
| `segments` | `hdfs` | `local`: a parser on another machine could not read what a crawl node acknowledged |

`seen = "none"` is slow and safe: marks only save reads of rows.
"""

from typing import Final

from limpet.cluster.settings import ClusterSettings
from limpet.config.names import check_agent, check_contact
from limpet.config.settings import contradiction as process_contradiction
from limpet.fetch import Owned
from limpet.membership import Timing
from limpet.model.errors import UsageError
from limpet.seen.redis import Address, Layout

TAKEN: Final = {
    "urlstore": ("cassandra",),
    "bus": ("kafka",),
    "seen": ("redis", "none"),
    "segments": ("hdfs",),
}
REFUSED: Final = {
    ("urlstore", "sqlite"): "one process owns a shard file, and no other machine can read it",
    ("bus", "sqlite"): "a log in a shard file is read through the file system of one machine",
    ("seen", "sqlite"): "its marks would stay behind when a partition moves, out of the reach of a new epoch",
    ("segments", "local"): "a parser on another machine could not read what a crawl node acknowledged",
}
SCOPES: Final = ("page", "host", "domain", "prefix", "any")


def contradiction(settings: ClusterSettings) -> str:
    """What makes the settings impossible together, and the way out; "" when all is well."""
    try:
        check_agent(settings.crawl.agent, "crawl.agent")
        check_contact(settings.crawl.contact, "crawl.contact")
        Layout(settings.crawl.seen_capacity, settings.crawl.shards)
        for address in settings.seen.addresses:
            Address.parse(address)
        Owned.parse(settings.owned)
        timing_of(settings)
    except (UsageError, ValueError) as error:
        return str(error)
    checks = (_backends, process_contradiction, _servers, _whom, _membership)
    return next((fault for check in checks if (fault := check(settings))), "")


def timing_of(settings: ClusterSettings) -> Timing:
    """The spans of membership. ValueError for what could not be safe."""
    fetching = settings.fetching
    return Timing(
        lease_seconds=settings.cluster.lease_seconds,
        margin_seconds=settings.cluster.margin_seconds,
        fetch_seconds_max=fetching.connect_seconds_max + fetching.wall_seconds_max,
        poll_seconds=settings.cluster.poll_seconds,
        orphan_seconds=settings.cluster.orphan_seconds,
    )


def _backends(settings: ClusterSettings) -> str:
    for port, taken in TAKEN.items():
        chosen = getattr(settings.cluster, port)
        if chosen not in taken:
            reason = REFUSED.get((port, chosen), "there is no such back end")
            return f"cluster.{port} = {chosen!r} cannot be used: {reason}; write {' or '.join(map(repr, taken))}"
    return ""


def _servers(settings: ClusterSettings) -> str:
    kafka, hdfs, shards = settings.kafka, settings.hdfs, settings.crawl.shards
    if kafka.min_insync > kafka.replication:
        return (
            f"kafka.min_insync = {kafka.min_insync} is more than kafka.replication = {kafka.replication}: "
            "nothing could be published; lower it"
        )
    if not 1 <= hdfs.replicas_min <= hdfs.replication:
        return (
            f"hdfs.replicas_min = {hdfs.replicas_min} must be between 1 and hdfs.replication = {hdfs.replication}: "
            "nothing could be acknowledged"
        )
    if not hdfs.root.startswith("/") or hdfs.root == "/":
        return f"hdfs.root = {hdfs.root!r} must be an absolute path below /, and hold nothing else"
    if settings.cluster.seen == "redis" and len(settings.seen.addresses) != shards:
        return (
            f"seen.addresses names {len(settings.seen.addresses)} servers and crawl.shards is {shards}: name one for "
            "each shard (several shards may share one: repeat it)"
        )
    return ""


def _whom(settings: ClusterSettings) -> str:
    crawl = settings.crawl
    if crawl.scope not in SCOPES:
        return f"crawl.scope = {crawl.scope!r} is none of {', '.join(SCOPES)}"
    if not crawl.contact and not settings.owned:
        return "crawl.contact is missing: write the mail address or URL where site owners reach you"
    return ""


def _membership(settings: ClusterSettings) -> str:
    timing, work = timing_of(settings), settings.work
    if settings.cluster.lease_seconds <= work.health_seconds_max:
        return (
            f"cluster.lease_seconds = {settings.cluster.lease_seconds:g} must be longer than "
            f"work.health_seconds_max = {work.health_seconds_max:g}: an outage would be noticed after the lease is gone"
        )
    retention_us = settings.kafka.retention_seconds * 1_000_000
    if retention_us <= 2 * timing.takeover_us:
        return (
            f"kafka.retention_seconds = {settings.kafka.retention_seconds} must outlast a take-over by far "
            f"({timing.takeover_us // 500_000} s): messages would be dropped unread"
        )
    return ""

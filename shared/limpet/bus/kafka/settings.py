"""Where the brokers are, and the bounds of what is asked of them.

What the guarantees rest on (acks, idempotence, no auto-created topics, no auto-commit, no offset reset) is not a
setting: `options` may add to a client's configuration (security above all) and is refused where it would change that.
"""

from typing import Annotated, Any, Final, Literal

import msgspec

from limpet.model.errors import UsageError

Count = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]

ADDABLE: Final = (
    "security.protocol",
    "sasl.",
    "ssl.",
    "enable.ssl.",
    "https.ca.",
    "client.id",
    "client.rack",
    "broker.address.family",
    "compression.",
    "debug",
    "log_level",
)
"""Keys, or beginnings of keys, of librdkafka that `KafkaSettings.options` may set."""


class KafkaSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one process talks to the cluster.

    `bootstrap` is a list HOST:PORT,HOST:PORT. `prefix` goes before every topic and group, so that one cluster can
    carry several crawls. `delivery_seconds_max` bounds how long a publish stays undecided. The buffer bounds hold for
    each partition that is read; the in-flight bounds for each producer.
    """

    bootstrap: str
    prefix: str = ""
    socket_seconds_max: Seconds = 3.0
    delivery_seconds_max: Seconds = 30.0
    request_seconds_max: Seconds = 10.0
    linger_seconds: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.005
    in_flight_messages_max: Count = 20_000
    in_flight_bytes_max: Count = 67_108_864
    message_bytes_max: Count = 4_194_304
    buffer_messages_max: Count = 1_000
    buffer_bytes_max: Count = 16_777_216
    group_protocol: Literal["classic", "consumer"] = "consumer"
    session_seconds: Seconds = 10.0  # classic protocol only: with the other one the broker decides
    options: dict[str, str] = {}

    def __post_init__(self) -> None:
        """Refuse what would take a guarantee away. Raises `UsageError` naming the key."""
        for key in self.options:
            if not key.startswith(ADDABLE):
                raise UsageError(f"kafka option {key!r} cannot be set here: a guarantee may rest on it")

    def topic(self, name: str) -> str:
        """The cluster's name of a topic."""
        return f"{self.prefix}.{name}" if self.prefix else name

    def group(self, name: str) -> str:
        """The cluster's name of the group that reads a topic."""
        return f"limpet.{self.topic(name)}"


def client_config(settings: KafkaSettings) -> dict[str, Any]:
    """What every client gets. Default socket timeouts (60 s) stall behind a frozen broker for half a minute."""
    socket_ms = int(settings.socket_seconds_max * 1000)
    return {
        **settings.options,
        "bootstrap.servers": settings.bootstrap,
        "socket.timeout.ms": socket_ms,
        "socket.connection.setup.timeout.ms": max(1000, socket_ms),
        "reconnect.backoff.max.ms": 1000,
        "allow.auto.create.topics": False,
        "enable.metrics.push": False,
    }


def producer_config(settings: KafkaSettings) -> dict[str, Any]:
    """All replicas in sync acknowledge; a retry cannot double or reorder; nothing is chosen by a partitioner."""
    return {
        **client_config(settings),
        "acks": "all",
        "enable.idempotence": True,
        "partitioner": "consistent",  # pinned, though every message names its partition
        "linger.ms": settings.linger_seconds * 1000,
        "request.timeout.ms": int(settings.socket_seconds_max * 1000),
        "delivery.timeout.ms": int(settings.delivery_seconds_max * 1000),
        "topic.metadata.propagation.max.ms": 5000,
        "message.max.bytes": settings.message_bytes_max,
        "queue.buffering.max.messages": settings.in_flight_messages_max,
        "queue.buffering.max.kbytes": max(1, settings.in_flight_bytes_max // 1024),
    }


def reader_config(settings: KafkaSettings, group: str) -> dict[str, Any]:
    """Explicit positions only: nothing commits, stores or resets an offset by itself."""
    return {
        **client_config(settings),
        "group.id": settings.group(group),
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_uncommitted",
        "check.crcs": True,
        "fetch.wait.max.ms": 200,
        "fetch.queue.backoff.ms": 10,  # by default a full queue stops fetching for a second
        "fetch.message.max.bytes": 1_048_576,
        "queued.min.messages": settings.buffer_messages_max,
        "queued.max.messages.kbytes": max(1, settings.buffer_bytes_max // 1024),
    }


def member_config(settings: KafkaSettings, group: str) -> dict[str, Any]:
    """A reader that takes its partitions from the group, by either protocol."""
    config = {**reader_config(settings, group), "group.protocol": settings.group_protocol}
    if settings.group_protocol == "classic":
        session_ms = int(settings.session_seconds * 1000)
        config["partition.assignment.strategy"] = "cooperative-sticky"
        config["session.timeout.ms"] = session_ms
        config["heartbeat.interval.ms"] = max(1, session_ms // 5)
        config["max.poll.interval.ms"] = max(session_ms, 60_000)
    return config

"""Settings of a process: rates, limits and patience, which may change from one run to the next.

Read from TOML; unknown keys and wrong types are refused by name. Units are in the names.
"""

import ipaddress
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import msgspec

from limpet.config.faults import is_nameserver, told
from limpet.model.errors import UsageError

YEAR_SECONDS = 31_536_000.0

Seconds = Annotated[float, msgspec.Meta(ge=0, le=YEAR_SECONDS)]
Span = Annotated[float, msgspec.Meta(gt=0, le=YEAR_SECONDS)]
Beat = Annotated[float, msgspec.Meta(ge=0, le=10)]  # a period that somebody waits for
Count = Annotated[int, msgspec.Meta(ge=1, le=10**12)]


class SharedRange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Networks of a content delivery network, whose addresses stand for far more than one server each."""

    networks: tuple[str, ...]
    connections_max: Count = 16
    starts_per_second_max: Seconds = 40.0

    def __post_init__(self) -> None:
        """Refuse what is no network; msgspec names the key."""
        self.parsed()

    def parsed(self) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
        """The networks. ValueError names the one that is none."""
        return _networks(self.networks)


@lru_cache(maxsize=256)
def _networks(texts: tuple[str, ...]) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


class Politeness(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The governor. Nothing here can go below what a site asks for."""

    floor_seconds: Seconds = 1.0
    delay_seconds: Seconds = 0.0  # the operator's own wish (--delay), for owned hosts too
    latency_multiple: Seconds = 5.0
    latency_gap_seconds_max: Seconds = 30.0
    global_rate_max: Seconds = 0.0  # starts per second of one worker, 0 = no cap
    budget_per_day: Annotated[int, msgspec.Meta(ge=0, le=10**12)] = 0  # of a UTC day, target and ceiling; 0 = none
    domain_connections_max: Count = 2
    platform_connections_max: Count = 8
    platform_starts_per_second_max: Seconds = 4.0  # 0 = no cap, here and below
    address_connections_max: Count = 2
    address_starts_per_second_max: Seconds = 5.0
    shared_ranges: dict[str, SharedRange] = {}


class Fetching(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one exchange may cost, and how many run at once in one worker."""

    connections_max: Count = 128
    connect_seconds_max: Span = 20.0
    idle_seconds_max: Span = 30.0
    wall_seconds_max: Span = 120.0
    header_bytes_max: Annotated[int, msgspec.Meta(ge=1, le=1_048_576)] = 262_144  # more is not read back
    body_bytes_max: Count = 1_000_000_000
    spool_above_bytes: Annotated[int, msgspec.Meta(ge=16_384, le=16_777_216)] = 262_144
    spool_bytes_max: Count = 4_000_000_000  # of one worker
    nameservers: tuple[str, ...] = ()  # addresses, with a port if it is not 53; () = those of /etc/resolv.conf
    throughput_bytes_per_second_min: Seconds = 64.0  # 0 = no such limit
    throughput_window_seconds: Span = 20.0


class Retries(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When to try again, and when to stop."""

    base_seconds: Seconds = 30.0
    factor: Annotated[float, msgspec.Meta(ge=1, le=1000)] = 4.0
    failures_max: Count = 3
    interruptions_alone_max: Count = 5
    parse_attempts_max: Count = 3
    nxdomain_seconds: Seconds = 43_200.0


class Work(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Leases, batches and periods of one worker."""

    lease_seconds: Span = 600.0
    claim_urls_max: Count = 20
    commit_interval_seconds: Beat = 0.05
    health_seconds_max: Annotated[float, msgspec.Meta(ge=0.5, le=60)] = 5.0
    parse_batch_max: Count = 64
    links_message_max: Count = 500
    admit_batch_messages_max: Count = 64
    log_backlog_max: Count = 200_000
    reconcile_seconds: Span = 10.0
    republish_grace_seconds: Seconds = 5.0
    log_retention_seconds: Seconds = 300.0
    drain_seconds_max: Seconds = 150.0


class Rules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Traps and sizes at admission."""

    depth_trap: Count = 20
    url_bytes_max: Annotated[int, msgspec.Meta(ge=1, le=4_096)] = 2_048  # longer ones are handed on by nobody
    segment_repeats_max: Count = 3
    host_urls_max: Count = 100_000
    page_links_max: Count = 10_000
    owned_hosts_only: bool = False  # set by a run whose seeds are all owned: requisites and --scope any stay there
    seed_hosts_only: bool = False  # set by a public run without contact: no other host than the seeds' is asked
    hosts_since_us: Annotated[int, msgspec.Meta(ge=0)] = 0  # set by the run that changed one of the two, or `owned`


class Notify(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where notices go besides the log."""

    webhook: str = ""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole of a configuration file."""

    politeness: Politeness = Politeness()
    fetching: Fetching = Fetching()
    retries: Retries = Retries()
    work: Work = Work()
    rules: Rules = Rules()
    notify: Notify = Notify()
    owned: tuple[str, ...] = ()
    accept_invalid_cert: tuple[str, ...] = ()  # hosts
    proxy: str = ""  # http://HOST:PORT, never with credentials
    proxy_credentials_file: str = ""  # holds user:password
    min_free_bytes: Annotated[int, msgspec.Meta(ge=0)] = 200_000_000


def load_settings(path: Path | None) -> Settings:
    """Settings from a TOML file, defaults without one. Raises `UsageError` naming the file, the key and the fault."""
    if path is None:
        return Settings()
    try:
        settings = msgspec.toml.decode(path.read_bytes(), type=Settings)
    except OSError as error:
        raise UsageError(f"cannot read configuration {path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise UsageError(f"configuration {path}: {told(error, Settings)}") from error
    fault = contradiction(settings)
    if fault:
        raise UsageError(f"configuration {path}: {fault}")
    return settings


def named_keys(path: Path) -> frozenset[str]:
    """Keys that a TOML file names, `table.key` inside a table. For files that `load_settings` has taken."""
    values = msgspec.toml.decode(path.read_bytes())
    tables = {table: value for table, value in values.items() if isinstance(value, dict)}
    return frozenset(values) | {f"{table}.{key}" for table, keys in tables.items() for key in keys}


def contradiction(settings: Settings) -> str:
    """What two values make impossible together, naming both keys and the way out; "" when all is well."""
    longest_seconds = settings.fetching.connect_seconds_max + settings.fetching.wall_seconds_max
    if settings.work.lease_seconds <= longest_seconds:
        return (
            f"work.lease_seconds = {settings.work.lease_seconds:g} must be longer than the longest fetch, "
            f"fetching.connect_seconds_max + wall_seconds_max = {longest_seconds:g}: nothing could ever be sent"
        )
    if settings.fetching.spool_bytes_max < settings.fetching.body_bytes_max:
        return (
            f"fetching.spool_bytes_max = {settings.fetching.spool_bytes_max} must hold one body of "
            f"fetching.body_bytes_max = {settings.fetching.body_bytes_max}: raise the one or lower the other"
        )
    webhook = settings.notify.webhook
    if webhook and not webhook.startswith(("http://", "https://")):
        return f"notify.webhook = {webhook!r} must begin with http:// or https://"
    for server in settings.fetching.nameservers:
        if not is_nameserver(server):
            return f"fetching.nameservers: {server!r} is no address: write 192.0.2.1 or [2001:db8::1]:53"
    return ""

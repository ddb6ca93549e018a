"""What an operator says of hosts: pause, slow, block. An order can stop a host, a part of it, or lengthen its gap.

Orders live beside the crawl, not in its shards: whoever gives one is not the owner of the host's row. They come on top
of everything the governor knows, so that taking one back only takes back what it added.
"""

from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias

import msgspec

from limpet.config.settings import YEAR_SECONDS

PAUSED: Final = "operator_pause"
BLOCKED: Final = "operator_block"
OPERATOR_SLOW: Final = "operator_slow"
BLOCKED_URLS: Final = "operator_block_urls"
CANCELLED_BY: Final = "operator"
"""Reason of the rows that a block took out."""
HOSTS_MAX: Final = 100_000
PATHS_MAX: Final = 1_000
"""Of one host."""
ORDERS_BYTES_MAX: Final = 16_777_216
_VERSION: Final = 1
_VERSION_PATHS: Final = 2
"""Of a file with orders for parts of hosts: an earlier Limpet must not read past them."""

_Moment = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
_Gap = Annotated[float, msgspec.Meta(ge=0, le=YEAR_SECONDS)]
_Path = Annotated[str, msgspec.Meta(min_length=1, max_length=65_536)]
_Host = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class HostOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Everything that is ordered of one host. `_us`: wall time of the order, 0 = not ordered."""

    paused_us: _Moment = 0
    blocked_us: _Moment = 0
    gap_seconds: _Gap = 0.0  # at least so long from the end of a response to the next request
    blocked_paths: Annotated[dict[_Path, _Moment], msgspec.Meta(max_length=PATHS_MAX)] = {}
    """How path and query of blocked URLs begin, and since when."""

    @property
    def stopped(self) -> str:
        """Why nothing may be sent, "" when something may."""
        if self.blocked_us:
            return BLOCKED
        return PAUSED if self.paused_us else ""

    @property
    def told(self) -> str:
        """The one word for listings."""
        return self.stopped or (BLOCKED_URLS if self.blocked_paths else OPERATOR_SLOW if self.gap_seconds else "")

    @property
    def taken_out(self) -> tuple[str, ...]:
        """How the paths of URLs begin that are cancelled: "" begins them all."""
        return ("",) if self.blocked_us else tuple(self.blocked_paths)

    def blocks(self, url: str) -> bool:
        """Whether a URL of the host, in canonical form, is cancelled."""
        return bool(self.taken_out) and url[url.find("/", url.find("//") + 2) :].startswith(self.taken_out)


Orders: TypeAlias = Mapping[str, HostOrder]
"""Host name -> what is ordered of it."""

NO_ORDER: Final = HostOrder()
NO_ORDERS: Final[Orders] = {}


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int
    hosts: Annotated[dict[_Host, HostOrder], msgspec.Meta(max_length=HOSTS_MAX)]


def encode_orders(orders: Orders) -> bytes:
    """The stored form; hosts of which nothing is ordered are left out."""
    hosts = {host: order for host, order in sorted(orders.items()) if order != NO_ORDER}
    version = _VERSION_PATHS if any(order.blocked_paths for order in hosts.values()) else _VERSION
    return msgspec.json.format(msgspec.json.encode(_File(version=version, hosts=hosts))) + b"\n"


def decode_orders(data: bytes) -> Orders:
    """The orders in `data`. Raises ValueError with what is wrong: torn, foreign, too large or of another version."""
    if len(data) > ORDERS_BYTES_MAX:
        raise ValueError(f"more than {ORDERS_BYTES_MAX:,} bytes")
    try:
        file = msgspec.json.decode(data, type=_File)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
    if file.version not in {_VERSION, _VERSION_PATHS}:
        raise ValueError(f"version {file.version}, not {_VERSION} or {_VERSION_PATHS}")
    return file.hosts


def changed_hosts(before: Orders, now: Orders) -> set[str]:
    """Hosts of which something else is ordered now."""
    return {host for host in before.keys() | now.keys() if before.get(host) != now.get(host)}

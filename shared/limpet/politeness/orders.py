"""What an operator says of single hosts: pause, slow, block. An order can stop a host or lengthen its gap, never more.

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
CANCELLED_BY: Final = "operator"
"""Reason of the rows that a block took out."""
HOSTS_MAX: Final = 100_000
ORDERS_BYTES_MAX: Final = 16_777_216
_VERSION: Final = 1

_Moment = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
_Gap = Annotated[float, msgspec.Meta(ge=0, le=YEAR_SECONDS)]
_Host = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class HostOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Everything that is ordered of one host. `_us`: wall time of the order, 0 = not ordered."""

    paused_us: _Moment = 0
    blocked_us: _Moment = 0
    gap_seconds: _Gap = 0.0  # at least so long from the end of a response to the next request

    @property
    def stopped(self) -> str:
        """Why nothing may be sent, "" when something may."""
        if self.blocked_us:
            return BLOCKED
        return PAUSED if self.paused_us else ""


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
    return msgspec.json.format(msgspec.json.encode(_File(version=_VERSION, hosts=hosts))) + b"\n"


def decode_orders(data: bytes) -> Orders:
    """The orders in `data`. Raises ValueError with what is wrong: torn, foreign, too large or of another version."""
    if len(data) > ORDERS_BYTES_MAX:
        raise ValueError(f"more than {ORDERS_BYTES_MAX:,} bytes")
    try:
        file = msgspec.json.decode(data, type=_File)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
    if file.version != _VERSION:
        raise ValueError(f"version {file.version}, not {_VERSION}")
    return file.hosts


def changed_hosts(before: Orders, now: Orders) -> set[str]:
    """Hosts of which something else is ordered now."""
    return {host for host in before.keys() | now.keys() if before.get(host) != now.get(host)}

"""Operators' orders for single hosts on a cluster: one row for all of them, read again and again by who obeys.

Two that give orders at once are both heard: the row is replaced under the condition that its version is the one that
was read, and whoever loses begins again.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from limpet.clock import Clock
from limpet.cluster.waiting import Waits
from limpet.model.errors import CannotGoOn, Indefinite, LimpetError, UsageError
from limpet.politeness.orders import (
    HOSTS_MAX,
    NO_ORDER,
    NO_ORDERS,
    HostOrder,
    Orders,
    decode_orders,
    encode_orders,
)
from limpet.urlstore.cassandra import Session

LOOK_SECONDS: Final = 2.0
CHANGES_MET_MAX: Final = 20
NAME: Final = "hosts"


class CassandraOrders:
    """The orders of one crawl."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._version = 0
        self._orders: Orders = NO_ORDERS

    @property
    def latest(self) -> Orders:
        """As of the last `look`."""
        return self._orders

    async def look(self) -> Orders:
        """The orders in force; the same object while nothing changed. Raises `UsageError` when they are damaged."""
        row = await self._session.one("orders_get", name=NAME)
        version = 0 if row is None else row["version"]
        if version != self._version:
            try:
                self._orders = NO_ORDERS if row is None else decode_orders(bytes(row["value"]))
            except ValueError as error:
                raise UsageError(f"the orders for hosts are damaged: {error}") from error
            self._version = version
        return self._orders

    async def watch(self, obey: Callable[[Orders], Awaitable[None]], clock: Clock, waits: Waits) -> None:
        """Hand on what is ordered, for ever. While it cannot be read the orders that were read last hold."""
        while True:
            await clock.sleep(LOOK_SECONDS)
            try:
                await obey(await self.look())
            except CannotGoOn:
                raise
            except LimpetError as error:
                waits.begin("orders", error)
            else:
                waits.end("orders")

    async def change(self, host: str, edit: Callable[[HostOrder], HostOrder]) -> tuple[HostOrder, HostOrder]:
        """Replace what is ordered of `host`, durably; what was and what is. Raises `UsageError`, `Indefinite`."""
        for _ in range(CHANGES_MET_MAX):
            orders = dict(await self.look())
            before = orders.get(host, NO_ORDER)
            after = edit(before)
            if after == before:
                return before, after
            orders[host] = after
            if len(orders) > HOSTS_MAX:
                raise UsageError(f"orders for more than {HOSTS_MAX:,} hosts: resume some, or narrow the scope")
            if await self._put(encode_orders(orders)):
                return before, after
        raise Indefinite("others give orders faster than this one could be given: once more")

    async def _put(self, value: bytes) -> bool:
        if self._version == 0:
            verdict = await self._session.conditional("orders_first", name=NAME, value=value)
        else:
            verdict = await self._session.conditional(
                "orders_change", name=NAME, version=self._version + 1, value=value, before=self._version
            )
        return verdict.applied

"""What an operator's block of a host means for its rows: they leave the queue, and come back when it is lifted."""

from collections.abc import Callable

from limpet.clock import DurableClock
from limpet.crawlnode.steps import FetchSteps
from limpet.politeness.orders import CANCELLED_BY, Orders
from limpet.urlstore import UrlStore

Offer = Callable[[str, str, int], None]
"""(host, authority, due time): there is something to fetch again."""


class Blocks:
    """Brings the rows of a shard into line with the orders."""

    def __init__(self, steps: FetchSteps, clock: DurableClock, offer: Offer) -> None:
        self._steps = steps
        self._clock = clock
        self._offer = offer

    async def apply(self, store: UrlStore, orders: Orders, *, fresh: bool) -> None:
        """`fresh`: the orders may differ from those that were applied to this shard last."""
        blocked = frozenset(host for host, order in orders.items() if order.blocked_us)
        if blocked:
            await self.cancel(store, blocked)
        if fresh:
            await self.uncancel(store, blocked)

    async def cancel(self, store: UrlStore, blocked: frozenset[str]) -> None:
        """Blocked hosts lose what is leased or due; that may come up later too, from what was under way."""
        queued, leased = await store.queues(), await store.leased_hosts()
        for host in blocked & ({queue.host for queue in queued} | set(leased)):
            await self._steps.cancel(store, host, self._clock.wall_us())

    async def uncancel(self, store: UrlStore, blocked: frozenset[str]) -> None:
        """Hosts that are not blocked any more get their URLs back."""
        freed = set(await store.cancelled_hosts(CANCELLED_BY)) - blocked
        for host in freed:
            await self._steps.uncancel(store, host, self._clock.wall_us())
        for queue in await store.queues() if freed else ():
            if queue.host in freed:
                self._offer(queue.host, queue.authority, queue.due_us)

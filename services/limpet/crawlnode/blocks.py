"""What an operator's block means for the rows under it: they leave the queue, and come back when it is lifted."""

from collections.abc import Callable

from limpet.clock import DurableClock
from limpet.crawlnode.scheduler import HostQueues
from limpet.crawlnode.steps import FetchSteps
from limpet.politeness.orders import CANCELLED_BY, NO_ORDER, HostOrder, Orders
from limpet.urlstore import UrlStore

Offer = Callable[[str, str, int], None]
"""(host, authority, due time): there is something to fetch again."""


class Blocks:
    """Brings the rows of a shard into line with the orders."""

    def __init__(self, steps: FetchSteps, clock: DurableClock, offer: Offer, shard_of: Callable[[str], int]) -> None:
        self._shard_of = shard_of
        self._steps = steps
        self._clock = clock
        self._offer = offer

    async def apply(self, store: UrlStore, orders: Orders, *, fresh: bool) -> None:
        """`fresh`: the orders may differ from those that were applied to this shard last."""
        taken_out = {host: order for host, order in orders.items() if order.blocked_us or (fresh and order.taken_out)}
        if taken_out:
            await self.cancel(store, taken_out)
        if fresh:
            await self.uncancel(store, orders)

    async def cancel(self, store: UrlStore, orders: Orders) -> None:
        """What is blocked loses what is leased or due.

        That may come up later too, from what was under way: of whole hosts it is looked for again and again, of parts
        of hosts it is met when its turn comes (`drop`).
        """
        for host, order in orders.items():
            if self._shard_of(host) == store.shard and await store.waits(host):
                await self._steps.cancel(store, host, self._clock.wall_us(), order)

    async def drop(self, entry: HostQueues, order: HostOrder, store: UrlStore) -> None:
        """Claims of a part that is blocked leave the queue unsent, as their turn comes."""
        blocked = [claim for claim in entry.claims if order.blocks(claim.url)] if order.blocked_paths else []
        if blocked:
            kept = [claim for claim in entry.claims if claim not in blocked]
            entry.claims.clear()
            entry.claims.extend(kept)
            await self._steps.cancel_claims(store, entry.host, self._clock.wall_us(), order, len(blocked))

    async def uncancel(self, store: UrlStore, orders: Orders) -> None:
        """What is not blocked any more gets its URLs back."""
        out = set(await store.cancelled_hosts(CANCELLED_BY))
        freed = {host for host in out if not orders.get(host, NO_ORDER).blocked_us}
        for host in sorted(freed):
            await self._steps.uncancel(store, host, self._clock.wall_us(), orders.get(host, NO_ORDER))
            for queue in await store.queues_of(host):
                self._offer(queue.host, queue.authority, queue.due_us)

"""What the authority says of a run: counters of every shard, and when they are quiet, whether anything is left to do.

A crawl is done when two successive collects agree: every monotonic counter and every offset is the same, so nothing
happened between the end of the first and the begin of the second, and at that moment nothing was leased, unread, in
jobs or in repair, and nothing was due within patience. No cache and no queue in memory is asked.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from limpet.clock import Clock
from limpet.embedded.views import ShardViews
from limpet.model.events import TOPICS
from limpet.model.lifecycle import State
from limpet.politeness.daybudget import BUDGET
from limpet.politeness.orders import CANCELLED_BY, NO_ORDER, NO_ORDERS, Orders
from limpet.urlstore import counters
from limpet.urlstore.sqlite import QueueState, ShardView

FIRST_OFFSET: Final = 1
UNKNOWN_US: Final = 2**62
"""The effective time of what waits for a person."""
BLOCK_SETTLE_US: Final = 30_000_000
"""A block needs a moment before its rows are cancelled; should the crawl end first, the next one cancels them."""
BUDGET_TOLD_US: Final = 1_000_000
"""Shorter waits for the budget are its ordinary pace."""
Offsets = tuple[tuple[str, int, int, int], ...]  # (topic, partition, source, offset)


def no_orders() -> Orders:
    """Nobody ordered anything."""
    return NO_ORDERS


def no_wait() -> int:
    """Nothing holds back all requests."""
    return 0


class Rest(msgspec.Struct, frozen=True, kw_only=True):
    """What is left to do, read from rows and offsets themselves when the counters are quiet."""

    leased: int
    jobs: int
    repairs: int
    unread: int  # logs with messages that their reader has not committed
    queues: tuple[QueueState, ...]  # by effective time
    offsets: Offsets
    freed: int = 0  # hosts that are blocked no more, and whose rows have not been put back yet
    lingers_us: int = 0  # until then the run waits for an operator to let a host go on again

    def due_by(self, us: int) -> bool:
        """Whether anything can be sent by then."""
        return bool(self.queues) and self.queues[0].effective_us <= us


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the authority. `rest` is None while the counters alone say that work is going on."""

    at_us: int
    shards: dict[int, dict[str, int]]
    rest: Rest | None = None

    def total(self, counter: str, shards: Iterable[int] | None = None) -> int:
        """A counter over all shards, or over some."""
        chosen = self.shards if shards is None else [shard for shard in shards if shard in self.shards]
        return sum(self.shards[shard].get(counter, 0) for shard in chosen)

    def state(self, state: State) -> int:
        """Rows in one state."""
        return self.total(counters.of_state(state))

    @property
    def states(self) -> dict[str, int]:
        """Rows in every state that has any."""
        found = {state.value: self.state(state) for state in State}
        return {name: count for name, count in found.items() if count}

    @property
    def pages(self) -> int:
        """URLs fetched as a page."""
        return self.total(counters.PAGES)

    @property
    def completions(self) -> int:
        """Claims that ended; grows with every bit of work done."""
        return self.total(counters.COMPLETIONS)

    @property
    def wire_bytes(self) -> int:
        """Bytes that came over the wire."""
        return self.total(counters.BYTES)

    @property
    def unread(self) -> int:
        """Messages on the bus that nobody finished reading, as counted."""
        return sum(self.total(counters.PUBLISHED + topic) - self.total(counters.COMMITTED + topic) for topic in TOPICS)

    def pages_of(self, shards: Iterable[int]) -> int:
        """Pages of some shards."""
        return self.total(counters.PAGES, shards)


class Collector:
    """Collects from read-only views. Cheap while work is going on: one row a shard."""

    def __init__(
        self,
        views: ShardViews,
        clock: Clock,
        orders: Callable[[], Orders] = no_orders,
        patience_seconds: float = 0.0,
        budget: Callable[[], int] = no_wait,
    ) -> None:
        self._views = views
        self._clock = clock
        self._orders = orders
        self._budget = budget
        self._patience_us = int(patience_seconds * 1e6)
        self._cancelled: dict[int, tuple[tuple[int, int], list[str]]] = {}  # shard -> (counts, hosts)
        self._boot_id = clock.boot_id()

    def collect(self, *, whole: bool = False) -> Collected:
        """A look at every shard; `whole` reads what is left to do in any case. Raises `CannotGoOn`."""
        views = dict(self._views)
        shards = {shard: view.counters() for shard, view in views.items()}
        collected = Collected(at_us=self._clock.wall_us(), shards=shards)
        busy = collected.state(State.LEASED) > 0 or collected.total(counters.JOBS_OPEN) > 0
        if busy and not whole:
            return collected
        orders = self._orders()
        rest = stopped(_rest(views, self._ahead_us), orders, self._patience_us)
        if (wait_us := self._budget()) >= BUDGET_TOLD_US:
            rest = held_back(rest, self._clock.wall_us() + wait_us)
        freed = sum(self._freed(shard, view, collected.shards[shard], orders) for shard, view in views.items())
        return msgspec.structs.replace(collected, rest=msgspec.structs.replace(rest, freed=freed))

    def _freed(self, shard: int, view: ShardView, totals: dict[str, int], orders: Orders) -> int:
        """Hosts of one shard that wait for their owner to put back what a block took out."""
        if not totals.get(counters.of_state(State.CANCELLED)):
            return 0
        return sum(not orders.get(host, NO_ORDER).taken_out for host in self._cancelled_hosts(shard, view, totals))

    def _cancelled_hosts(self, shard: int, view: ShardView, totals: dict[str, int]) -> list[str]:
        """The look at every row that this takes is not repeated before something of it changed."""
        number = totals[counters.of_state(State.CANCELLED)], totals.get(counters.CANCELLED, 0)
        known = self._cancelled.get(shard)
        if known is None or known[0] != number:
            known = self._cancelled[shard] = number, view.cancelled_hosts(CANCELLED_BY)
        return known[1]

    def _ahead_us(self, view: ShardView) -> int:
        """How far our wall clock is ahead of the one that a shard's times count by.

        That is the wall clock as it stood when the shard's owner started. Until a clock that was set has made the owner
        start again, waits would look longer or shorter than they are.
        """
        anchor = view.anchor()
        if anchor is None or anchor.boot_id != self._boot_id:
            return 0
        return self._clock.wall_us() - self._clock.boot_us() - anchor.offset_us


def quiet(before: Collected, now: Collected, until_us: int) -> bool:
    """Nothing happened between two looks, and nothing but repairs is left to do by `until_us`.

    Equal counters say that every shard was still from the first look at its counters to the second, so what the first
    look read in between, shard after shard, is true of one moment. The second look alone would not be.
    """
    if before.rest is None or now.rest is None or before.shards != now.shards:
        return False
    still = before.rest.offsets == now.rest.offsets
    return still and nothing_left(before, until_us) and nothing_left(now, until_us)


def nothing_left(now: Collected, until_us: int) -> bool:
    """One look, as far as one look goes: nothing but repairs is left to do by `until_us`."""
    rest = now.rest
    if rest is None or rest.leased or rest.jobs or rest.unread or rest.freed:
        return False
    return not rest.due_by(until_us) and rest.lingers_us <= now.at_us


def finished(before: Collected, now: Collected, until_us: int) -> bool:
    """The run is done: quiet, and nothing is in repair."""
    return quiet(before, now, until_us) and now.rest is not None and not now.rest.repairs


def settled(before: Collected, now: Collected) -> bool:
    """Everything that was fetched has been parsed and its links have rows. For a run that ends at its limit."""
    unread = now.unread if now.rest is None else now.rest.unread
    return before.completions == now.completions and unread == 0


def _rest(views: dict[int, ShardView], ahead_us: Callable[[ShardView], int]) -> Rest:
    unfinished = [view.unfinished() for view in views.values()]
    queues = [_shifted(queue, ahead_us(view)) for view in views.values() for queue in view.queues()]
    queues.sort(key=lambda queue: queue.effective_us)
    ends, read = _ends(views), _read(views)
    return Rest(
        leased=sum(one.leased for one in unfinished),
        jobs=sum(one.jobs for one in unfinished),
        repairs=sum(one.repairs for one in unfinished),
        unread=sum(read.get(log, FIRST_OFFSET) < end for log, end in ends.items()),
        queues=tuple(queues),
        offsets=tuple(sorted((*log, offset) for log, offset in (*ends.items(), *read.items()))),
    )


def stopped(rest: Rest, orders: Orders, patience_us: int) -> Rest:
    """What an operator stopped is due at no known time. A fresh pause holds the run for as long as its patience."""
    lingers_us, queues = 0, []
    for queue in rest.queues:
        order = orders.get(queue.host, NO_ORDER)
        if not order.stopped:
            queues.append(queue)
            continue
        since_us = order.blocked_us + BLOCK_SETTLE_US if order.blocked_us else order.paused_us + patience_us
        lingers_us = max(lingers_us, since_us)
        queues.append(queue._replace(effective_us=UNKNOWN_US, reason=order.stopped))
    if not lingers_us:
        return rest
    queues.sort(key=lambda queue: queue.effective_us)
    return msgspec.structs.replace(rest, queues=tuple(queues), lingers_us=lingers_us)


def held_back(rest: Rest, until_us: int) -> Rest:
    """Nothing is sent before the day's budget lets it go; what waits longer for another reason keeps that."""
    queues = [
        queue._replace(effective_us=until_us, reason=BUDGET) if queue.effective_us < until_us else queue
        for queue in rest.queues
    ]
    queues.sort(key=lambda queue: queue.effective_us)
    return msgspec.structs.replace(rest, queues=tuple(queues))


def _shifted(queue: QueueState, us: int) -> QueueState:
    return queue._replace(due_us=queue.due_us + us, effective_us=queue.effective_us + us) if us else queue


def _ends(views: dict[int, ShardView]) -> dict[tuple[str, int, int], int]:
    """(topic, partition, source) -> one past the last message."""
    return {
        (topic, partition, source): end
        for source, view in views.items()
        for topic in TOPICS
        for partition, end in view.log_end(topic).items()
    }


def _read(views: dict[int, ShardView]) -> dict[tuple[str, int, int], int]:
    """(topic, partition, source) -> next message to read, kept by the partition's owner."""
    return {
        (topic, partition, source): offset
        for view in views.values()
        for topic in TOPICS
        for partition, sources in view.committed(topic).items()
        for source, offset in sources.items()
    }

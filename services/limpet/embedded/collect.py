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
from limpet.urlstore import counters
from limpet.urlstore.sqlite import QueueState, ShardView

FIRST_OFFSET: Final = 1
Offsets = tuple[tuple[str, int, int, int], ...]  # (topic, partition, source, offset)


class Rest(msgspec.Struct, frozen=True, kw_only=True):
    """What is left to do, read from rows and offsets themselves when the counters are quiet."""

    leased: int
    jobs: int
    repairs: int
    unread: int  # logs with messages that their reader has not committed
    queues: tuple[QueueState, ...]  # by effective time
    offsets: Offsets

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

    def __init__(self, views: ShardViews, clock: Clock) -> None:
        self._views = views
        self._clock = clock
        self._boot_id = clock.boot_id()

    def collect(self, *, whole: bool = False) -> Collected:
        """A look at every shard; `whole` reads what is left to do in any case. Raises `CannotGoOn`."""
        views = dict(self._views)
        shards = {shard: view.counters() for shard, view in views.items()}
        collected = Collected(at_us=self._clock.wall_us(), shards=shards)
        busy = collected.state(State.LEASED) > 0 or collected.total(counters.JOBS_OPEN) > 0
        if busy and not whole:
            return collected
        return msgspec.structs.replace(collected, rest=_rest(views, self._ahead_us))

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
    return rest is not None and not (rest.leased or rest.jobs or rest.unread or rest.due_by(until_us))


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

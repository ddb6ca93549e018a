"""The shards that a crawl node serves now: it is given some while it runs, and some are taken away from it.

One `Holdings` is shared by all parts of a node. A shard is used from the first look at one of its hosts to the last
write of an exchange; it can be given away when nobody uses it any more.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from limpet.bus import Producer
from limpet.clock import Clock
from limpet.politeness import Governor, HostState
from limpet.urlstore import HostRow, UrlStore

Owns = Callable[[int], bool]
"""shard -> whether it is ours at this instant, as far as its lease tells. Asked right before each send."""


class Holding:
    """One shard, from the take to the release."""

    def __init__(self, shard: int, store: UrlStore, producer: Producer, since: float, *, unsure: bool) -> None:
        self.shard = shard
        self.store = store
        self.producer = producer
        self.since = since  # monotonic second from which on nobody else asks its hosts
        self.unsure = unsure  # whether a host may have an unfinished lease that was not found yet
        self.leaving = False
        self.hosts: set[str] = set()  # that the governor knows
        self._uses = 0
        self._unused = asyncio.Event()
        self._unused.set()

    def begin_use(self) -> None:
        """Somebody looks at, or asks, a host of the shard; `end_use` must follow."""
        self._uses += 1
        self._unused.clear()

    def end_use(self) -> None:
        """See `begin_use`."""
        self._uses -= 1
        if not self._uses:
            self._unused.set()

    @contextmanager
    def used(self) -> Iterator[None]:
        """A use as a block."""
        self.begin_use()
        try:
            yield
        finally:
            self.end_use()

    async def unused(self) -> None:
        """Wait until nobody uses the shard."""
        await self._unused.wait()


class Holdings:
    """All shards of one node. `shard_of` tells a host's; `owns` is the judge of what may still be sent."""

    def __init__(
        self, *, governor: Governor, clock: Clock, shard_of: Callable[[str], int], owns: Owns = lambda _shard: True
    ) -> None:
        self._governor = governor
        self._clock = clock
        self.shard_of = shard_of
        self._owns = owns
        self._held: dict[int, Holding] = {}

    def __iter__(self) -> Iterator[Holding]:
        """Every shard that is held, those that are leaving included."""
        return iter(list(self._held.values()))

    def add(self, shard: int, store: UrlStore, producer: Producer, *, unsure: bool = False) -> Holding:
        """Hold a shard from now on. Raises `ValueError` for one that is held."""
        if shard in self._held:
            raise ValueError(f"shard {shard} is held already")
        held = self._held[shard] = Holding(shard, store, producer, self._clock.monotonic(), unsure=unsure)
        return held

    def remove(self, held: Holding) -> None:
        """Hold it no more, and forget its hosts: who takes it again reads their rows anew."""
        if self._held.get(held.shard) is held:
            del self._held[held.shard]
            for host in held.hosts:
                self._governor.forget(host)

    def get(self, shard: int) -> Holding | None:
        """The shard, while it is held."""
        return self._held.get(shard)

    def of_host(self, host: str) -> Holding | None:
        """The shard of a host that may be taken up; None when it is not held, or is leaving."""
        held = self._held.get(self.shard_of(host))
        return None if held is None or held.leaving else held

    def owns(self, held: Holding) -> bool:
        """Whether what this node writes about the shard still counts."""
        return self._owns(held.shard)

    def serves(self, held: Holding) -> bool:
        """Whether a host of the shard may be asked now, as far as ownership goes."""
        return not held.leaving and self._owns(held.shard)

    async def know(self, host: str, held: Holding) -> HostState:
        """The politeness of a host, from its row the first time. The shard must be in use."""
        state = self._governor.known(host)
        if state is None:
            row = await held.store.host(host) or HostRow(host=host)
            state = self._governor.meet(row, held.since, unsure=held.unsure)
            held.hosts.add(host)
        return state

    def settle(self, held: Holding, unfinished: frozenset[str]) -> list[str]:
        """Every unfinished lease of the last owner is known: the hosts met so far that need wait no longer for that."""
        held.unsure = False
        free = sorted(held.hosts - unfinished)
        for host in free:
            state = self._governor.known(host)
            assert state is not None, "known while its shard is held"
            self._governor.sure(state)
        return free

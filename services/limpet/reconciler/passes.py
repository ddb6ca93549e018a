"""What an embedded crawl compares while it runs. Every pass restarts from the authority and may be repeated.

Leases that ran out → due again. Fetched, but in neither output nor job after a grace time → published again.
"""

import asyncio
from collections.abc import Callable, Mapping

from limpet.bus import Producer
from limpet.clock import Clock
from limpet.config import Facts, Settings
from limpet.model.errors import CannotGoOn, LimpetError
from limpet.model.events import DOCUMENT_FETCHED, encode
from limpet.model.lifecycle import State
from limpet.runtime import Mortality
from limpet.urlstore import UrlStore
from limpet.urlstore.facts import event_of

REPUBLISH_MAX = 200

Caught = Callable[[int], bool]
"""shard -> whether its parser has read everything that was published: only then is silence a loss."""


class Reconciler:
    """The passes over the shards of one process."""

    def __init__(
        self,
        *,
        stores: Mapping[int, UrlStore],
        producers: Mapping[int, Producer],
        caught_up: Caught,
        parser_version: int,
        offer: Callable[[str, str, int], None],
        clock: Clock,
        mortality: Mortality,
        settings: Settings,
        facts: Facts,
    ) -> None:
        self._stores = stores
        self._producers = producers
        self._caught_up = caught_up
        self._parser_version = parser_version
        self._offer = offer
        self._clock = clock
        self._crashpoint = mortality.crashpoint
        self._settings = settings
        self._facts = facts

    async def run(self, stop: asyncio.Event) -> None:
        """Pass after pass until `stop`."""
        while not stop.is_set():
            for store in self._stores.values():
                await self.end_stale_leases(store)
                await self.republish(store)
            await self._nap(stop)

    async def end_stale_leases(self, store: UrlStore) -> int:
        """Leases that ran out under a living owner; the number of URLs that are due again or in review."""
        now_us = self._clock.wall_us()
        self._crashpoint("recover.expire.before")
        ended = await store.expire(now_us, dead=False, poison_after=self._settings.retries.interruptions_alone_max)
        self._crashpoint("recover.expire.after")
        for row, state in ended:
            if state is State.DUE:
                self._offer(row.host, row.authority, now_us)
        return len(ended)

    async def republish(self, store: UrlStore) -> int:
        """Fetched, yet nobody parsed it and nobody will: publish it again. The number of events."""
        if not self._caught_up(store.shard):
            return 0
        before_us = self._clock.wall_us() - int(self._settings.work.republish_grace_seconds * 1e6)
        count = 0
        for outcome in await store.unparsed(self._parser_version, before_us, REPUBLISH_MAX):
            row = await store.row(outcome.fp)
            if row is None or outcome.location is None:
                continue
            event = event_of(outcome, row, self._facts.crawl)
            self._crashpoint("recover.republish.before")
            try:
                await self._producers[store.shard].publish(DOCUMENT_FETCHED, [(store.shard, encode(event))])
            except CannotGoOn:
                raise
            except LimpetError:
                break  # the next pass finds the same
            self._crashpoint("recover.republish.after")
            count += 1
        return count

    async def _nap(self, stop: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(self._settings.work.reconcile_seconds):
                await stop.wait()
        except TimeoutError:
            pass

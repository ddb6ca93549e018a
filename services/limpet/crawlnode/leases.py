"""Leases of what was fetched and is not completed yet: kept alive, so that the site is not asked for it again."""

import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from limpet.clock import DurableClock
from limpet.model.errors import LimpetError
from limpet.obs import log_event
from limpet.urlstore import Claim, UrlStore

RENEW_FRACTION: Final = 0.25
_LOG = logging.getLogger("limpet.leases")


class Leases:
    """The claims of one node whose exchange is over and whose completion is not."""

    def __init__(self, clock: DurableClock, lease_seconds: float) -> None:
        self._clock = clock
        self._renew_seconds = lease_seconds * RENEW_FRACTION
        self._lease_us = int(lease_seconds * 1e6)
        self._unfinished: dict[bytes, tuple[Claim, UrlStore]] = {}  # by token

    @contextmanager
    def kept(self, claim: Claim, store: UrlStore) -> Iterator[None]:
        """While the block runs, the claim's lease is renewed again and again."""
        self._unfinished[claim.token] = (claim, store)
        try:
            yield
        finally:
            del self._unfinished[claim.token]

    def is_short(self, claim: Claim) -> bool:
        """Whether the lease may run out before it is renewed anyway."""
        return claim.lease_us - self._clock.wall_us() < self._renew_seconds * 1e6

    async def run(self) -> None:
        """Renew for ever."""
        while True:
            await self._clock.sleep(self._renew_seconds)
            await self.renew()

    async def renew(self) -> None:
        """Renew all of them now, as far as their stores can be reached."""
        now_us = self._clock.wall_us()
        by_store: dict[UrlStore, list[Claim]] = defaultdict(list)
        for claim, store in self._unfinished.values():
            by_store[store].append(claim)
        for store, claims in by_store.items():
            try:
                await store.renew(claims, now_us, now_us + self._lease_us)
            except LimpetError as error:
                log_event(_LOG, logging.WARNING, "leases were not renewed", shard=store.shard, reason=str(error))

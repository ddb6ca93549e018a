"""What the core of the store tells the rest of it, so that neither has to know the other's tables."""

from collections.abc import Mapping
from typing import Protocol

from limpet.urlstore.types import ParseOutput


class Ledger(Protocol):
    """Counts and lists beside the rows. What is `awaited` here is durable when it returns; `add` and `note` are not."""

    async def meet(self, authority: str, host: str) -> None:
        """An authority has, or is about to have, a row."""
        ...

    async def count(self, hosts: Mapping[str, int]) -> None:
        """So many rows were admitted of each host."""
        ...

    async def denied(self, authority: str, fp: bytes) -> None:
        """A row is about to be denied."""
        ...

    async def cancelled(self, host: str, reason: str, fp: bytes) -> None:
        """A row is about to be born cancelled."""
        ...

    async def notify(self, kind: str, host: str, reason: str, sample: str, now_us: int, count: int = 1) -> None:
        """See `UrlStore.notify`."""
        ...

    async def outputs(self, fp: bytes) -> list[ParseOutput]:
        """See `UrlStore.outputs`."""
        ...

    def add(self, counter: str, count: int = 1) -> None:
        """Add to a counter of `limpet.urlstore.counters`."""
        ...

    def note(self, day: int) -> None:
        """One more request of a UTC day."""
        ...

"""What `limpet run` needs of a role."""

import asyncio
from typing import Protocol

from limpet.obs.metrics import Sample


class RoleService(Protocol):
    """One role of one process, over an open `Machine`."""

    @property
    def incarnation(self) -> str:
        """The name that it works under now: a crawl node takes another when it loses its lease."""
        ...

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`, finish what is in hand, give back what is held. Raises `LimpetError` to end the process.

        Servers that are away are waited for inside.
        """
        ...

    def troubles(self) -> dict[str, str]:
        """Why this process is not ready, part by part; {} = it is."""
        ...

    def samples(self) -> list[Sample]:
        """What it tells of itself in numbers."""
        ...

    def holdings(self) -> dict[str, object]:
        """What it holds now, for people: partitions, shards."""
        ...

"""What a supervisor needs of the ring that its workers run, as a port: recovery and seeding while no worker runs."""

from collections.abc import Sequence
from typing import Protocol

from limpet.config import Settings
from limpet.embedded.folder import Folder


class SeedReport(Protocol):
    """What became of the URLs that were given."""

    @property
    def new(self) -> int:
        """Rows that were born."""
        ...

    @property
    def known(self) -> int:
        """URLs that had a row."""
        ...

    @property
    def rejected(self) -> Sequence[tuple[str, str]]:
        """(url, rule) of those that a rule turned away."""
        ...


class Door(Protocol):
    """Must never be used for a shard that has a live owner."""

    async def recover(self, share: frozenset[int], segments_of: frozenset[str] | None) -> None:
        """Recover shards `share` and the segments of dead incarnations `segments_of` (None = every dead one's).

        Raises `LimpetError`.
        """
        ...

    async def admit_seeds(self, urls: Sequence[str]) -> SeedReport:
        """Admit canonical URLs as seeds. Raises `LimpetError`."""
        ...

    async def mend_gaps(self) -> int:
        """Parse again what published links that were dropped unread; the documents. Raises `LimpetError`."""
        ...

    async def unpark(self) -> int:
        """Let go what a host's cap held back and no longer does; the number of URLs. Raises `LimpetError`."""
        ...


class RingDoor:
    """`Door` to the real ring."""

    def __init__(self, folder: Folder, settings: Settings) -> None:
        self._folder = folder
        self._settings = settings

    async def recover(self, share: frozenset[int], segments_of: frozenset[str] | None) -> None:
        """See `Door.recover`."""
        from limpet.embedded.ring import Ports, recover  # noqa: PLC0415 - takes a while to import

        await recover(self._folder, self._settings, share, Ports.system(), segments_of=segments_of)

    async def admit_seeds(self, urls: Sequence[str]) -> SeedReport:
        """See `Door.admit_seeds`."""
        from limpet.embedded.ports import Ports  # noqa: PLC0415 - see `recover`
        from limpet.embedded.seeding import admit_seeds  # noqa: PLC0415 - takes a while to import

        return await admit_seeds(self._folder, self._settings, Ports.system(), urls)

    async def mend_gaps(self) -> int:
        """See `Door.mend_gaps`."""
        from limpet.embedded.gaps import mend_gaps  # noqa: PLC0415 - takes a while to import
        from limpet.embedded.ports import Ports  # noqa: PLC0415 - the same

        return await mend_gaps(self._folder, self._settings, Ports.system())

    async def unpark(self) -> int:
        """See `Door.unpark`."""
        from limpet.embedded.ports import Ports  # noqa: PLC0415 - takes a while to import
        from limpet.embedded.unpark import unpark  # noqa: PLC0415 - the same

        return await unpark(self._folder, self._settings, Ports.system())

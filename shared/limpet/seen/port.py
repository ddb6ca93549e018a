"""The seen port: a set that only saves work.

Contract: a mark always follows its row, so "present" may skip the row; "absent" proves nothing. No false positives: a
fingerprint that was never marked is never present (an adapter that keeps fewer than all bits of a fingerprint says how
many, and the chance of a collision in a whole crawl is below one in a million). Marks may be lost (a crash, a wiped or
full shard): that costs row reads, never a URL.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from limpet.model.errors import Indefinite

FP_BYTES: Final = 16
COLLISION_MAX: Final = 1e-6


class SeenUnavailable(Indefinite):
    """A shard does not answer now: its partition waits and asks again, the others go on. Marks may have been made."""

    def __init__(self, shard: int, why: str) -> None:
        super().__init__(f"seen shard {shard} does not answer: {why}")
        self.shard = shard


class SeenShard(Protocol):
    """The marks of one shard. Every method but `close` may raise `SeenUnavailable`, within a bounded time."""

    async def present(self, fps: Sequence[bytes]) -> list[bool]:
        """Which of the 16-byte fingerprints are marked."""
        ...

    async def mark(self, fps: Sequence[bytes]) -> None:
        """Mark them; idempotent. Raises ValueError for a fingerprint that is not 16 bytes long."""
        ...

    async def clear(self) -> None:
        """Forget everything, before a rebuild from the rows."""
        ...

    async def close(self) -> None:
        """Release the shard."""
        ...

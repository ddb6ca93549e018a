"""The seen port: a set that only saves work.

Contract: a mark always follows its row, so "present" may skip the row; "absent" proves nothing. No false positives: a
fingerprint that was never marked is never present. Marks may be lost (a crash, a wiped shard): that costs row reads,
never a URL.
"""

from collections.abc import Sequence
from typing import Protocol


class SeenShard(Protocol):
    """The marks of one shard."""

    async def present(self, fps: Sequence[bytes]) -> list[bool]:
        """Which of the 16-byte fingerprints are marked."""
        ...

    async def mark(self, fps: Sequence[bytes]) -> None:
        """Mark them; idempotent."""
        ...

    async def clear(self) -> None:
        """Forget everything, before a rebuild from the rows."""
        ...

    async def close(self) -> None:
        """Release the shard."""
        ...

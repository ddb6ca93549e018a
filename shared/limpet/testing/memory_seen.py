"""A seen shard in memory, which can be down, wiped or full."""

from collections.abc import Sequence

from limpet.seen.port import FP_BYTES, SeenUnavailable


class MemorySeen:
    """See `SeenShard`. `marks` outlives `close`, as a server's would; `down` raises, `full` loses new marks."""

    def __init__(self, number: int = 0, marks: set[bytes] | None = None) -> None:
        self.number = number
        self.marks = set() if marks is None else marks
        self.down = False
        self.full = False

    async def present(self, fps: Sequence[bytes]) -> list[bool]:
        """See `SeenShard.present`."""
        self._check()
        return [fp in self.marks for fp in fps]

    async def mark(self, fps: Sequence[bytes]) -> None:
        """See `SeenShard.mark`."""
        self._check()
        if any(len(fp) != FP_BYTES for fp in fps):
            raise ValueError("a fingerprint has 16 bytes")
        if not self.full:
            self.marks.update(fps)

    async def clear(self) -> None:
        """See `SeenShard.clear`."""
        self._check()
        self.marks.clear()

    async def close(self) -> None:
        """See `SeenShard.close`."""

    def _check(self) -> None:
        if self.down:
            raise SeenUnavailable(self.number, "it is down")

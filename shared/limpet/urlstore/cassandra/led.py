"""Timestamps that an owner's epoch leads: whatever a stale owner writes, however late, loses."""

from typing import Final

from limpet.clock import Clock
from limpet.model.errors import Definite

EPOCH_BITS: Final = 23
MILLISECOND_BITS: Final = 40  # 34 years
_BEGIN_MS: Final = 1_577_836_800_000  # 2020-01-01
_EPOCH_MAX: Final = (1 << EPOCH_BITS) - 1
_ELAPSED_MAX: Final = (1 << MILLISECOND_BITS) - (1 << 36)  # in 2052; beyond it is room for timestamps that only rise


class Led:
    """Timestamps for one owner of one shard; each is greater than those before. `epoch` 0 = not an owner.

    Within an epoch they follow the wall clock, so that a second object of the same owner wins over the first; a clock
    that is set back does not hold up the one that saw it.
    """

    def __init__(self, epoch: int, clock: Clock) -> None:
        if not 0 <= epoch <= _EPOCH_MAX:
            raise ValueError(f"epoch {epoch} is not between 0 and {_EPOCH_MAX}")
        self.epoch = epoch
        self._clock = clock
        self._last = 0

    def next(self, what: str) -> int:
        """The timestamp of a write. Raises `Definite` where nobody owns the shard."""
        if not self.epoch:
            raise Definite(f"{what}: only the owner of a shard may, and this store was opened without an epoch")
        elapsed = self._clock.wall_us() // 1000 - _BEGIN_MS
        self._last = max(self._last + 1, min(max(elapsed, 0), _ELAPSED_MAX))
        return (self.epoch << MILLISECOND_BITS) + self._last

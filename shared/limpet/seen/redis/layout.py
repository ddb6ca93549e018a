"""How fingerprints lie in a shard: many small sets of integers.

A set that holds integers only, and few enough of them, is one sorted array in Redis and Valkey (`intset`): eight bytes
a member and a few for the set. There is no filter, since a false positive would be a lost URL. Two halves of the
fingerprint are used: the first chooses the set, the second is the member, all 64 bits of it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from limpet.model.errors import UsageError
from limpet.seen.port import COLLISION_MAX, FP_BYTES

MEMBERS_A_SET: Final = 200  # at full capacity, on average
INTSET_ENTRIES: Final = 512  # the servers' default bound; 200 on average passes it with a chance below 1e-70
MEMBER_BITS: Final = 64
ALERT_FILL: Final = 0.8


@dataclass(frozen=True)
class Layout:
    """Where marks go. `capacity` is a fact of the crawl: URLs in all `shards` together.

    Raises `UsageError` for a capacity at which fingerprints could collide with a chance of `COLLISION_MAX` or more.
    """

    capacity: int
    shards: int = 32

    def __post_init__(self) -> None:
        if self.capacity < 1 or self.shards < 1:
            raise UsageError(f"seen_capacity is {self.capacity} in {self.shards} shards: both must be at least 1")
        if self.collision >= COLLISION_MAX:
            raise UsageError(
                f"seen_capacity {self.capacity} is too large: two URLs would be taken for one with a chance of "
                f"{self.collision:.1e}; the most is {int(COLLISION_MAX * 2 ** (MEMBER_BITS + 1) / MEMBERS_A_SET)}"
            )

    @property
    def shard_capacity(self) -> int:
        """URLs a shard."""
        return -(-self.capacity // self.shards)

    @property
    def sets(self) -> int:
        """Sets a shard."""
        return -(-self.shard_capacity // MEMBERS_A_SET)

    @property
    def kept_bits(self) -> float:
        """Bits of a fingerprint that tell two URLs of a shard apart."""
        return MEMBER_BITS + math.log2(self.sets)

    @property
    def collision(self) -> float:
        """Upper bound of the chance that any two of `capacity` URLs, evenly spread, are taken for one.

        Pairs in a shard, over what the kept bits can tell apart, summed over the shards (birthday bound).
        """
        pairs = self.shard_capacity * (self.shard_capacity - 1) / 2
        return self.shards * pairs / (self.sets * 2.0**MEMBER_BITS)

    def places(self, fps: Sequence[bytes]) -> list[tuple[int, int]]:
        """(set, member) of each fingerprint. Raises ValueError for one that is not 16 bytes long."""
        if any(len(fp) != FP_BYTES for fp in fps):
            raise ValueError("a fingerprint has 16 bytes")
        sets = self.sets
        return [(int.from_bytes(fp[:8], "big") * sets >> 64, int.from_bytes(fp[8:], "big", signed=True)) for fp in fps]

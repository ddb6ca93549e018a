"""What a shard looks like inside, judged from some of its sets: fingerprints spread evenly, so any choice is fair."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from limpet.seen.redis.layout import ALERT_FILL, Layout

SETS_MAX: Final = 512


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """`members` is an estimate unless all sets were looked at. `bytes_a_member` counts the sets and their keys."""

    members: int
    capacity: int
    sets_sampled: int
    sets_found: int
    intset_share: float
    members_a_set_max: int
    bytes_a_member: float

    @property
    def fill(self) -> float:
        """Part of the capacity that is used."""
        return self.members / self.capacity

    @property
    def alert(self) -> bool:
        """Whether it is time for more capacity, which takes a new epoch."""
        return self.fill >= ALERT_FILL or self.intset_share < 1.0


def sampled(sets: int) -> list[int]:
    """Numbers of the sets to look at."""
    count = min(sets, SETS_MAX)
    return [number * sets // count for number in range(count)]


def surveyed(layout: Layout, replies: Sequence[Any]) -> Survey:
    """From SCARD, OBJECT ENCODING and MEMORY USAGE of each; what failed counts as an empty set."""
    looked = len(replies) // 3
    found = [
        (int(size), encoding, int(memory) if isinstance(memory, int) else 0)
        for size, encoding, memory in zip(replies[::3], replies[1::3], replies[2::3], strict=True)
        if isinstance(size, int) and size > 0
    ]
    members = sum(size for size, _, _ in found)
    intsets = sum(1 for _, encoding, _ in found if encoding == b"intset")
    return Survey(
        members=members * layout.sets // max(1, looked),
        capacity=layout.shard_capacity,
        sets_sampled=looked,
        sets_found=len(found),
        intset_share=intsets / len(found) if found else 1.0,
        members_a_set_max=max((size for size, _, _ in found), default=0),
        bytes_a_member=sum(memory for _, _, memory in found) / members if members else 0.0,
    )

"""Which shards are mine: a hint about who should work where. Ownership itself is proven by locks or leases."""

from typing import Protocol


class Membership(Protocol):
    """Gives every process its share of the shards.

    Contract: the shares of living processes may overlap for a while (a hint may be stale), so nothing is safe because
    of it; a shard that nobody has is taken up by somebody in the end.
    """

    def share(self) -> frozenset[int]:
        """Numbers of the shards that this process should own now."""
        ...


class StaticShare:
    """`Membership` of a run with a fixed number of workers: shard modulo workers. Its shares never overlap."""

    def __init__(self, slot: int, workers: int, shards: int) -> None:
        if not 0 <= slot < workers:
            raise ValueError(f"slot {slot} is not one of {workers}")
        self._share = frozenset(range(slot, shards, workers))

    def share(self) -> frozenset[int]:
        """See `Membership.share`."""
        return self._share

"""The table that all processes of a crawl agree by: who lives, and which incarnation owns which shard."""

from typing import Final, Protocol

import msgspec


class Beat(msgspec.Struct, frozen=True):
    """A sign of life. `count` grows with each; `wants`: the shards that the incarnation is told to have."""

    incarnation: str
    role: str
    count: int
    wants: frozenset[int] = frozenset()


class Owner(msgspec.Struct, frozen=True):
    """Who owns a shard, "" = nobody. `epoch` grows by one with each take and by nothing else."""

    incarnation: str
    epoch: int


UNOWNED: Final = Owner("", 0)
"""The owner of a shard that nobody ever took."""


class LeaseTable(Protocol):
    """Beats of incarnations and owners of shards.

    Contract:

    - A beat that was acknowledged is seen by every `incarnations` that begins afterwards; of two beats of one
      incarnation the one with the higher count stands, whichever arrives first.
    - `compare_and_set` and `owner` of a shard are linearizable: each takes effect at one instant between call and
      return. `Indefinite` from `compare_and_set` means that it may have taken effect, or still may; whoever wants to
      know asks `owner`, and writes again under a condition that a late effect would break.
    - `owners` sees every change that was acknowledged before it began, and may or may not see others.
    - Every call ends within a bound that the adapter states; failures are `Definite` or `Indefinite`.
    - Nothing here looks at a clock: whether a beat is old is judged by whoever looks (`limpet.membership.observer`).
    """

    async def beat(self, beat: Beat) -> None:
        """Write a sign of life."""
        ...

    async def incarnations(self) -> list[Beat]:
        """The last beat of every incarnation that was not forgotten."""
        ...

    async def forget(self, incarnation: str) -> None:
        """Remove an incarnation that has ended, and of whose requests none is under way any more.

        Beats that come late for it do not bring it back. Of a dead one that is certain after `Observer.fetched_out`.
        """
        ...

    async def owner(self, shard: int) -> Owner:
        """Who owns the shard; changes under way are decided before the answer."""
        ...

    async def owners(self) -> dict[int, Owner]:
        """The shards that were ever taken."""
        ...

    async def compare_and_set(self, shard: int, old: Owner, new: Owner) -> bool:
        """Make `new` the owner if `old` is now (`UNOWNED` for a shard without a row). True: `new` is, by our doing."""
        ...

"""A lease table in memory."""

from limpet.membership.table import UNOWNED, Beat, Owner


class MemoryLeaseTable:
    """`LeaseTable` that all processes of a rehearsal share."""

    def __init__(self) -> None:
        self._beats: dict[str, Beat] = {}
        self._forgotten: set[str] = set()
        self._owners: dict[int, Owner] = {}

    async def beat(self, beat: Beat) -> None:
        """See `LeaseTable.beat`."""
        known = self._beats.get(beat.incarnation)
        if beat.incarnation not in self._forgotten and (known is None or beat.count > known.count):
            self._beats[beat.incarnation] = beat

    async def incarnations(self) -> list[Beat]:
        """See `LeaseTable.incarnations`."""
        return list(self._beats.values())

    async def forget(self, incarnation: str) -> None:
        """See `LeaseTable.forget`."""
        self._forgotten.add(incarnation)
        self._beats.pop(incarnation, None)

    async def owner(self, shard: int) -> Owner:
        """See `LeaseTable.owner`."""
        return self._owners.get(shard, UNOWNED)

    async def owners(self) -> dict[int, Owner]:
        """See `LeaseTable.owners`."""
        return dict(self._owners)

    async def compare_and_set(self, shard: int, old: Owner, new: Owner) -> bool:
        """See `LeaseTable.compare_and_set`."""
        if self._owners.get(shard, UNOWNED) != old:
            return False
        self._owners[shard] = new
        return True

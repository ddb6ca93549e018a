"""The lease table on Cassandra."""

from limpet.membership.table import UNOWNED, Beat, Owner
from limpet.urlstore.cassandra.session import Row, Session


class CassandraLeaseTable:
    """`LeaseTable` over a session, which bounds each call (`cassandra.request_seconds_max`; reads are tried twice)."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def beat(self, beat: Beat) -> None:
        """See `LeaseTable.beat`."""
        await self._session.run(
            "beat",
            id=beat.incarnation,
            role=beat.role,
            count=beat.count,
            wants=beat.wants,
            count_as_timestamp=beat.count,
        )

    async def incarnations(self) -> list[Beat]:
        """See `LeaseTable.incarnations`."""
        rows = await self._session.run("beats")
        return [Beat(row["id"], row["role"], row["count"], frozenset(row["wants"] or ())) for row in rows]

    async def forget(self, incarnation: str) -> None:
        """See `LeaseTable.forget`."""
        await self._session.run("beat_forget", id=incarnation)

    async def owner(self, shard: int) -> Owner:
        """See `LeaseTable.owner`."""
        row = await self._session.settled("owner_get", shard=shard)
        return UNOWNED if row is None else _owner(row)

    async def owners(self) -> dict[int, Owner]:
        """See `LeaseTable.owners`."""
        return {row["shard"]: _owner(row) for row in await self._session.run("owner_all")}

    async def compare_and_set(self, shard: int, old: Owner, new: Owner) -> bool:
        """See `LeaseTable.compare_and_set`."""
        cells = {"shard": shard, "incarnation": new.incarnation, "epoch": new.epoch}
        if old == UNOWNED:
            verdict = await self._session.conditional("owner_first", **cells)
        else:
            verdict = await self._session.conditional(
                "owner_change", **cells, old_incarnation=old.incarnation, old_epoch=old.epoch
            )
        # A server that tried twice may say "not applied" and show what we wrote: nobody else writes our name.
        return verdict.applied or (verdict.row is not None and _owner(verdict.row) == new)


def _owner(row: Row) -> Owner:
    return Owner(row["incarnation"], row["epoch"])

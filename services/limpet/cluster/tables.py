"""`FactsTable` and `AttemptTable` on Cassandra."""

from typing import Final

from limpet.model.errors import Indefinite
from limpet.urlstore.cassandra import Session

READERS_MET_MAX: Final = 5


class CassandraFacts:
    """See `FactsTable`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def read(self, name: str) -> bytes | None:
        """See `FactsTable.read`. The read ends what is under way, so that two `init`s agree."""
        row = await self._session.settled("facts_get", name=name)
        return None if row is None else bytes(row["value"])

    async def write_once(self, name: str, value: bytes) -> bytes:
        """See `FactsTable.write_once`."""
        verdict = await self._session.conditional("facts_put", name=name, value=value)
        if verdict.applied:
            return value
        stored = await self.read(name)
        if stored is None:
            raise Indefinite(f"fact {name} was refused and is not there: once more")
        return stored


class CassandraAttempts:
    """See `AttemptTable`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def begin(self, topic: str, partition: int, holder: str) -> bool:
        """See `AttemptTable.begin`. Repeated by the same holder it says the same again as long as it never ended."""
        for _ in range(READERS_MET_MAX):
            before = await self._session.settled("reader_get", topic=topic, partition=partition)
            if before is None:
                first = await self._session.conditional("reader_first", topic=topic, partition=partition, holder=holder)
                if first.applied:
                    return True
                continue
            verdict = await self._session.conditional(
                "reader_next",
                topic=topic,
                partition=partition,
                holder=holder,
                before=before["holder"],
                was_clean=before["clean"],
            )
            if verdict.applied:
                return bool(before["clean"])
        raise Indefinite(f"{topic}[{partition}] changes its readers faster than they can begin")

    async def end(self, topic: str, partition: int, holder: str) -> None:
        """See `AttemptTable.end`."""
        await self._session.conditional("reader_end", topic=topic, partition=partition, holder=holder)

    async def mark(self, topic: str, partition: int, offset: int) -> int:
        """See `AttemptTable.mark`. One reader writes; two that overlap may count one attempt for two."""
        row = await self._session.one("attempt_get", topic=topic, partition=partition, offset=offset)
        attempts = 1 + (row["attempts"] if row is not None else 0)
        await self._session.run("attempt_put", topic=topic, partition=partition, offset=offset, attempts=attempts)
        return attempts

    async def acquit(self, topic: str, partition: int, offset: int) -> None:
        """See `AttemptTable.acquit`."""
        await self._session.run("attempt_put", topic=topic, partition=partition, offset=offset, attempts=0)

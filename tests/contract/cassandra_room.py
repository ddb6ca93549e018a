"""A shard of its own for a test, in the keyspace of the run."""

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from contract.stores import candidate
from limpet.clock import SystemClock
from limpet.runtime.randomness import SystemRandom
from limpet.urlstore import Candidate, Claim
from limpet.urlstore.cassandra import CassandraSettings, Session
from limpet.urlstore.cassandra.books import Books
from limpet.urlstore.cassandra.claims import Request
from limpet.urlstore.cassandra.core import Core
from limpet.urlstore.cassandra.operator import Operator
from limpet.urlstore.cassandra.view import View

T = TypeVar("T")

HOUR_US: Final = 3_600_000_000
BASE: Final = int.from_bytes(SystemRandom().token(2))
_SHARDS = itertools.count(BASE * 1000)


def fresh_shard() -> int:
    """A shard that no other test writes to, and none of an earlier run: all of them share a keyspace."""
    return next(_SHARDS)


def fingerprint(shard: int, number: int) -> bytes:
    """One that no other test has, nor an earlier run."""
    return hashlib.blake2b(f"{shard}/{number}".encode(), digest_size=16).digest()


def with_session(settings: CassandraSettings, scenario: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
    """`scenario` on a session."""

    async def main() -> T:
        session = await Session.open(settings)
        try:
            return await scenario(session)
        finally:
            await session.close()

    return asyncio.run(main())


class Room:
    """The parts of a store on one shard of its own; `owner` as the process that claims from it."""

    def __init__(self, session: Session, shard: int, *, epoch: int = 1) -> None:
        clock, random = SystemClock(), SystemRandom()
        self.session, self.shard, self.clock = session, shard, clock
        self.books = Books(session, shard, epoch=epoch, clock=clock, random=random)
        self.core = Core(session, shard, self.books, clock=clock, random=random, owner=epoch > 0)
        self.operator = Operator(
            session,
            self.books.hosts,
            self.books.exits,
            self.core.moves,
            count=self.books.add,
            notify=self.books.notify,
            ended=lambda row: self.core.reading.let_go(row["fp"], row["claim"], at=None),
        )
        self.view = View(session, shard, self.core.index)

    @property
    def authority(self) -> str:
        """One that no other test has."""
        return f"https://h{self.shard}.example"

    @property
    def host(self) -> str:
        """Its host."""
        return f"h{self.shard}.example"

    def candidate(self, number: int, **changes: Any) -> Candidate:
        """A URL of this shard."""
        authority = changes.pop("authority", self.authority)
        return candidate(number, authority, **({"fp": fingerprint(self.shard, number)} | changes))

    async def admit(self, *numbers: int, **changes: Any) -> list[bytes]:
        """URLs of this shard; their fingerprints."""
        some = [self.candidate(number, **changes) for number in numbers]
        await self.core.discovery.admit(some, self.clock.wall_us())
        return [one.fp for one in some]

    async def claim(self, limit: int, authority: str = "") -> list[Claim]:
        """For an hour."""
        now_us = self.clock.wall_us()
        return await self.core.claims.claim(
            Request(authority or self.authority, limit, now_us, now_us + HOUR_US, "incarnation")
        )

    async def states(self, fps: Sequence[bytes]) -> list[str]:
        """Of these URLs, with their reasons."""
        rows = [await self.view.row(fp) for fp in fps]
        return [f"{row.state.value} {row.reason}".strip() if row is not None else "" for row in rows]

"""A shard of its own for a test, in the keyspace of the run."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from limpet.runtime.randomness import SystemRandom
from limpet.urlstore.cassandra import CassandraSettings, Session

T = TypeVar("T")

BASE: Final = int.from_bytes(SystemRandom().token(2))
_SHARDS = itertools.count(BASE * 1000)


def fresh_shard() -> int:
    """A shard that no other test writes to, and none of an earlier run: all of them share a keyspace."""
    return next(_SHARDS)


def with_session(settings: CassandraSettings, scenario: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
    """`scenario` on a session."""

    async def main() -> T:
        session = await Session.open(settings)
        try:
            return await scenario(session)
        finally:
            await session.close()

    return asyncio.run(main())

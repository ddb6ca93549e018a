"""The seen port on one shard of many Redis or Valkey servers.

Keys: `seen:CRAWL:EPOCH:SHARD:SET` -> a set of integers, and `seen:CRAWL:EPOCH:SHARD` -> how the shard is laid out. A
new epoch forgets every mark at once: it begins when the store was restored from a copy (marks would lack their rows) or
the capacity was changed.

A question that fails by itself is answered "absent"; a mark that fails by itself is lost, and its receipt asks for a
rebuild. Integers that SADD returns decide nothing: they count what was new, and an earlier attempt may have added it.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from limpet.clock import Clock
from limpet.receipts import Action, Recorder, Verdict
from limpet.seen.redis.address import Address
from limpet.seen.redis.layout import Layout
from limpet.seen.redis.link import Command
from limpet.seen.redis.pipelines import Bounds, Names, Pipelines, Trade
from limpet.seen.redis.survey import Survey, sampled, surveyed

SCAN_COUNT: Final = b"512"
SETS_A_READ: Final = 64
PRESENT: Final = Trade("seen.present", Action.CACHE_MISS, Verdict.UNKNOWN)
MARK: Final = Trade("seen.mark", Action.REBUILD, Verdict.COMPLETED_REPAIR_PENDING)
CLEAR: Final = Trade("seen.clear", Action.RETRY, Verdict.UNKNOWN)
READ: Final = Trade("seen.read", Action.RETRY, Verdict.UNKNOWN)
SURVEY: Final = Trade("seen.survey", Action.CACHE_MISS, Verdict.UNKNOWN)


class RedisSeen:
    """See `SeenShard`. Connects at the first use; calls take turns.

    Each new connection is checked: a server that evicts, that would not keep the sets small, or that holds this shard
    in another layout is a `UsageError`. `check` does it at start.
    """

    def __init__(
        self,
        address: Address,
        number: int,
        layout: Layout,
        *,
        crawl: str,
        epoch: int,
        incarnation: str,
        recorder: Recorder,
        clock: Clock,
        bounds: Bounds | None = None,
    ) -> None:
        self.number, self.layout = number, layout
        self._epochs = f"seen:{crawl}:".encode()
        self._epoch = self._epochs + b"%d:" % epoch
        facts_key = self._epoch + b"%d" % number
        self._prefix = facts_key + b":"
        self._pipes = Pipelines(
            address,
            Names(crawl, incarnation, number, f"rebuild-seen/{number}/{epoch}"),
            facts_key=facts_key,
            facts=msgspec.json.encode({"shard": number, "sets": layout.sets}),
            recorder=recorder,
            clock=clock,
            bounds=bounds or Bounds(),
        )

    # -- the port ------------------------------------------------------------------------------------------------------
    async def present(self, fps: Sequence[bytes]) -> list[bool]:
        """See `SeenShard.present`; also raises ValueError for a fingerprint that is not 16 bytes long."""
        places = self.layout.places(fps)
        marked: set[tuple[int, int]] = set()
        asked = self._grouped(places)
        commands = [(b"SMISMEMBER", self._key(number), *map(_integer, members)) for number, members in asked]
        replies = [reply for done in await self._pipes.run(PRESENT, commands) for reply in done.replies]
        for (number, members), reply in zip(asked, replies, strict=True):
            if isinstance(reply, list) and len(reply) == len(members):
                marked.update((number, member) for member, found in zip(members, reply, strict=True) if found == 1)
        return [place in marked for place in places]

    async def mark(self, fps: Sequence[bytes]) -> None:
        """See `SeenShard.mark`."""
        groups = self._grouped(self.layout.places(fps))
        await self._pipes.run(
            MARK, [(b"SADD", self._key(number), *map(_integer, members)) for number, members in groups]
        )

    async def clear(self) -> None:
        """See `SeenShard.clear`: every set that this epoch can have."""
        step = self._pipes.bounds.arguments_max
        for begin in range(0, self.layout.sets, step * self._pipes.bounds.commands_max):
            end = min(self.layout.sets, begin + step * self._pipes.bounds.commands_max)
            commands: list[Command] = [
                (b"UNLINK", *map(self._key, range(first, min(end, first + step)))) for first in range(begin, end, step)
            ]
            await self._pipes.run_all(CLEAR, commands)

    async def close(self) -> None:
        """See `SeenShard.close`."""
        await self._pipes.close()

    # -- beyond the port -----------------------------------------------------------------------------------------------
    async def check(self) -> None:
        """Connect and look at the server. Raises `UsageError`, `SeenUnavailable`."""
        await self._pipes.run_all(SURVEY, [(b"PING",)])

    async def survey(self) -> Survey:
        """How full the shard is and how its sets are kept, from a sample of them."""
        numbers = sampled(self.layout.sets)
        commands: list[Command] = []
        for number in numbers:
            key = self._key(number)
            commands += [(b"SCARD", key), (b"OBJECT", b"ENCODING", key), (b"MEMORY", b"USAGE", key)]
        replies = [reply for done in await self._pipes.run(SURVEY, commands) for reply in done.replies]
        return surveyed(self.layout, replies)

    async def marks(self, sets: range) -> AsyncIterator[tuple[int, list[int]]]:
        """What each of these sets holds, set by set. Raises `SeenUnavailable` also for a set that cannot be read."""
        for begin in range(0, len(sets), SETS_A_READ):
            some = sets[begin : begin + SETS_A_READ]
            done = await self._pipes.run_all(READ, [(b"SMEMBERS", self._key(number)) for number in some])
            for number, members in zip(some, (reply for one in done for reply in one.replies), strict=True):
                yield number, [int(member) for member in members]

    async def drop_other_epochs(self) -> int:
        """Remove what other epochs of this crawl have left on the server, of any shard; how many keys."""
        cursor, dropped = b"0", 0
        while True:
            scan = (b"SCAN", cursor, b"MATCH", _literal(self._epochs) + b"*", b"COUNT", SCAN_COUNT)
            ((found,),) = [done.replies for done in await self._pipes.run_all(CLEAR, [scan])]
            cursor, keys = found
            old = [key for key in keys if not key.startswith(self._epoch)]
            await self._pipes.run_all(CLEAR, [(b"UNLINK", key) for key in old])
            dropped += len(old)
            if cursor == b"0":
                return dropped

    def _key(self, number: int) -> bytes:
        return self._prefix + b"%x" % number

    def _grouped(self, places: Sequence[tuple[int, int]]) -> list[tuple[int, list[int]]]:
        """Members by set, each once, never more than the bound allows a command."""
        groups: dict[int, dict[int, None]] = {}
        for number, member in places:
            groups.setdefault(number, {})[member] = None
        step = self._pipes.bounds.arguments_max
        return [
            (number, ordered[begin : begin + step])
            for number, members in groups.items()
            for ordered in (list(members),)
            for begin in range(0, len(ordered), step)
        ]


def _integer(member: int) -> bytes:
    return b"%d" % member


def _literal(text: bytes) -> bytes:
    """For MATCH: what would be a pattern stands for itself."""
    return b"".join(b"\\" + bytes([byte]) if byte in b"*?[]\\" else bytes([byte]) for byte in text)

"""After an unclean start: poison is found, and nobody else is taken for it."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import cast

import pytest

from limpet.bus import Consumer, Message, Position, Producer
from limpet.clock import SystemClock
from limpet.config import Settings
from limpet.model.events import DocumentFetched, encode
from limpet.parser.service import Parser
from limpet.runtime import Immortal
from limpet.runtime.crashpoints import Killed
from limpet.segments import Location, SegmentStore
from limpet.urlstore import Job, UrlStore

MESSAGES = 3
TURNS_OF_A_COMMIT = 5
DEATHS_MAX = 20


class Partition:
    """What outlives the process: messages, the committed offset, attempt marks, jobs. Also the ports to all that."""

    def __init__(self, shard: int) -> None:
        self.shard = shard
        self.committed = 0
        self.marks: Counter[int] = Counter()
        self.parked: list[str] = []
        self._working = 0
        self._payloads = [encode(event(f"http://{shard}.test/{number}")) for number in range(MESSAGES)]

    def restart(self, archive: "Archive") -> None:
        """The consumer begins at the committed offset."""
        self._working = self.committed
        self._archive = archive

    async def receive(self, limit: int) -> list[Message]:
        """See `Consumer.receive`."""
        begin, self._working = self._working, min(MESSAGES, self._working + limit)
        return [Message(Position(self.shard, self.shard, at), self._payloads[at]) for at in range(begin, self._working)]

    async def commit(self, positions: Sequence[Position]) -> None:
        """See `Consumer.commit`; takes its time."""
        for _ in range(TURNS_OF_A_COMMIT):
            await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, no time
        self._archive.commit()
        self.committed = max(position.offset for position in positions) + 1

    def uncommitted(self) -> dict[int, int]:
        """See `Consumer.uncommitted`."""
        return {self.shard: self.committed}

    async def mark(self, position: Position) -> int:
        """See `Marks.mark`."""
        await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, no time
        self._archive.check()
        self.marks[position.offset] += 1
        return self.marks[position.offset]

    async def acquit(self, position: Position) -> None:
        """See `Marks.acquit`."""
        self._archive.check()
        self.marks.pop(position.offset, None)

    async def output(self, _fp: bytes, _fetched_us: int, _version: int) -> None:
        """Nothing was parsed yet."""

    async def put_job(self, job: Job) -> None:
        """Every message ends here: no record can be read. Those that are given up are noted."""
        if job.state == "review":
            self.parked.append(job.reason)

    async def notify(self, *_: object) -> None:
        """Nobody listens."""


class Archive:
    """Reading one record kills the process; the others are unreadable, which is nobody's death."""

    def __init__(self, poison: str, *, commits_max: int = 1_000) -> None:
        self._poison = poison
        self._dead = False
        self._commits_left = commits_max

    def check(self) -> None:
        """A dead process does nothing, also not while a rehearsal takes it down."""
        if self._dead:
            raise Killed(self._poison)

    def commit(self) -> None:
        """Somebody kills the process when it has made too many commits."""
        self._dead = self._dead or self._commits_left == 0
        self._commits_left -= 1
        self.check()

    async def read(self, location: Location) -> bytes:
        """See `SegmentStore.read`; the name of the segment is the URL."""
        self._dead = self._dead or location.segment == self._poison
        self.check()
        raise KeyError(location.segment)


def event(url: str) -> DocumentFetched:
    location = Location(url, 0, 1)
    return DocumentFetched(
        crawl="c",
        fp=url.encode().ljust(16)[:16],
        url=url,
        fetched_us=1,
        status=200,
        location=location,
        payload_sha256="",
        depth=0,
        hops="",
        seed=False,
    )


def parser_of(partition: Partition, archive: Archive, alone: asyncio.Lock) -> Parser:
    return Parser(
        store=cast("UrlStore", partition),
        consumer=cast("Consumer", partition),
        producer=cast("Producer", None),
        segments=cast("SegmentStore", archive),
        partition_of=lambda _: 0,
        marks=partition,
        suspect={partition.shard: MESSAGES},
        alone=alone,
        clock=SystemClock(),
        mortality=Immortal(),
        settings=Settings(),
        crawl="c",
    )


async def live(partitions: Sequence[Partition], archive: Archive) -> None:
    """One life of a process that parses all partitions at once. Raises `Killed`."""
    alone = asyncio.Lock()
    parsers = []
    for partition in partitions:
        partition.restart(archive)
        parsers.append(parser_of(partition, archive, alone))

    async def drain(parser: Parser) -> None:
        while await parser.step():
            pass

    await asyncio.gather(*map(drain, parsers))


def test_poison_is_parked_and_its_neighbours_are_not() -> None:
    """A page that kills the process is parked after its third death; pages that other partitions were parsing at the
    same time are innocent, however often they died with it.
    """
    partitions = [Partition(shard) for shard in range(8)]
    deaths = 0
    while any(partition.committed < MESSAGES for partition in partitions):
        try:
            asyncio.run(live(partitions, Archive("http://3.test/1")))
        except Killed:
            deaths += 1
        assert deaths < DEATHS_MAX
    assert {partition.shard: partition.parked for partition in partitions if partition.parked} == {
        3: ["suspected_poison"]
    }
    assert deaths == 3


def test_kills_from_outside_park_nobody() -> None:
    """A page that was parsed is innocent: however often the process is killed before it can commit, it comes again."""
    partitions = [Partition(shard) for shard in range(3)]
    for _ in range(DEATHS_MAX):
        with pytest.raises(Killed):
            asyncio.run(live(partitions, Archive("", commits_max=0)))
    asyncio.run(live(partitions, Archive("")))
    assert [partition.committed for partition in partitions] == [MESSAGES] * 3
    assert [partition.parked for partition in partitions] == [[]] * 3

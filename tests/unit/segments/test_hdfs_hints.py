"""Hints of a segment that is given up, or advances twice, while one is being written."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from limpet.clock import SystemClock
from limpet.segments.hdfs.hints import Hints
from limpet.segments.settled import parse_settled
from limpet.testing.hdfs import MemoryHdfs, MemoryHdfsFile, MemoryInode

PATH = "/x.settled"


class Meanwhile(MemoryHdfs):
    """Something happens once while a verb is under way."""

    def __init__(self, verb: str) -> None:
        super().__init__()
        self.happens: Callable[[], None] = nothing
        self._verb = verb
        self.pause = partial(SystemClock().sleep, 0)

    async def create(self, path: str, *, overwrite: bool = False) -> MemoryHdfsFile:
        """See `MemoryHdfs.create`."""
        file = await super().create(path, overwrite=overwrite)
        if self._verb == "create":
            self.happens()
        return InterruptedFile(self, self.inodes[path], path) if self._verb == "write" else file


class InterruptedFile(MemoryHdfsFile):
    """`MemoryHdfsFile` whose cluster lets something happen during a write."""

    def __init__(self, hdfs: Meanwhile, inode: MemoryInode, path: str) -> None:
        super().__init__(hdfs, inode, path)
        inode.writer = self
        self._meanwhile = hdfs

    async def write(self, data: bytes) -> None:
        """See `MemoryHdfsFile.write`."""
        await super().write(data)
        self._meanwhile.happens()


def nothing() -> None:
    """Happens mostly."""


@pytest.mark.parametrize("verb", ["create", "write"])
def test_a_segment_may_be_given_up_meanwhile(verb: str) -> None:
    """No harm is done, and nothing more is written."""

    async def main() -> None:
        hdfs = Meanwhile(verb)
        hints = Hints(hdfs, PATH)
        hdfs.happens = hints.drop
        hints.written.add(b"line\n", 10)
        await hints.advance(10)
        await hints.advance(10)
        assert parse_settled(hdfs.content(PATH)).offset == 0
        assert hdfs.inodes[PATH].writer is None

    asyncio.run(main())


def test_two_advances_at_once_write_each_line_once() -> None:
    """The watch over marks, and the seal."""

    async def main() -> None:
        hdfs = Meanwhile("nothing")
        hints = Hints(hdfs, PATH)
        for end in (10, 20):
            hints.written.add(b"line %d\n" % end, end)
        await hints.advance(10)
        await asyncio.gather(hints.advance(20), hints.advance(20))
        await hints.close()
        found = parse_settled(hdfs.content(PATH))
        assert (found.offset, found.lines) == (20, (b"line 10\n", b"line 20\n"))

    asyncio.run(main())

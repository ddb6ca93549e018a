"""Requests of one moment that travel together."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from limpet.clock import SystemClock
from limpet.model.errors import Definite
from limpet.urlstore.cassandra.joining import READS_MAX, WRITE_BYTES_MAX, WRITES_MAX, Joining, Part, cut


class Bound(NamedTuple):
    """A statement with its values."""

    values: list[Any]


class Server:
    """Remembers every request; `error` is what it answers instead, from then on."""

    def __init__(self) -> None:
        self.reads: list[list[bytes]] = []
        self.writes: list[int] = []
        self.error: Exception | None = None

    async def ask(self, name: str, fps: Sequence[bytes]) -> list[dict[str, Any]]:
        """Rows of all that begin with r."""
        assert name == "urls_get"
        self.reads.append(list(fps))
        if self.error is not None:
            raise self.error
        return [{"fp": fp, "url": fp.decode()} for fp in fps if fp.startswith(b"r")]

    async def write(self, statements: Sequence[Any]) -> None:
        """One batch."""
        self.writes.append(len(statements))
        if self.error is not None:
            raise self.error


def test_reads_of_one_turn_are_one_request_and_each_gets_its_row() -> None:
    """The same row is asked for once; a row that is not there is None; many are cut."""

    async def main() -> None:
        server = Server()
        joining = Joining(server.ask, server.write)
        keys = [b"r1", b"x1", b"r1"]
        found = await asyncio.gather(*(joining.row("url_get", key) for key in keys))
        assert found == [{"fp": b"r1", "url": "r1"}, None, {"fp": b"r1", "url": "r1"}]
        assert found[0] is not found[2], "callers may change what they were given"
        assert server.reads == [[b"r1", b"x1"]]
        await asyncio.gather(*(joining.row("url_get", b"r%d" % number) for number in range(2 * READS_MAX + 1)))
        assert [len(keys) for keys in server.reads[1:]] == [READS_MAX, READS_MAX, 1]

    asyncio.run(main())


def test_what_is_asked_later_travels_later() -> None:
    """A read never gets the answer to one that was sent before it was asked for."""

    async def main() -> None:
        server = Server()
        joining = Joining(server.ask, server.write)
        await joining.row("url_get", b"r1")
        await joining.row("url_get", b"r1")
        assert server.reads == [[b"r1"], [b"r1"]]

    asyncio.run(main())


def test_a_failure_is_that_of_everybody_who_travelled_with_it() -> None:
    """Nobody is told that his write is durable; whoever went away meanwhile disturbs nobody."""

    async def main() -> None:
        server = Server()
        joining = Joining(server.ask, server.write)
        server.error = Definite("nobody there")
        left = asyncio.ensure_future(joining.row("url_get", b"r1"))
        await SystemClock().sleep(0)
        left.cancel()
        waiting = [joining.row("url_get", b"r2"), joining.written([Bound([b"1"])]), joining.written([Bound([b"2"])])]
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one) for one in found] == [Definite] * 3
        assert server.writes == [2]
        with pytest.raises(asyncio.CancelledError):
            await left

    asyncio.run(main())


def test_batches_are_bounded_and_parts_stay_whole() -> None:
    """What has to be written together is; a single long statement travels alone."""

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def part(statements: int, size: int) -> Part:
            return Part([Bound([])] * statements, size, loop.create_future())

        parts = [part(2, 10) for _ in range(WRITES_MAX)] + [part(1, 2 * WRITE_BYTES_MAX), part(1, 10)]
        batches = cut(parts)
        assert [one for batch in batches for one in batch] == parts
        assert [sum(len(one.statements) for one in batch) for batch in batches] == [WRITES_MAX, WRITES_MAX, 1, 1]

    asyncio.run(main())

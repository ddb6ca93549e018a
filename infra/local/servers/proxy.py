"""A proxy that forwards requests and does what one likes with the replies: a network between server and user."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

PIECE_BYTES: Final = 1 << 16

Replies = Callable[[bytes], tuple[bytes, bool]]
"""What becomes of a piece of a reply: the bytes that are passed on, and whether the connection goes on."""


def forward(piece: bytes) -> tuple[bytes, bool]:
    """As it came."""
    return piece, True


def drop(_: bytes) -> tuple[bytes, bool]:
    """The server has done it; nobody hears of it."""
    return b"", True


def cut(_: bytes) -> tuple[bytes, bool]:
    """The connection ends instead of the reply."""
    return b"", False


class CutAfter:
    """Forwards so many bytes of replies, ends that connection, and forwards everything from then on."""

    def __init__(self, count: int) -> None:
        self._left = count

    def __call__(self, piece: bytes) -> tuple[bytes, bool]:
        """The piece, or what may still pass of it."""
        if self._left == 0:
            return piece, True
        passed, self._left = piece[: self._left], max(0, self._left - len(piece))
        return passed, self._left > 0


class Proxy:
    """`async with Proxy(host, port) as proxy`: connect to `proxy.port`; `replies` may be exchanged at any time.

    It listens at `address`, port `listen` (0 = any free one).
    """

    def __init__(
        self, host: str, port: int, replies: Replies = forward, *, listen: int = 0, address: str = "127.0.0.1"
    ) -> None:
        self.replies = replies
        self._listen, self._address = listen, address
        self._flows = asyncio.Event()
        self._flows.set()
        self.connections = 0
        self.request_bytes = 0
        self._target = (host, port)
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()  # of both sides: none is left to the garbage collector

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self._address, self._listen)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._close(list(self._writers))
        await self._server.wait_closed()

    def hold(self) -> None:
        """From now on nothing passes, in either direction, and nothing is lost."""
        self._flows.clear()

    def release(self) -> None:
        """What was held passes, and what comes."""
        self._flows.set()

    def sever(self) -> None:
        """End every connection; new ones may be made."""
        for writer in list(self._writers):
            writer.close()

    async def _close(self, writers: Sequence[asyncio.StreamWriter]) -> None:
        for writer in writers:
            writer.close()
        for writer in writers:
            with contextlib.suppress(OSError):
                await asyncio.shield(writer.wait_closed())  # whoever is cancelled here must not cancel it for others
            self._writers.discard(writer)

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self._target)
        self._writers.add(writer)
        return reader, writer

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opening = asyncio.ensure_future(self._open())
        try:
            behind_reader, behind_writer = await asyncio.shield(opening)
        except OSError:
            await self._close([writer])
            return
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):
                await opening  # what it opens is closed with the rest
            raise
        both = [
            asyncio.ensure_future(self._requests(reader, behind_writer)),
            asyncio.ensure_future(self._answers(behind_reader, writer)),
        ]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in both:
                one.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            await self._close([writer, behind_writer])

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(PIECE_BYTES):
            self.request_bytes += len(piece)
            await self._flows.wait()
            writer.write(piece)
            await writer.drain()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(PIECE_BYTES):
            await self._flows.wait()
            passed, goes_on = self.replies(piece)
            writer.write(passed)
            await writer.drain()
            if not goes_on:
                return

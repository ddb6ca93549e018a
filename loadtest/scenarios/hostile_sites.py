"""Three hosts that mean harm, as one child process: one stalls, one sends without end, one sends a bomb.

    python -m scenarios.hostile_sites BODY_BYTES BOMB_BYTES

prints the seeds as JSON once it serves, and ends with its standard input.
"""

import asyncio
import contextlib
import json
import sys
import zlib
from collections.abc import Awaitable, Callable
from typing import Final

STALL, ENDLESS, BOMB = "127.0.66.1", "127.0.66.2", "127.0.66.3"
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"
_NOT_FOUND: Final = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_PAGES: Final = 3
_BLOCK: Final = b"".join(b"<p>%08d %08d</p>\n" % (number, number * 2_654_435_761 % 10**8) for number in range(40_000))

Play = Callable[[asyncio.StreamWriter], Awaitable[None]]


async def _stall(writer: asyncio.StreamWriter) -> None:
    writer.write(_HEAD + b"Content-Length: 100000\r\n\r\n<title>wait</title>")
    await writer.drain()
    await asyncio.Event().wait()


def _endless(body_bytes: int) -> Play:
    async def play(writer: asyncio.StreamWriter) -> None:
        writer.write(_HEAD + b"Content-Length: %d\r\n\r\n" % body_bytes)
        for _ in range(0, body_bytes, len(_BLOCK)):
            writer.write(_BLOCK)
            await writer.drain()

    return play


def _bomb(bomb_bytes: int) -> Play:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(1_000_000)
    packed = b"".join(packer.compress(zeros) for _ in range(bomb_bytes // len(zeros))) + packer.flush()

    async def play(writer: asyncio.StreamWriter) -> None:
        writer.write(_HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed))
        writer.write(packed)
        await writer.drain()

    return play


def _server(play: Play) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET /robots.txt "):
                writer.write(_NOT_FOUND)
                await writer.drain()
            else:
                await play(writer)
        writer.close()

    return serve


async def _main(body_bytes: int, bomb_bytes: int) -> None:
    plays = {STALL: _stall, ENDLESS: _endless(body_bytes), BOMB: _bomb(bomb_bytes)}
    seeds: list[str] = []
    for host, play in plays.items():
        server = await asyncio.start_server(_server(play), host, 0)
        port = server.sockets[0].getsockname()[1]
        seeds += [f"http://{host}:{port}/{number}" for number in range(1 if host == ENDLESS else _PAGES)]
    print(json.dumps(seeds), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)


if __name__ == "__main__":
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_main(int(sys.argv[1]), int(sys.argv[2])))

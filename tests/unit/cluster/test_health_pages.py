"""`/live` and `/ready`: GET only, bounded, JSON."""

import asyncio
import json
from typing import Any

import pytest

from limpet.cluster.http import CONNECTIONS_MAX, HEAD_BYTES_MAX, Answer, HttpServer, parse_address
from limpet.model.errors import UsageError


async def ask(port: int, head: bytes) -> bytes:
    """What comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head)
    try:
        return await asyncio.wait_for(reader.read(), 8)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def get(port: int, path: str) -> tuple[int, Any]:
    """Status and body."""
    answer = await ask(port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), json.loads(body)


def test_pages_say_what_they_are_asked() -> None:
    """200 when all is well, 503 with the reasons when not, 404 and 405 for all else."""

    async def scenario() -> None:
        ready = Answer(ok=False, body={"ready": False, "waits": {"kafka": "away"}})
        server = HttpServer({"/live": lambda: Answer(ok=True, body={"live": True}), "/ready": lambda: ready})
        await server.start("127.0.0.1", 0)
        port = server.address[1]
        assert await get(port, "/live") == (200, {"live": True})
        assert await get(port, "/ready?x=1") == (503, {"ready": False, "waits": {"kafka": "away"}})
        assert (await get(port, "/"))[0] == 404
        assert (await ask(port, b"POST /live HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 405 ")
        assert (await ask(port, b"\x00\xff\r\n\r\n")).startswith(b"HTTP/1.1 405 ")
        await server.close()

    asyncio.run(scenario())


def test_what_never_ends_is_dropped() -> None:
    """A head that is too long gets no answer, and more connections than it takes are closed at once."""

    async def scenario() -> None:
        server = HttpServer({"/live": lambda: Answer(ok=True, body={})})
        await server.start("127.0.0.1", 0)
        port = server.address[1]
        assert await ask(port, b"GET /" + b"x" * (2 * HEAD_BYTES_MAX)) == b""
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS_MAX)]
        assert await ask(port, b"GET /live HTTP/1.1\r\n\r\n") == b""
        for _, writer in idle:
            writer.close()
            await writer.wait_closed()
        await server.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("text", ["8700", "127.0.0.1", "127.0.0.1:x", ":1", "127.0.0.1:70000"])
def test_an_address_is_host_and_port(text: str) -> None:
    """Else it is refused, with the form."""
    with pytest.raises(UsageError, match="write HOST:PORT"):
        parse_address(text)
    assert parse_address("[::1]:80") == ("::1", 80)

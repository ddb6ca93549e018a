"""`/live`, `/ready`, `/tally` and `/metrics` of a process: small, bounded, GET only.

*live* says that the event loop turns and that nothing has ended the role. *ready* says that the facts are checked and
every server confirmed; when not, the reasons are in the body. Answers are JSON, *metrics* text for Prometheus.
"""

import asyncio
import contextlib
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import msgspec

from limpet.model.errors import UsageError
from limpet.obs.metrics import CONTENT_TYPE

HEAD_BYTES_MAX: Final = 8_192
HEAD_SECONDS_MAX: Final = 5.0
CONNECTIONS_MAX: Final = 32
PORT_MAX: Final = 65_535


class Answer(msgspec.Struct, frozen=True):
    """`ok` decides between 200 and 503; `body` is what is told, or `text` if there is any."""

    ok: bool
    body: dict[str, object]
    text: str = ""


Ask = Callable[[], Answer]


def parse_address(text: str) -> tuple[str, int]:
    """HOST:PORT. Raises `UsageError`."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
        raise UsageError(f"cluster.http = {text!r}: write HOST:PORT, such as 127.0.0.1:8700 (port 0: any free one)")
    return host.strip("[]"), int(port)


class HttpServer:
    """Serves `paths` until it is closed. One request a connection."""

    def __init__(self, paths: dict[str, Ask]) -> None:
        self._paths = paths
        self._server: asyncio.Server | None = None
        self._open = 0
        self.address = ("", 0)

    async def start(self, host: str, port: int) -> None:
        """Listen. Raises `UsageError` when the address cannot be had."""
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=HEAD_BYTES_MAX)
        except OSError as error:
            raise UsageError(f"cannot listen on {host}:{port}: {error.strerror or error}; see cluster.http") from error
        bound = self._server.sockets[0].getsockname()
        self.address = (bound[0], bound[1])

    async def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= CONNECTIONS_MAX:
                async with asyncio.timeout(HEAD_SECONDS_MAX):
                    writer.write(self._answer(await reader.readuntil(b"\r\n\r\n")))
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asks badly gets no answer
        finally:
            self._open -= 1
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or words[0] not in {b"GET", b"HEAD"}:
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, {"error": "GET only"}, allow=True)
        ask = self._paths.get(words[1].partition(b"?")[0].decode("latin-1"))
        if ask is None:
            return _response(HTTPStatus.NOT_FOUND, {"error": "no such page", "pages": sorted(self._paths)})
        answer = ask()
        return _response(HTTPStatus.OK if answer.ok else HTTPStatus.SERVICE_UNAVAILABLE, answer.body, answer.text)


def _response(status: HTTPStatus, body: dict[str, object], text: str = "", *, allow: bool = False) -> bytes:
    data = text.encode() if text else msgspec.json.encode(body) + b"\n"
    kind = CONTENT_TYPE if text else "application/json"
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\nConnection: close\r\n"
    head += "Allow: GET, HEAD\r\n" if allow else ""
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data

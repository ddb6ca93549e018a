"""HTTP/1.1 for WebHDFS: our own servers on a trusted network, plain TCP, everything bounded."""

import asyncio
from typing import Final

import msgspec

HEAD_BYTES_MAX: Final = 65_536
IDLE_MAX: Final = 4

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class HttpFault(Exception):
    """No answer, or none that can be understood."""


class Answer(msgspec.Struct, frozen=True):
    """Status and body of an answer."""

    status: int
    body: bytes


class HttpClient:
    """Requests without a body, over kept connections. Requests may be sent twice: ask only for what bears that."""

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self._idle: dict[str, list[Streams]] = {}

    async def ask(
        self, method: str, address: str, target: str, *, body_bytes_max: int, seconds_max: float | None = None
    ) -> Answer:
        """The answer of `address` (host:port). Raises `HttpFault`; redirects are not followed."""
        try:
            async with asyncio.timeout(self._seconds_max if seconds_max is None else seconds_max):
                return await self._ask(method, address, target, body_bytes_max)
        except TimeoutError as error:
            raise HttpFault(f"{address} did not answer in time") from error

    def close(self) -> None:
        """Close the idle connections."""
        idle, self._idle = self._idle, {}
        for streams in idle.values():
            for _, writer in streams:
                writer.close()

    async def _ask(self, method: str, address: str, target: str, body_bytes_max: int) -> Answer:
        kept = self._idle.get(address, [])
        request = f"{method} {target} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n".encode("ascii")
        while kept:  # a server may have closed them meanwhile
            try:
                return await self._exchange(kept.pop(), address, request, body_bytes_max)
            except HttpFault:
                continue
        host, _, port = address.rpartition(":")
        try:
            streams = await asyncio.open_connection(host.strip("[]"), int(port), limit=HEAD_BYTES_MAX)
        except (OSError, ValueError) as error:
            raise HttpFault(f"{address} cannot be reached: {error}") from error
        return await self._exchange(streams, address, request, body_bytes_max)

    async def _exchange(self, streams: Streams, address: str, request: bytes, body_bytes_max: int) -> Answer:
        reader, writer = streams
        keep = False
        try:
            writer.write(request)
            await writer.drain()
            status, headers = _head(await reader.readuntil(b"\r\n\r\n"))
            body, keep = await _body(reader, headers, body_bytes_max)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise HttpFault(f"{address}: {error or 'the connection was closed'}") from error
        else:
            idle = self._idle.setdefault(address, [])
            keep = keep and len(idle) < IDLE_MAX
            if keep:
                idle.append(streams)
            return Answer(status, body)
        finally:
            if not keep:
                writer.close()


def _head(data: bytes) -> tuple[int, dict[bytes, bytes]]:
    first, *lines = data[:-4].split(b"\r\n")
    version, _, rest = first.partition(b" ")
    if not version.startswith(b"HTTP/1."):
        raise ValueError("not HTTP/1")
    headers = {}
    for line in lines:
        name, _, value = line.partition(b":")
        headers[name.strip().lower()] = value.strip()
    return int(rest[:3]), headers


async def _body(reader: asyncio.StreamReader, headers: dict[bytes, bytes], size_bytes_max: int) -> tuple[bytes, bool]:
    """The body, and whether the connection can be used again."""
    keep = headers.get(b"connection", b"").lower() != b"close"
    if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
        return await _chunked(reader, size_bytes_max), keep
    length = headers.get(b"content-length")
    if length is not None:
        if int(length) > size_bytes_max:
            raise ValueError("the answer is too long")
        return await reader.readexactly(int(length)), keep
    body = bytearray()
    while data := await reader.read(HEAD_BYTES_MAX):
        body += data
        if len(body) > size_bytes_max:
            raise ValueError("the answer is too long")
    return bytes(body), False


async def _chunked(reader: asyncio.StreamReader, size_bytes_max: int) -> bytes:
    body = bytearray()
    while size := int((await reader.readline()).partition(b";")[0], 16):
        if len(body) + size > size_bytes_max:
            raise ValueError("the answer is too long")
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    while (await reader.readline()).strip():  # trailers
        pass
    return bytes(body)

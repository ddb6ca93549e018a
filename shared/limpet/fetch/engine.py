"""`WireFetcher`: GET over HTTP/1.1, one connection an exchange, the bytes of the wire kept.

1. *parse* the URL and build the request
2. *open*: the gate judges scheme and port, the host is looked up, the gate judges every address of the answer, one of
   them is connected to (TLS verified) and seen to be the peer (`limpet.fetch.connect`)
3. *converse*: send, read the head, let the caller act on it, read the body (`limpet.fetch.exchange`)
4. *close*; the capture is what came
"""

import asyncio
import ssl
from collections.abc import Iterable, Iterator
from typing import Final

from limpet.clock import Clock
from limpet.fetch.connect import Call, Connector, Opened, default_ssl_context
from limpet.fetch.gate import Gate
from limpet.fetch.port import Capture, FetchRequest, NetFailure, OnHead
from limpet.fetch.proxy import Proxy
from limpet.fetch.resolver import Resolver
from limpet.fetch.spool import Spool
from limpet.fetch.target import parse_target, request_bytes

SPOOLED_START_BYTES: Final = 4_096
"""What a capture keeps in memory of a payload that is spooled."""


class WireFetcher:
    """`Fetcher` over asyncio sockets; works on the stock event loop and on uvloop.

    Without a spool bodies are held in memory: one larger than `body_in_memory_bytes_max` is cut there and marked
    `length`, as if that were the body limit. With one (`spool_into`) what grows beyond `spool_above_bytes` goes there,
    and only a disk that is full raises (`CannotGoOn`). `wall_seconds_max` bounds the whole fetch,
    `connect_seconds_max` TCP and TLS set-up over all addresses tried; limits run on the event loop's clock
    (`loop.time`), times in the capture come from `clock`. A TLS connection that ends without close_notify counts as
    ended (RFC 9112 §9.8 leaves that to the framing: a short Content-Length or a missing last chunk still shows as
    `disconnect`).

    Hosts in `accept_invalid_cert` are tried as all others first; if the certificate is what fails, another connection
    takes it unverified, and the capture says what was wrong with it. With a `proxy` every connection is a tunnel
    through it to the judged address; its own faults have the kind "proxy".
    """

    def __init__(
        self,
        clock: Clock,
        gate: Gate,
        resolver: Resolver,
        ssl_context: ssl.SSLContext | None = None,
        accept_invalid_cert: Iterable[str] = (),
        proxy: Proxy | None = None,
    ) -> None:
        self._clock = clock
        self._resolver = resolver
        self._connector = Connector(gate, resolver, ssl_context or default_ssl_context(), accept_invalid_cert, proxy)

    def spool_into(self, spool: Spool) -> None:
        """See `Spooling.spool_into`."""
        self._connector.spool = spool

    async def fetch(self, request: FetchRequest, on_head: OnHead | None = None) -> Capture:
        """See `Fetcher.fetch`. What `on_head` raises passes through, with the connection closed."""
        started_us, began = self._clock.wall_us(), self._clock.monotonic()
        result = await self._exchange(request, began, on_head)
        if isinstance(result, Capture):
            return result
        return Capture(url=request.url, failure=result, started_us=started_us, duration_us=self._since_us(began))

    async def locate(self, host: str) -> tuple[str, ...]:
        """See `Locating.locate`."""
        answer = await self._resolver.resolve(host)
        return () if isinstance(answer, NetFailure) else answer.addresses

    async def close(self) -> None:
        """See `Fetcher.close`."""
        await self._resolver.close()

    async def _exchange(self, request: FetchRequest, called: float, on_head: OnHead | None) -> Capture | NetFailure:
        target = parse_target(request.url)
        if isinstance(target, str):
            return NetFailure(kind="gate", detail=target)
        data = request_bytes(target, request.headers)
        if isinstance(data, str):
            return NetFailure(kind="gate", detail=data)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.limits.wall_seconds_max
        opened = await self._connector.open(Call(loop, request, target, deadline, on_head is not None))
        if isinstance(opened, NetFailure):
            return opened
        capture: Capture | None = None
        try:
            capture = await self._converse(opened, request.url, data, called, on_head)
        finally:
            opened.exchange.close()
            if capture is None or capture.spool is None:
                await opened.exchange.discard()
        return capture

    async def _converse(self, opened: Opened, url: str, data: bytes, called: float, on_head: OnHead | None) -> Capture:
        exchange = opened.exchange
        parser, tls = exchange.parser, exchange.tls_version()
        started_us, began = self._clock.wall_us(), self._clock.monotonic()
        connect_us = round((began - called) * 1e6)
        exchange.send(data)
        await exchange.wait()
        if parser.head is not None and on_head is not None:
            await on_head(parser.head)
        exchange.resume()
        await exchange.wait()
        duration_us = self._since_us(began)
        file = await exchange.spooled()
        block, payload = (b"", b"")
        if file is None:
            block = parser.block()
            payload = parser.payload(block)
        elif parser.failure is None:
            start_bytes = parser.body_offset + SPOOLED_START_BYTES
            block = await file.examine(lambda: next(file.block(), b"")[:start_bytes])
            payload = await file.examine(lambda: _start(file.payload()))
        return Capture(
            url=url,
            request_bytes=data,
            response_bytes=block,
            body_offset=parser.body_offset,
            payload=payload,
            head=parser.head,
            truncated=parser.truncated,
            failure=parser.failure,
            remote_ip=opened.address,
            tls=tls,
            started_us=started_us,
            duration_us=duration_us,
            connect_us=connect_us,
            insecure_tls=opened.insecure_tls,
            spool=file if parser.failure is None else None,
        )

    def _since_us(self, began: float) -> int:
        return round((self._clock.monotonic() - began) * 1e6)


def _start(pieces: Iterator[bytes]) -> bytes:
    """The beginning of a payload: enough to tell what it is."""
    start = b""
    for piece in pieces:
        start += piece
        if len(start) >= SPOOLED_START_BYTES:
            break
    return start[:SPOOLED_START_BYTES]

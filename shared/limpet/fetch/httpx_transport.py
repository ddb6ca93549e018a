"""Any `Fetcher` as a transport of httpx, for programs that speak httpx and still want captures and the gate."""

import math
from collections.abc import AsyncIterator

import httpx
import msgspec

from limpet.fetch.port import Capture, Fetcher, FetchLimits, FetchRequest, NetFailure, Spooled

CAPTURE_EXTENSION = "limpet.capture"
"""Key of the `Capture` in `httpx.Response.extensions`."""

_EXCEPTIONS: dict[str, type[httpx.TransportError]] = {
    "dns": httpx.ConnectError,
    "refused": httpx.ConnectError,
    "connect": httpx.ConnectError,
    "tls": httpx.ConnectError,
    "gate": httpx.ConnectError,
    "reset": httpx.ReadError,
    "protocol": httpx.RemoteProtocolError,
    "proxy": httpx.ProxyError,
}


class LimpetTransport(httpx.AsyncBaseTransport):
    """`httpx.AsyncClient(transport=LimpetTransport(fetcher), trust_env=False)`.

    GET without a body only; anything else raises `httpx.UnsupportedProtocol`. Host and Connection of the httpx request
    are the engine's business and left out. The response carries the payload (content coding kept, so httpx decodes it
    on reading), the header fields as received, and the whole capture under `CAPTURE_EXTENSION`: a body that was cut is
    a response like any other here, and `capture.truncated` tells. A failure raises the matching httpx exception, as
    httpx's own transport would. The client's connect and read timeouts replace the connect and idle limits.
    `trust_env=False` keeps httpx from putting the proxies of the environment in front of this transport.
    """

    def __init__(self, fetcher: Fetcher, limits: FetchLimits | None = None, *, owned: bool = False) -> None:
        self._fetcher = fetcher
        self._limits = limits or FetchLimits()
        self._owned = owned

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Perform `request`; see the class."""
        if request.method != "GET" or await request.aread():
            raise httpx.UnsupportedProtocol("Limpet sends GET without a body only", request=request)
        capture = await self._fetcher.fetch(self._translate(request))
        if capture.failure is not None:
            raise _exception(capture, capture.failure, request)
        return _response(capture, request)

    async def aclose(self) -> None:
        """Close the fetcher."""
        await self._fetcher.close()

    def _translate(self, request: httpx.Request) -> FetchRequest:
        headers = tuple((n, v) for n, v in request.headers.raw if n.lower() not in {b"host", b"connection"})
        timeouts = request.extensions.get("timeout", {})
        limits = msgspec.structs.replace(
            self._limits,
            connect_seconds_max=_seconds(timeouts.get("connect"), self._limits.connect_seconds_max),
            idle_seconds_max=_seconds(timeouts.get("read"), self._limits.idle_seconds_max),
        )
        return FetchRequest(url=str(request.url), headers=headers, limits=limits, owned=self._owned)


def _seconds(wanted: float | None, default: float) -> float:
    return default if wanted is None or not math.isfinite(wanted) else wanted


def _response(capture: Capture, request: httpx.Request) -> httpx.Response:
    head = capture.head
    if head is None:
        raise httpx.RemoteProtocolError("the capture holds neither a failure nor a head", request=request)
    reason = capture.response_bytes.partition(b"\n")[0].strip().split(maxsplit=2)[2:]
    return httpx.Response(
        head.status,
        headers=list(head.headers),
        stream=httpx.ByteStream(capture.payload) if capture.spool is None else _SpoolStream(capture.spool),
        request=request,
        extensions={"http_version": b"HTTP/1.1", "reason_phrase": b"".join(reason), CAPTURE_EXTENSION: capture},
    )


class _SpoolStream(httpx.AsyncByteStream):
    """A payload that is on disk; closing the response gives its room back."""

    def __init__(self, spool: Spooled) -> None:
        self._spool = spool

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = self._spool.payload()
        while (piece := await self._spool.examine(lambda: next(pieces, None))) is not None:
            yield piece

    async def aclose(self) -> None:
        await self._spool.release()


def _exception(capture: Capture, failure: NetFailure, request: httpx.Request) -> httpx.TransportError:
    text = f"{failure.kind}: {failure.detail}"
    if failure.kind == "timeout":
        # Request bytes are captured once they are sent: before that, the time went into connecting.
        kind = httpx.ReadTimeout if capture.request_bytes else httpx.ConnectTimeout
        return kind(text, request=request)
    return _EXCEPTIONS[failure.kind](text, request=request)

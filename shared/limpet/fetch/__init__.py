"""One HTTP exchange: `fetch(request) -> Capture` keeps the bytes of the wire and never raises for a fault of the site.

`port` is the contract; `engine` fills it over asyncio sockets (`http1`, `head`, `chunked` read the response without
I/O; `exchange` is the connection; `spool` keeps large bodies on disk; `connect` opens it; `gate` and `denylist` say
where connections may go; `resolver` looks names up). `limpet.fetch.httpx_transport` offers any fetcher to httpx; it is
imported by name, so that a crawl without it does not load httpx.
"""

from limpet.fetch.connect import default_ssl_context
from limpet.fetch.engine import WireFetcher
from limpet.fetch.gate import Gate, Owned
from limpet.fetch.port import (
    Capture,
    Fetcher,
    FetchLimits,
    FetchRequest,
    Head,
    Locating,
    NetFailure,
    NetFailureKind,
    OnHead,
    Spooled,
)
from limpet.fetch.redirects import redirect_target
from limpet.fetch.resolver import Answer, Lookup, Resolver, SystemResolver
from limpet.fetch.spool import Spool, Spooling, SpoolLimits

__all__ = [
    "Answer",
    "Capture",
    "FetchLimits",
    "FetchRequest",
    "Fetcher",
    "Gate",
    "Head",
    "Locating",
    "Lookup",
    "NetFailure",
    "NetFailureKind",
    "OnHead",
    "Owned",
    "Resolver",
    "Spool",
    "SpoolLimits",
    "Spooled",
    "Spooling",
    "SystemResolver",
    "WireFetcher",
    "default_ssl_context",
    "redirect_target",
]

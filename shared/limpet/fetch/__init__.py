"""One HTTP exchange: `fetch(request) -> Capture` keeps the bytes of the wire and never raises for a fault of the site."""

from limpet.fetch.port import Capture, Fetcher, FetchLimits, FetchRequest, Head, NetFailure, NetFailureKind

__all__ = ["Capture", "FetchLimits", "FetchRequest", "Fetcher", "Head", "NetFailure", "NetFailureKind"]

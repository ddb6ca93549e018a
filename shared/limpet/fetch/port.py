"""The fetch port."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Literal, Protocol, TypeVar, runtime_checkable

import msgspec

NetFailureKind = Literal["dns", "refused", "connect", "tls", "timeout", "reset", "protocol", "gate", "proxy"]
Truncation = Literal["length", "time", "disconnect"]
T = TypeVar("T")


class FetchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one exchange may cost. A body limit keeps what arrived and marks the capture; a header limit fails it."""

    header_bytes_max: int = 262_144
    body_bytes_max: int = 1_000_000_000
    connect_seconds_max: float = 20.0
    idle_seconds_max: float = 30.0
    wall_seconds_max: float = 120.0
    body_in_memory_bytes_max: int = 16_777_216  # cut there, unless the fetcher has a spool
    spool_above_bytes: int = 262_144  # a response that grows beyond goes to the spool, if there is one
    throughput_bytes_per_second_min: float = 0.0  # over each window; 0 = none
    throughput_window_seconds: float = 20.0


class FetchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One GET. `headers` are sent in order, as given; Host and Connection are added by the engine."""

    url: str
    headers: tuple[tuple[bytes, bytes], ...] = ()
    limits: FetchLimits = FetchLimits()
    owned: bool = False  # the connect gate may open private addresses for this host
    addresses: tuple[str, ...] = ()  # connect to none but these (an answer of `Locating`); () = look up


class NetFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no HTTP answer. `nxdomain` only with kind "dns", `certificate` only with "tls": it was not valid.

    `received_bytes` counts what came all the same.
    """

    kind: NetFailureKind
    detail: str
    nxdomain: bool = False
    received_bytes: int = 0
    certificate: bool = False


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Status line and fields of the final (not 1xx) response, before any of its body."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]  # names as received; values stripped, folds joined by one space

    def get(self, name: bytes) -> bytes | None:
        """First value of field `name` (lower case), or None."""
        return next((value for key, value in self.headers if key.lower() == name), None)


class Spooled(Protocol):
    """A response block that lies on disk, until it is released. What is read here blocks: see `examine`."""

    @property
    def block_bytes(self) -> int:
        """Length of status line, header and body."""
        ...

    @property
    def payload_bytes(self) -> int:
        """Length of the payload."""
        ...

    @property
    def block_sha1(self) -> bytes:
        """SHA-1 of the block."""
        ...

    @property
    def payload_sha1(self) -> bytes:
        """SHA-1 of the payload."""
        ...

    @property
    def payload_sha256(self) -> bytes:
        """SHA-256 of the payload."""
        ...

    def block(self) -> Iterator[bytes]:
        """The block in bounded slices, from its start. Raises OSError."""
        ...

    def payload(self) -> Iterator[bytes]:
        """The payload in bounded slices, from its start. Raises OSError."""
        ...

    async def examine(self, work: Callable[[], T]) -> T:
        """Run `work` where it may block."""
        ...

    async def release(self) -> None:
        """Give the room back. Idempotent; nothing can be read afterwards."""
        ...


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """What one exchange left behind.

    Either `failure` is set and there is no response, or `head` is. `response_bytes` is the block of the WARC response
    record: status line, header bytes and body exactly as received, transfer coding included (interim 1xx responses
    dropped). `payload` is the entity with the transfer coding removed and the content coding kept. Where `spool` is
    set, both hold only the beginning, the whole lies there, and whoever takes the capture releases it.
    """

    url: str
    request_bytes: bytes = b""
    response_bytes: bytes = b""
    body_offset: int = 0  # where the body starts in response_bytes
    payload: bytes = b""
    head: Head | None = None
    truncated: Truncation | None = None
    failure: NetFailure | None = None
    remote_ip: str = ""
    protocol: str = "http/1.1"
    tls: str = ""  # e.g. "TLSv1.3"; empty without TLS
    started_us: int = 0  # wall clock just before the request was sent; the capture's WARC-Date
    duration_us: int = 0  # until the end of the response
    connect_us: int = 0  # before `started_us`: from the call to the send, spent on look-up, connection and TLS
    spool: Spooled | None = None
    insecure_tls: str = ""  # what was wrong with the certificate that was accepted all the same

    @property
    def wire_bytes(self) -> int:
        """Length of the whole block."""
        return len(self.response_bytes) if self.spool is None else self.spool.block_bytes


OnHead = Callable[[Head], Awaitable[None]]


class Fetcher(Protocol):
    """Performs exchanges.

    Contract: one request line per call, never retried inside; every connection passes the connect gate; `on_head`
    is awaited when the final response's fields are complete and before any more of the body is taken; nothing the site
    or the network does raises; cancellation closes the connection at once.
    """

    async def fetch(self, request: FetchRequest, on_head: OnHead | None = None) -> Capture:
        """Send one GET and return what happened."""
        ...

    async def close(self) -> None:
        """Release resolvers and connections."""
        ...


@runtime_checkable
class Locating(Protocol):
    """A fetcher that tells where it would connect to, so that the right to do so can be asked for first."""

    async def locate(self, host: str) -> tuple[str, ...]:
        """Addresses of `host` in the order of preference, () when there are none or nobody knows."""
        ...

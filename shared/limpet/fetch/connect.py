"""From a target to an open connection that the gate has judged at every step."""

import asyncio
import ssl
from collections.abc import Iterable

import msgspec

from limpet.fetch.exchange import Exchange
from limpet.fetch.failures import connect_failure, tls_failure
from limpet.fetch.gate import Gate, bare_host
from limpet.fetch.port import FetchRequest, NetFailure
from limpet.fetch.proxy import REPLY_BYTES_MAX, Proxy, refusal
from limpet.fetch.resolver import Resolver
from limpet.fetch.spool import Spool
from limpet.fetch.target import Target

PROXY_SECONDS_MAX = 5.0
"""For the TCP connection to a proxy, which is near."""

ADDRESSES_TRIED_MAX = 3
"""Connection attempts of one fetch; no request line is sent before one of them stands."""


def default_ssl_context() -> ssl.SSLContext:
    """The system's authorities, names verified, HTTP/1.1 offered by ALPN."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def insecure_ssl_context() -> ssl.SSLContext:
    """The same without any check of names and authorities."""
    context = default_ssl_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Call(msgspec.Struct, frozen=True):
    """One fetch under way."""

    loop: asyncio.AbstractEventLoop
    request: FetchRequest
    target: Target
    deadline: float  # of the whole fetch, on loop.time()
    holds_at_head: bool


class Opened(msgspec.Struct, frozen=True):
    """A connection, and the judged address at its other end."""

    exchange: Exchange
    address: str
    insecure_tls: str = ""  # what is wrong with the certificate that was accepted on request


class Connector:
    """Resolves, judges, connects, judges again. Never raises for a fault of the network or the site."""

    def __init__(
        self,
        gate: Gate,
        resolver: Resolver,
        ssl_context: ssl.SSLContext,
        accept_invalid_cert: Iterable[str] = (),
        proxy: Proxy | None = None,
    ) -> None:
        self._gate = gate
        self._resolver = resolver
        self._ssl_context = ssl_context
        self._accepted = frozenset(map(bare_host, accept_invalid_cert))
        self._insecure_context = insecure_ssl_context() if self._accepted else ssl_context
        self._proxy = proxy
        self.spool: Spool | None = None

    async def open(self, call: Call) -> Opened | NetFailure:
        """A connection to the first judged address that takes one; at most `connect_seconds_max` after the look-up."""
        target, owned = call.target, call.request.owned
        reason = self._gate.check_target(target.scheme, target.port, owned=owned)
        if reason is not None:
            return NetFailure(kind="gate", detail=reason)
        try:
            async with asyncio.timeout_at(call.deadline) as bound:
                addresses = await self._addresses(call)
                if isinstance(addresses, NetFailure):
                    return addresses
                for ip in addresses:
                    reason = self._gate.check_address(ip, target.host, target.port, owned=owned)
                    if reason is not None:
                        return NetFailure(kind="gate", detail=reason)
                until = min(call.deadline, call.loop.time() + call.request.limits.connect_seconds_max)
                bound.reschedule(until)
                return await self._connect_first(call, connect_order(addresses), until)
        except TimeoutError:
            return NetFailure(kind="timeout", detail=f"no connection to {target.host} in time")

    async def _addresses(self, call: Call) -> tuple[str, ...] | NetFailure:
        """Those that the request was granted, or all that the resolver knows."""
        if call.request.addresses:
            return call.request.addresses
        answer = await self._resolver.resolve(call.target.host)
        return answer if isinstance(answer, NetFailure) else answer.addresses

    async def _connect_first(self, call: Call, addresses: list[str], until: float) -> Opened | NetFailure:
        """Try `addresses` in turn; each has an equal share of the time that is left."""
        result: Opened | NetFailure = NetFailure(kind="dns", detail="no address")
        for index, address in enumerate(addresses):
            left = len(addresses) - index
            share_ends = call.loop.time() + (until - call.loop.time()) / left if left > 1 else None
            result = await self._attempt(call, address, share_ends, self._ssl_context)
            if isinstance(result, NetFailure) and result.certificate and bare_host(call.target.host) in self._accepted:
                wrong = result.detail
                result = await self._attempt(call, address, share_ends, self._insecure_context)
                if isinstance(result, Opened):
                    result = msgspec.structs.replace(result, insecure_tls=wrong)
            if isinstance(result, Opened) or result.kind in {"tls", "gate", "proxy"}:
                break
        return result

    async def _attempt(
        self, call: Call, address: str, until: float | None, context: ssl.SSLContext
    ) -> Opened | NetFailure:
        exchange = Exchange(
            call.loop, call.request.limits, call.deadline, holds_at_head=call.holds_at_head, spool=self.spool
        )
        result: Opened | NetFailure | None = None
        try:
            async with asyncio.timeout_at(until):
                result = await self._connect(call, address, exchange, context)
        except OSError as error:  # a timeout is one too
            result = connect_failure(error, address)
        finally:
            if not isinstance(result, Opened):
                exchange.close()
        return result

    async def _connect(
        self, call: Call, address: str, exchange: Exchange, context: ssl.SSLContext
    ) -> Opened | NetFailure:
        """TCP, peer, TLS: in this order, so that not even a handshake reaches a peer that was not judged."""
        if self._proxy is not None:
            failure = await self._tunnel(self._proxy, call, address, exchange)
        else:
            await call.loop.create_connection(lambda: exchange, address, call.target.port)
            reason = self._gate.check_peer(exchange.peer_ip(), address)
            failure = None if reason is None else NetFailure(kind="gate", detail=reason)
        if failure is not None:
            return failure
        if call.target.scheme == "https":
            try:
                await exchange.secure(context, bare_host(call.target.host))
            except (ssl.SSLError, ConnectionError, ValueError) as error:  # ValueError: a name that TLS cannot carry
                return tls_failure(error, address)
        return Opened(exchange, address)

    async def _tunnel(self, proxy: Proxy, call: Call, address: str, exchange: Exchange) -> NetFailure | None:
        """A tunnel through the proxy to the judged address. What fails before the proxy was asked is the proxy's."""
        found = await self._resolver.resolve(proxy.host)
        if isinstance(found, NetFailure):
            return NetFailure(kind="proxy", detail=f"the proxy's name: {found.detail}")
        try:
            async with asyncio.timeout(PROXY_SECONDS_MAX):
                await call.loop.create_connection(lambda: exchange, found.addresses[0], proxy.port)
        except OSError as error:  # a timeout is one too
            return NetFailure(kind="proxy", detail=f"no connection to the proxy: {connect_failure(error, '').kind}")
        try:
            reply = await exchange.tunnel(proxy.request(address, call.target.port), REPLY_BYTES_MAX)
        except (ConnectionError, ValueError) as error:
            return NetFailure(kind="proxy", detail=str(error))
        return refusal(reply)


def connect_order(addresses: tuple[str, ...]) -> list[str]:
    """The resolver's first choice, then the first of the other family, then the rest; at most three."""
    first = addresses[0]
    other = next((ip for ip in addresses if (":" in ip) != (":" in first)), first)
    return list(dict.fromkeys((first, other, *addresses)))[:ADDRESSES_TRIED_MAX]

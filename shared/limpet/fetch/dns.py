"""Look-ups by c-ares: real lifetimes, and a name that does not exist told from a server that does not answer."""

import asyncio
import socket
from collections.abc import Sequence
from typing import Final

import aiodns
import pycares

from limpet.clock import Clock
from limpet.fetch.port import NetFailure
from limpet.fetch.resolver import NO_ADDRESS, Answer, CachedResolver, system_lookup

TRY_SECONDS: Final = 3.0
TRIES: Final = 3

_LOCALHOST: Final = "localhost"
"""c-ares answers for it out of its own head, with both families; the system's resolver reads /etc/hosts."""

_NXDOMAIN: Final = frozenset({aiodns.error.ARES_ENOTFOUND, aiodns.error.ARES_ENONAME})
_FLAGS: Final = pycares.ARES_FLAG_NOSEARCH | pycares.ARES_FLAG_NOALIASES
"""A crawled name is absolute: no domain of this machine's network is ever put behind it."""


class DnsResolver(CachedResolver):
    """`Resolver` over /etc/hosts and the DNS, in the order of nsswitch.conf.

    The servers are those of /etc/resolv.conf, or `nameservers` instead: addresses, with a port if it is not 53
    (`127.0.0.1:5353`, `[::1]:5353`). Both families are asked for, in the order of RFC 6724. The lifetime is the
    shortest of the answer's records; names out of /etc/hosts have the least. At most `lookups_in_flight_max` names are
    asked for at once, the rest wait.
    """

    def __init__(
        self,
        clock: Clock,
        nameservers: Sequence[str] = (),
        *,
        lookups_in_flight_max: int = 64,
        lookup_seconds_max: float = 15.0,
        entries_max: int = 65_536,
    ) -> None:
        super().__init__(clock, lookup_seconds_max=lookup_seconds_max, entries_max=entries_max)
        self._nameservers = list(nameservers)
        self._slots = asyncio.Semaphore(lookups_in_flight_max)
        self._channel: aiodns.DNSResolver | None = None

    async def close(self) -> None:
        """See `Resolver.close`."""
        await super().close()
        if self._channel is not None:
            await self._channel.close()

    async def _find(self, name: str) -> Answer | NetFailure:
        if name == _LOCALHOST or name.endswith(f".{_LOCALHOST}"):
            return await asyncio.get_running_loop().run_in_executor(None, system_lookup, name)
        async with self._slots:
            try:
                channel = self._channel or self._open()
                found = await channel.getaddrinfo(name, family=socket.AF_UNSPEC, type=socket.SOCK_STREAM)
            except aiodns.error.DNSError as error:
                return failure_of_dns(error)
        nodes = [(_address(node.addr[0]), node.ttl) for node in found.nodes]
        return Answer(
            addresses=tuple(dict.fromkeys(address for address, _ in nodes)),
            ttl_seconds=float(min((ttl for _, ttl in nodes), default=0)),
        )

    def _open(self) -> aiodns.DNSResolver:
        """Only inside a running loop."""
        # No `lookups`: pycares 5.2 frees that text before c-ares has read it. Its default is nsswitch.conf's order.
        self._channel = aiodns.DNSResolver(
            nameservers=self._nameservers or None, flags=_FLAGS, timeout=TRY_SECONDS, tries=TRIES
        )
        return self._channel


def failure_of_dns(error: Exception) -> NetFailure:
    """The failure that an error of c-ares stands for."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else -1
    if code in _NXDOMAIN:
        return NetFailure(kind="dns", detail="NXDOMAIN", nxdomain=True)
    if code == aiodns.error.ARES_ENODATA:
        return NetFailure(kind="dns", detail=NO_ADDRESS)
    said = error.args[1] if len(error.args) > 1 else error
    return NetFailure(kind="dns", detail=f"resolver failure ({str(said)[:100]})")


def _address(address: bytes | str) -> str:
    return address.decode("ascii", "replace") if isinstance(address, bytes) else address

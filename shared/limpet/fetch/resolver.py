"""Name look-ups: the port, and the machine's own resolver behind a bounded cache."""

import asyncio
import socket
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

import msgspec

from limpet.clock import Clock
from limpet.fetch.denylist import packed
from limpet.fetch.gate import bare_host
from limpet.fetch.port import NetFailure

TTL_SECONDS_MIN: Final = 60.0
TTL_SECONDS_MAX: Final = 21_600.0
NEGATIVE_SECONDS: Final = 300.0
BROKEN_SECONDS: Final = 5.0
"""How long a failed look-up (SERVFAIL, timeout) stands. RFC 9520 §3.2 asks for 1 s to 5 min; short, because the fault
may be ours, and long enough that a host with many due URLs does not hammer the resolver."""

NO_ADDRESS: Final = "no address"
"""Detail of the failure of a name that exists and has none: as lasting as NXDOMAIN, and not the same."""

_NAME_BYTES_MAX: Final = 253  # RFC 1035 §2.3.4, in text
_LABEL_BYTES_MAX: Final = 63


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses of a host in the resolver's order of preference, at least one; textual (the gate refuses zone ids)."""

    addresses: tuple[str, ...]
    ttl_seconds: float = TTL_SECONDS_MIN


class Resolver(Protocol):
    """Turns host names into addresses.

    Contract: the answer is complete (no address is left out, so that the gate can judge them all); an IP literal
    answers itself without a look-up; a name that does not exist fails with `nxdomain`, any other fault (SERVFAIL,
    timeout, no address records) fails without it; nothing raises; a call ends within a bound of the resolver's own.
    """

    async def resolve(self, host: str) -> Answer | NetFailure:
        """Addresses of `host` (a name, an IPv4 address, or an IPv6 address with or without brackets)."""
        ...

    async def close(self) -> None:
        """Stop looking up."""
        ...


Lookup = Callable[[str], Answer]
"""One blocking look-up, run on a worker thread. Raises `socket.gaierror`, or another OSError."""


def system_lookup(host: str) -> Answer:
    """`getaddrinfo` for TCP, both families, in the order of RFC 6724. It tells no TTL: 60 s is assumed."""
    # Bytes pass Python's own IDNA step by; canonical URLs hold ASCII host names already.
    found = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM)
    return Answer(addresses=tuple(dict.fromkeys(str(entry[4][0]) for entry in found)))


class _Entry(msgspec.Struct, frozen=True):
    result: Answer | NetFailure
    expires: float  # on Clock.monotonic


class CachedResolver(ABC):
    """`Resolver` over some look-up, with the one cache of a process.

    Positive answers live for their TTL clamped to 60 s ... 6 h, NXDOMAIN and empty answers for 5 min, broken look-ups
    for 5 s. At most `entries_max` names are kept, the least recently looked up go first. Callers that ask for one name
    at the same time share one look-up; each waits at most `lookup_seconds_max` in all.
    """

    def __init__(self, clock: Clock, *, lookup_seconds_max: float = 15.0, entries_max: int = 65_536) -> None:
        self._clock = clock
        self._lookup_seconds_max = lookup_seconds_max
        self._entries_max = entries_max
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._in_flight: dict[str, asyncio.Task[Answer | NetFailure]] = {}

    @abstractmethod
    async def _find(self, name: str) -> Answer | NetFailure:
        """One look-up. Raises OSError, RuntimeError, ValueError; may be cancelled when it takes too long."""

    async def resolve(self, host: str) -> Answer | NetFailure:
        """See `Resolver.resolve`."""
        name = bare_host(host)
        entry = self._entries.get(name)
        if entry is not None and entry.expires > self._clock.monotonic():
            return entry.result
        if packed(name) is not None:
            return Answer(addresses=(name,), ttl_seconds=TTL_SECONDS_MAX)
        if not _is_name(name):
            return NetFailure(kind="dns", detail=f"not a host name: {name[:80]!r}", nxdomain=True)
        task = self._in_flight.get(name)
        if task is None:
            task = asyncio.create_task(self._look_up(name))
            self._in_flight[name] = task
        # One caller's cancellation must not fail the others.
        return await asyncio.shield(task)

    async def close(self) -> None:
        """See `Resolver.close`. Callers still waiting are cancelled."""
        waiting = list(self._in_flight.values())
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def _look_up(self, name: str) -> Answer | NetFailure:
        try:
            result, lifetime_seconds = await self._ask(name)
            self._entries[name] = _Entry(result, self._clock.monotonic() + lifetime_seconds)
            self._entries.move_to_end(name)
            while len(self._entries) > self._entries_max:
                self._entries.popitem(last=False)
            return result
        finally:
            del self._in_flight[name]

    async def _ask(self, name: str) -> tuple[Answer | NetFailure, float]:
        try:
            async with asyncio.timeout(self._lookup_seconds_max):
                answer = await self._find(name)
        except TimeoutError:
            return NetFailure(kind="dns", detail="look-up timed out"), BROKEN_SECONDS
        except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: no thread to be had
            return failure_of(error)
        if isinstance(answer, NetFailure):
            is_fact = answer.nxdomain or answer.detail == NO_ADDRESS
            return answer, NEGATIVE_SECONDS if is_fact else BROKEN_SECONDS
        if not answer.addresses:
            return NetFailure(kind="dns", detail=NO_ADDRESS), NEGATIVE_SECONDS
        ttl_seconds = min(max(answer.ttl_seconds, TTL_SECONDS_MIN), TTL_SECONDS_MAX)
        return Answer(addresses=answer.addresses, ttl_seconds=ttl_seconds), ttl_seconds


class SystemResolver(CachedResolver):
    """Over a blocking look-up function on threads, by default the system's own, which tells no TTL.

    At most `lookups_in_flight_max` threads look up at once, the rest wait in line; a thread stuck in the system's
    resolver keeps its place until that gives up.
    """

    def __init__(
        self,
        clock: Clock,
        lookup: Lookup = system_lookup,
        *,
        lookups_in_flight_max: int = 32,
        lookup_seconds_max: float = 15.0,
        entries_max: int = 65_536,
    ) -> None:
        super().__init__(clock, lookup_seconds_max=lookup_seconds_max, entries_max=entries_max)
        self._lookup = lookup
        # A pool of our own: the loop's default one is shared, and libuv's has four threads.
        self._pool = ThreadPoolExecutor(max_workers=lookups_in_flight_max, thread_name_prefix="limpet-dns")

    async def close(self) -> None:
        """See `Resolver.close`."""
        await super().close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _find(self, name: str) -> Answer | NetFailure:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._lookup, name)


def _is_name(name: str) -> bool:
    """Whether the name system could hold `name` at all."""
    labels_fit = all(0 < len(label) <= _LABEL_BYTES_MAX for label in name.split("."))
    return labels_fit and name.isascii() and len(name) <= _NAME_BYTES_MAX and "\0" not in name


def failure_of(error: Exception) -> tuple[NetFailure, float]:
    """The failure a look-up error stands for, and how long it is remembered."""
    code = error.errno if isinstance(error, socket.gaierror) else None
    if code == socket.EAI_NONAME:
        return NetFailure(kind="dns", detail="NXDOMAIN", nxdomain=True), NEGATIVE_SECONDS
    if code == socket.EAI_NODATA:
        return NetFailure(kind="dns", detail=NO_ADDRESS), NEGATIVE_SECONDS
    if code == socket.EAI_AGAIN:
        return NetFailure(kind="dns", detail="resolver failure (EAI_AGAIN)"), BROKEN_SECONDS
    return NetFailure(kind="dns", detail=f"look-up failed: {error}"), BROKEN_SECONDS

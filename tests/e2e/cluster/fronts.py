"""Proxies before real servers, on an event loop in a thread of their own: the network, to be spoilt from a test."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import Self

import uvloop

from servers import Proxy, drop, forward


class Front:
    """One server's proxy, commanded from another thread."""

    def __init__(self, name: str, proxy: Proxy, loop: asyncio.AbstractEventLoop) -> None:
        self.name = name
        self.port = proxy.port
        self._proxy, self._loop = proxy, loop

    def drop_replies(self) -> None:
        """Requests reach the server, which does what they say; nobody hears of it."""
        self._do(lambda: setattr(self._proxy, "replies", drop))

    def hold(self) -> None:
        """Nothing passes and nothing is lost: a network that has stopped."""
        self._do(self._proxy.hold)

    def sever(self) -> None:
        """End every connection, now."""
        self._do(self._proxy.sever)

    def mend(self) -> None:
        """Everything passes again. Connections that lost replies are ended: no client can make sense of them."""
        spoilt = self._proxy.replies is not forward
        self._do(lambda: setattr(self._proxy, "replies", forward))
        self._do(self._proxy.release)
        if spoilt:
            self.sever()

    @property
    def connections(self) -> int:
        """How many were made by now."""
        return self._proxy.connections

    def _do(self, what: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(what)


class Fronts:
    """All proxies of a cluster, by the name of the server behind each."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._stack = AsyncExitStack()
        self._fronts: dict[str, Front] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, name="fronts", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getitem__(self, name: str) -> Front:
        return self._fronts[name]

    def open(self, name: str, host: str, port: int, *, listen: int = 0, address: str = "127.0.0.1") -> Front:
        """A proxy before host:port."""
        proxy = Proxy(host, port, listen=listen, address=address)
        asyncio.run_coroutine_threadsafe(self._stack.enter_async_context(proxy), self._loop).result(10)
        self._fronts[name] = Front(name, proxy, self._loop)
        return self._fronts[name]

    def close(self) -> None:
        """End all of them."""
        if self._thread.is_alive():
            with suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(self._stack.aclose(), self._loop).result(10)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
        self._loop.close()

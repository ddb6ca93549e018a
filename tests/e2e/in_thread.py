"""A server with an event loop of its own, in a thread, while a crawl by the command line runs in this one."""

import asyncio
import threading
from contextlib import AbstractAsyncContextManager
from typing import Self


class InThread:
    """Keeps `server` open while the `with` lasts."""

    def __init__(self, server: AbstractAsyncContextManager[object]) -> None:
        self._server = server
        self._ready, self._stop = threading.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with self._server:
            self._ready.set()
            await self._stop.wait()

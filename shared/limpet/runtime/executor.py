"""Where blocking work (disk, SQLite) runs: a thread in life, inline in rehearsal."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Runner(Protocol):
    """Runs blocking calls without stopping the event loop."""

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work()`; calls given to one runner run one at a time, in order."""
        ...

    def close(self) -> None:
        """Finish what was given and stop."""
        ...


class ThreadRunner:
    """One worker thread."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    async def run(self, work: Callable[[], T]) -> T:
        """See `Runner.run`."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """See `Runner.close`."""
        self._pool.shutdown(wait=True)


class InlineRunner:
    """Runs at once on the caller's thread: a rehearsal has no threads, so a seed replays it."""

    async def run(self, work: Callable[[], T]) -> T:
        """See `Runner.run`."""
        return work()

    def close(self) -> None:
        """See `Runner.close`."""

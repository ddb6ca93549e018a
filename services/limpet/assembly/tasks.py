"""Services that live and end together."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

T = TypeVar("T")


async def hand_on(stop: asyncio.Event, leave: asyncio.Event) -> None:
    """What is asked from outside is asked inside."""
    await stop.wait()
    leave.set()
    await asyncio.Event().wait()


async def unless(stop: asyncio.Event, work: Awaitable[T]) -> T | None:
    """The result of `work`; None when `stop` comes first, and then it is cancelled."""
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        stopped.cancel()
        await asyncio.gather(task, stopped, return_exceptions=True)


async def together(services: Sequence[Awaitable[None]], watchers: Sequence[Awaitable[None]]) -> None:
    """Run all; return when every service has; the first failure ends everything and is raised."""
    loop = asyncio.get_running_loop()
    running = {loop.create_task(_as_coroutine(service)) for service in services}
    watching = {loop.create_task(_as_coroutine(watcher)) for watcher in watchers}
    try:
        while running:
            done, _ = await asyncio.wait(running | watching, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            running -= done
    finally:
        for task in running | watching:
            task.cancel()
        await asyncio.gather(*running, *watching, return_exceptions=True)


async def _as_coroutine(work: Awaitable[None]) -> None:
    await work

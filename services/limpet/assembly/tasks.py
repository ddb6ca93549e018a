"""Services that live and end together."""

import asyncio
from collections.abc import Awaitable, Sequence


async def hand_on(stop: asyncio.Event, leave: asyncio.Event) -> None:
    """What is asked from outside is asked inside."""
    await stop.wait()
    leave.set()
    await asyncio.Event().wait()


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

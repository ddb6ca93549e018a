"""Steps on whole files that several rooms of this adapter take: give back, cut, write, seal."""

from collections.abc import Awaitable, Callable
from typing import Final

from limpet.clock.port import Clock
from limpet.segments.hdfs.cluster import Hdfs, HdfsFault
from limpet.segments.hdfs.places import Places
from limpet.segments.layout import TEMPORARY

POLL_SECONDS: Final = 0.05
POLL_SECONDS_MAX: Final = 1.0


async def give_back(hdfs: Hdfs, clock: Clock, path: str, seconds_max: float) -> int:
    """Take a file from its writer, wait until HDFS has closed it; its length, which is the truth from then on.

    Whoever wrote it can acknowledge nothing more: the NameNode refuses its next sync. HDFS makes the DataNodes agree on
    a length that holds everything synced; that takes about a second, longer while one of them is dead or frozen. Tried
    again until `seconds_max` have passed, a NameNode that is down included. FileNotFoundError, `HdfsFault`.
    """

    async def closed() -> bool:
        return await hdfs.recover_lease(path)

    await _insist(closed, clock, f"{path} was not closed", seconds_max)
    return await hdfs.size(path)


async def remove(hdfs: Hdfs, clock: Clock, path: str, seconds_max: float) -> None:
    """Remove a file, tried again like `give_back`."""

    async def gone() -> bool:
        await hdfs.delete(path)
        return True

    await _insist(gone, clock, f"{path} was not removed", seconds_max)


async def _insist(step: Callable[[], Awaitable[bool]], clock: Clock, failure: str, seconds_max: float) -> None:
    """Ask until the answer is yes; `HdfsFault` when the time is over."""
    deadline = clock.monotonic() + seconds_max
    pause = POLL_SECONDS
    trouble = "not yet"
    while True:
        try:
            if await step():
                return
        except HdfsFault as error:
            trouble = str(error)
        if clock.monotonic() + pause > deadline:
            raise HdfsFault(f"{failure} within {seconds_max:g} s: {trouble}")
        await clock.sleep(pause)
        pause = min(2 * pause, POLL_SECONDS_MAX)


async def cut(hdfs: Hdfs, clock: Clock, path: str, size_bytes: int, seconds_max: float) -> None:
    """Cut a closed file, and wait until HDFS has done it. `HdfsFault`, FileNotFoundError; safe to repeat."""
    await hdfs.truncate(path, size_bytes)
    deadline = clock.monotonic() + seconds_max
    while (await hdfs.blocks(path, 0, 1)).growing:
        if clock.monotonic() > deadline:
            raise HdfsFault(f"{path} was not cut within {seconds_max:g} s")
        await clock.sleep(POLL_SECONDS)
    found = await hdfs.size(path)
    if found != size_bytes:
        raise HdfsFault(f"{path} has {found} bytes after it was cut to {size_bytes}")


async def find(hdfs: Hdfs, places: Places) -> str:
    """The file of a segment; KeyError. It only ever goes from open to sealed, so none is missed in this order."""
    for path in (places.growing, places.sealed):
        try:
            await hdfs.size(path)
        except FileNotFoundError:
            continue
        return path
    raise KeyError(places.sealed)


async def write_whole(hdfs: Hdfs, path: str, data: bytes) -> None:
    """A durable file at `path` in place of what was there. `HdfsFault`; then what was there still is."""
    temporary = f"{path}{TEMPORARY}"
    file = await hdfs.create(temporary, overwrite=True)
    try:
        if data:
            await file.write(data)
            await file.hsync()
        await file.close()
    except BaseException:
        file.drop()
        raise
    await hdfs.rename(temporary, path)


async def seal_file(hdfs: Hdfs, places: Places, index: bytes) -> None:
    """Store the index, take `.open` off the closed segment, forget its hints. Safe to repeat; `HdfsFault`."""
    await write_whole(hdfs, places.index, index)
    try:
        await hdfs.rename(places.growing, places.sealed)
    except FileNotFoundError:
        await hdfs.size(places.sealed)  # sealed before
    await hdfs.delete(places.settled)

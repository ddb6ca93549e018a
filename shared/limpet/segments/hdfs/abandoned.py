"""Segments that failed: given back to HDFS in the background, so that recovery finds them closed."""

import asyncio
from typing import Final

from limpet.clock.port import Clock
from limpet.segments.hdfs.cluster import Hdfs, HdfsFault
from limpet.segments.hdfs.files import give_back, remove
from limpet.segments.hdfs.growing import GrowingSegment
from limpet.segments.hdfs.settings import Alert, HdfsSettings

AT_ONCE_MAX: Final = 4


class Abandoned:
    """A file whose writer let go stays open on the NameNode until its lease is recovered.

    One in which nothing was ever acknowledged is removed instead, still open, so that recovery never meets it.
    """

    def __init__(self, hdfs: Hdfs, settings: HdfsSettings, clock: Clock, alert: Alert) -> None:
        self._hdfs = hdfs
        self._settings = settings
        self._clock = clock
        self._alert = alert
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(AT_ONCE_MAX)

    def take(self, segment: GrowingSegment) -> None:
        """Give it back; what was acknowledged must then be in it."""
        segment.drop()
        if segment.created:
            task = asyncio.get_running_loop().create_task(self._give_back(segment), name=f"give back {segment.name}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait a while; what is not given back by then is left to recovery, which can do it as well."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._settings.close_seconds_max)
        left = [task for task in self._tasks if task.cancel()]
        if left:
            await asyncio.wait(left)

    async def _give_back(self, segment: GrowingSegment) -> None:
        seconds_max = self._settings.recover_seconds_max
        try:
            async with self._slots:
                if not segment.size_bytes:
                    await remove(self._hdfs, self._clock, segment.path, seconds_max)
                    return
                size_bytes = await give_back(self._hdfs, self._clock, segment.path, seconds_max)
                if size_bytes < segment.size_bytes:
                    detail = f"{segment.name} has {size_bytes} bytes, {segment.size_bytes} were acknowledged"
                    self._alert("acknowledged_lost", detail)
        except FileNotFoundError:
            return  # sealed
        except HdfsFault as error:
            self._alert("lease_not_recovered", str(error))

"""Exact reads: closed blocks through the driver, the growing one from a DataNode that holds it."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from limpet.clock.port import Clock
from limpet.segments.hdfs.cluster import Hdfs, HdfsFault, HdfsReader
from limpet.segments.hdfs.places import places_of
from limpet.segments.hdfs.tail import TailReads

READERS_MAX: Final = 64


class ExactReads:
    """Reads of segments below `root`. Keeps some files open: where closed blocks lie changes rarely."""

    def __init__(self, hdfs: Hdfs, clock: Clock, root: str) -> None:
        self._hdfs = hdfs
        self._root = root
        self._readers: OrderedDict[str, HdfsReader] = OrderedDict()
        self._opening: dict[str, asyncio.Future[HdfsReader]] = {}
        self._tails = TailReads(hdfs, clock)

    async def read(self, name: str, offset: int, size_bytes: int) -> bytes:
        """Up to `size_bytes` bytes at `offset`, shorter only at the end of the file. KeyError, `HdfsFault`."""
        reader, end = self._readers.get(name), offset + size_bytes
        if reader is None or reader.size_bytes < end <= self._tails.closed_bytes(places_of(self._root, name).growing):
            reader = await self._open(name)
        else:
            self._readers.move_to_end(name)
        if reader.size_bytes >= end:
            return await self._closed(name, reader, offset, size_bytes)
        return await self._beyond(name, offset, size_bytes)

    def forget(self, name: str) -> None:
        """The file was cut."""
        self._readers.pop(name, None)

    async def _beyond(self, name: str, offset: int, size_bytes: int) -> bytes:
        """Some of it lies behind the closed blocks that we know of: growing, or not there."""
        try:
            return await self._tails.read(places_of(self._root, name).growing, offset, size_bytes)
        except FileNotFoundError:  # sealed meanwhile, so all of it is closed
            reader = await self._open(name)
        size_bytes = max(0, min(size_bytes, reader.size_bytes - offset))
        return await self._closed(name, reader, offset, size_bytes) if size_bytes else b""

    async def _closed(self, name: str, reader: HdfsReader, offset: int, size_bytes: int) -> bytes:
        try:
            return await reader.read(offset, size_bytes)
        except HdfsFault:  # the replicas may have moved
            reader = await self._open(name)
            return await reader.read(offset, size_bytes)

    async def _open(self, name: str) -> HdfsReader:
        """A fresh look at the file; those who want it at the same time share it."""
        opening = self._opening.get(name)
        if opening is None:
            opening = self._opening[name] = asyncio.ensure_future(self._look(name))
            opening.add_done_callback(self._looked(name))
        return await asyncio.shield(opening)

    def _looked(self, name: str) -> Callable[[asyncio.Future[HdfsReader]], None]:
        def looked(opening: asyncio.Future[HdfsReader]) -> None:
            self._opening.pop(name, None)
            if opening.cancelled() or opening.exception() is not None:
                return
            self._readers[name] = opening.result()
            self._readers.move_to_end(name)
            while len(self._readers) > READERS_MAX:
                self._readers.popitem(last=False)

        return looked

    async def _look(self, name: str) -> HdfsReader:
        places = places_of(self._root, name)
        for path in (places.growing, places.sealed):  # a segment goes only this way
            try:
                return await self._hdfs.open(path)
            except FileNotFoundError:
                continue
        raise KeyError(name)

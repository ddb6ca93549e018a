"""Real HDFS: hdfs-native for files and closed blocks, WebHDFS for the rest. The one module that knows the driver."""

import asyncio
import getpass
import os
from collections.abc import Awaitable, Callable
from functools import cache, partial
from typing import Final, TypeVar

from hdfs_native import AsyncClient, AsyncFileReader, AsyncFileWriter, WriteOptions

from limpet.clock import SystemClock
from limpet.segments.hdfs.cluster import FileBlocks, HdfsFault, LeaseLost, Room
from limpet.segments.hdfs.settings import HdfsSettings
from limpet.segments.hdfs.webhdfs import WebHdfs

T = TypeVar("T")
WRITE_BYTES: Final = 4_194_304
TELLING_SECONDS: Final = 0.02
"""Longer than the driver takes to let go of its lock once it has said that a call failed."""

_TAKEN: Final = ("LeaseExpiredException", "COMPLETE but not UNDER_CONSTRUCTION")
"""How the NameNode tells a writer that its lease was recovered, before and after it closed the file."""

_REPLACE: Final = "dfs.client.block.write.replace-datanode-on-failure"


class NativeHdfs:
    """`Hdfs` over a cluster. Every call has its time; a call that outlasts it is given up and counts as failed.

    What may ask the NameNode through the driver takes turns, one call at a time. When the driver loses its connection,
    it fails the calls that wait for an answer with a lock in its hands, and for each wakes the event loop, which takes
    the interpreter's lock; another call that begins meanwhile has that one, and waits for the driver's (seen as
    processes that stood still for ever after the death of a NameNode). With nothing else under way nobody waits; and
    since the event loop is told before the lock is let go, a call that failed keeps its turn for a moment.
    """

    def __init__(self, settings: HdfsSettings) -> None:
        rpc = settings.url.removeprefix("hdfs://").rstrip("/")
        user = settings.user or os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
        self._settings = settings
        self._turns = _Turns()
        self._client = _client(settings.url, tuple(sorted(client_config(settings).items())))
        self._web = WebHdfs(settings.namenodes_http, rpc=rpc, user=user, seconds_max=settings.call_seconds_max)

    async def create(self, path: str, *, overwrite: bool = False) -> "NativeFile":
        """See `Hdfs.create`."""
        options = WriteOptions(
            block_size=self._settings.block_bytes,
            replication=self._settings.replication,
            overwrite=overwrite,
            create_parent=True,
        )
        inner = await self._call(f"create {path}", lambda: self._client.create(path, options))
        return NativeFile(path, inner, self._turns, self._settings.write_seconds_max)

    async def open(self, path: str) -> "NativeReader":
        """See `Hdfs.open`."""
        reader = await self._call(f"open {path}", lambda: self._client.read(path))
        return NativeReader(path, reader, self._settings.read_seconds_max)

    async def tail(self, path: str, offset: int, size_bytes: int, datanode: str) -> bytes:
        """See `Hdfs.tail`."""
        return await self._web.tail(path, offset, size_bytes, datanode, self._settings.tail_seconds_max)

    async def blocks(self, path: str, offset: int, size_bytes: int) -> FileBlocks:
        """See `Hdfs.blocks`."""
        return await self._web.blocks(path, offset, size_bytes)

    async def size(self, path: str) -> int:
        """See `Hdfs.size`."""
        status = await self._call(f"look at {path}", lambda: self._client.get_file_info(path))
        return status.length

    async def files(self, folder: str) -> dict[str, int]:
        """See `Hdfs.files`."""
        try:
            return await self._call(f"list {folder}", lambda: self._files(folder))
        except FileNotFoundError:
            return {}

    async def recover_lease(self, path: str) -> bool:
        """See `Hdfs.recover_lease`."""
        return await self._call(f"recover {path}", lambda: self._client.recover_lease(path))

    async def truncate(self, path: str, size_bytes: int) -> None:
        """See `Hdfs.truncate`."""
        await self._web.truncate(path, size_bytes)

    async def rename(self, source: str, target: str) -> None:
        """See `Hdfs.rename`."""
        await self._call(f"rename {source}", lambda: self._client.rename(source, target, overwrite=True))

    async def delete(self, path: str) -> None:
        """See `Hdfs.delete`."""
        await self._call(f"delete {path}", lambda: self._client.delete(path))

    async def mkdirs(self, path: str) -> None:
        """See `Hdfs.mkdirs`."""
        await self._call(f"make {path}", lambda: self._client.mkdirs(path, create_parent=True))

    async def room(self) -> Room:
        """See `Hdfs.room`."""
        return await self._web.room()

    async def close(self) -> None:
        """See `Hdfs.close`."""
        self._web.close()

    async def _files(self, folder: str) -> dict[str, int]:
        entries = [entry async for entry in self._client.list_status(folder, recursive=True)]
        return {entry.path: entry.length for entry in entries if not entry.isdir}

    async def _call(self, what: str, ask: Callable[[], Awaitable[T]]) -> T:
        return await bounded(what, self._turns.take(ask), self._settings.call_seconds_max)


class NativeFile:
    """`HdfsFile` over the driver's writer."""

    def __init__(self, path: str, inner: AsyncFileWriter, turns: "_Turns", seconds_max: float) -> None:
        self._path = path
        self._inner: AsyncFileWriter | None = inner
        self._turns = turns
        self._seconds_max = seconds_max

    async def write(self, data: bytes) -> None:
        """See `HdfsFile.write`."""
        for start in range(0, len(data), WRITE_BYTES):
            piece = data if len(data) <= WRITE_BYTES else data[start : start + WRITE_BYTES]
            await self._do("write", partial(self._writer().write, piece))

    async def hsync(self) -> None:
        """See `HdfsFile.hsync`."""
        await self._do("sync", self._writer().hsync)

    async def close(self) -> None:
        """See `HdfsFile.close`."""
        await self._do("close", self._writer().close)
        self._inner = None

    def drop(self) -> None:
        """See `HdfsFile.drop`."""
        self._inner = None

    async def _do(self, what: str, step: Callable[[], Awaitable[object]]) -> None:
        await bounded(f"{what} {self._path}", self._turns.take(step), self._seconds_max)

    def _writer(self) -> AsyncFileWriter:
        if self._inner is None:
            raise HdfsFault(f"{self._path} was given up")
        return self._inner


class NativeReader:
    """`HdfsReader` over the driver's reader."""

    def __init__(self, path: str, inner: AsyncFileReader, seconds_max: float) -> None:
        self.size_bytes = len(inner)
        self._path = path
        self._inner = inner
        self._seconds_max = seconds_max

    async def read(self, offset: int, size_bytes: int) -> bytes:
        """See `HdfsReader.read`."""
        if offset + size_bytes > self.size_bytes:
            raise ValueError("beyond the closed blocks")  # the driver panics there
        return await bounded(f"read {self._path}", self._inner.read_range(offset, size_bytes), self._seconds_max)


class _Turns:
    """One call at a time, by the clock of the driver's own threads."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._clock = SystemClock()

    async def take(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer, asked for when nobody else waits for one, nor is just being told that there is none."""
        async with self._lock:
            try:
                return await ask()
            except (FileNotFoundError, FileExistsError):
                raise  # the NameNode's own words
            except Exception:
                await self._clock.sleep(TELLING_SECONDS)
                raise


@cache
def _client(url: str, config: tuple[tuple[str, str], ...]) -> AsyncClient:
    """The driver's client, one for a cluster, and never let go of.

    When the last reference to one goes, the driver ends its threads and waits for them with the interpreter's lock in
    its hands; a thread that is about to tell the event loop of an answer waits for that lock (seen as a process that
    stood still for ever, right after its last call had come back).
    """
    return AsyncClient(url, dict(config))


def client_config(settings: HdfsSettings) -> dict[str, str]:
    """What the driver is told.

    Without the keys of `replace-datanode-on-failure` a writer hangs when a DataNode of its pipeline dies. The driver
    sleeps between rounds of tries, and its sleep panics outside its own threads (`no reactor running`): so many tries
    that there is no second round.
    """
    return {
        f"{_REPLACE}.enable": "true",
        f"{_REPLACE}.policy": "DEFAULT",
        f"{_REPLACE}.best-effort": "true",
        "dfs.client.failover.max.attempts": str(len(settings.namenodes_http) - 1),
        **settings.client,
    }


async def bounded(what: str, answer: Awaitable[T], seconds_max: float) -> T:
    """`answer` within its time; whatever the driver raises, but for files missing and there, as `HdfsFault`.

    A panic of the Rust library comes as an exception that is not an `Exception`; its class cannot be imported.
    """
    try:
        async with asyncio.timeout(seconds_max):
            return await answer
    except (FileNotFoundError, FileExistsError, HdfsFault):
        raise
    except TimeoutError as error:
        raise HdfsFault(f"{what}: not within {seconds_max:g} s") from error
    except Exception as error:
        raise _fault(what, error) from error
    except BaseException as error:
        if type(error).__module__ != "pyo3_runtime":
            raise
        raise _fault(what, error) from error


def _fault(what: str, error: BaseException) -> HdfsFault:
    text = str(error).replace("\\n", "\n").partition("\n")[0]
    kind = LeaseLost if any(sign in text for sign in _TAKEN) else HdfsFault
    return kind(f"{what}: {text[:300] or type(error).__name__}")

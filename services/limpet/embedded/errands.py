"""Errands between the workers of one machine: small files in `DIR/run/errands`.

`SHARD-BOOT_US-INCARNATION-NUMBER.ask` holds the errand, `.answer` beside it what came of it. Nothing is synced: after a
crash nobody waits for an answer. What is older than anybody waits is taken away by whoever sees it.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from limpet.clock import DurableClock
from limpet.crawlnode.errands import Answered, Errand, NotAsked, Run
from limpet.embedded.folder import Folder
from limpet.model.errors import LimpetError
from limpet.model.identity import bucket_of, shard_of
from limpet.model.urls import split
from limpet.robots import RobotsAnswer

WAIT_SECONDS_MAX: Final = 90.0
LOOK_SECONDS: Final = 0.25
RUNNING_MAX: Final = 8
ASK: Final = ".ask"
ANSWER: Final = ".answer"
_FILE_BYTES_MAX: Final = 4_000_000


class FileErrands:
    """`Errands` over files; `shards` are those of this worker."""

    def __init__(
        self,
        folder: Path,
        *,
        shards: frozenset[int],
        shard_of_host: Callable[[str], int],
        clock: DurableClock,
        name: str,
    ) -> None:
        self._folder = folder
        self._shards = shards
        self._shard_of_host = shard_of_host
        self._clock = clock
        self._name = name
        self._number = 0
        self._stopping = False
        self._running: dict[str, asyncio.Task[None]] = {}

    async def ask(self, errand: Errand) -> RobotsAnswer | NotAsked | None:
        """See `Errands.ask`."""
        self._number += 1
        stem = f"{self._shard_of_host(split(errand.url).host)}-{self._clock.boot_us()}-{self._name}-{self._number}"
        ask, answer = self._folder / f"{stem}{ASK}", self._folder / f"{stem}{ANSWER}"
        until = self._clock.monotonic() + WAIT_SECONDS_MAX
        try:
            self._put(ask, msgspec.msgpack.encode(errand))
            while self._clock.monotonic() < until and not self._stopping:
                await self._clock.sleep(LOOK_SECONDS)
                data = _read(answer)
                if data is not None:
                    return msgspec.msgpack.decode(data, type=Answered)
        except (OSError, msgspec.MsgspecError):
            return None
        finally:
            for path in (ask, answer):
                _remove(path)
        return None

    def stop(self) -> None:
        """See `Errands.stop`."""
        self._stopping = True

    async def serve(self, run: Run) -> None:
        """See `Errands.serve`."""
        try:
            while True:
                await self._clock.sleep(LOOK_SECONDS)
                for stem, suffix in self._names():
                    if suffix == ASK and len(self._running) < RUNNING_MAX and stem not in self._running:
                        self._start(stem, run)
        finally:
            for task in self._running.values():
                task.cancel()

    def _names(self) -> list[tuple[str, str]]:
        """What lies there for this worker; stale files go."""
        found: list[tuple[str, str]] = []
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._folder):
                stem, _, suffix = entry.name.rpartition(".")
                shard, _, rest = stem.partition("-")
                born_us = rest.partition("-")[0]
                if not (shard.isdecimal() and born_us.isdecimal()):
                    continue
                if self._left_seconds(int(born_us)) <= 0:
                    _remove(Path(entry.path))
                elif int(shard) in self._shards:
                    found.append((stem, f".{suffix}"))
        return found

    def _left_seconds(self, born_us: int) -> float:
        """How long somebody still waits. Boot time: all processes of a machine agree on it."""
        age_us = self._clock.boot_us() - born_us
        return WAIT_SECONDS_MAX - age_us / 1e6 if age_us >= 0 else 0.0

    def _start(self, stem: str, run: Run) -> None:
        task = asyncio.get_running_loop().create_task(self._run(stem, run))
        self._running[stem] = task
        task.add_done_callback(lambda _: self._running.pop(stem, None))

    async def _run(self, stem: str, run: Run) -> None:
        asked = _read(self._folder / f"{stem}{ASK}")
        if asked is None:
            return
        born_us = int(stem.split("-")[1])
        answer: RobotsAnswer | NotAsked | None = None
        with contextlib.suppress(LimpetError, ValueError, msgspec.MsgspecError):
            errand = msgspec.msgpack.decode(asked, type=Errand)
            answer = await run(errand, self._clock.monotonic() + self._left_seconds(born_us))
            if answer is None and self._stopping:
                return  # whoever asked stops too, or is answered by the next one in our place
        with contextlib.suppress(OSError):
            self._put(self._folder / f"{stem}{ANSWER}", msgspec.msgpack.encode(answer))
        _remove(self._folder / f"{stem}{ASK}")

    def _put(self, path: Path, data: bytes) -> None:
        """The whole file or none of it."""
        draft = path.with_name(f"{path.name}.draft-{self._name}")
        draft.write_bytes(data)
        draft.rename(path)


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(_FILE_BYTES_MAX)
    except OSError:
        return None


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def errands_of(folder: Folder, share: frozenset[int], clock: DurableClock, incarnation: str) -> FileErrands:
    """Those of a worker that owns `share`."""

    def shard_of_host(host: str) -> int:
        return shard_of(bucket_of(host, folder.facts.buckets), folder.facts.shards)

    return FileErrands(folder.errands, shards=share, shard_of_host=shard_of_host, clock=clock, name=incarnation)

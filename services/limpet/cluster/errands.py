"""Errands between crawl nodes: rows of the shard whose owner is asked. See `limpet.crawlnode.errands`.

A death on either side loses the errand and nothing else: its row is gone after its time. Times are wall time; nodes
whose clocks are apart are not ready (`Machine.clocks_agree`), and a second of difference is taken off the wait.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import msgspec

from limpet.clock import DurableClock
from limpet.crawlnode.errands import Answered, Errand, NotAsked, Run
from limpet.model.errors import LimpetError
from limpet.model.urls import split
from limpet.robots import RobotsAnswer
from limpet.urlstore.cassandra import Row, Session

WAIT_SECONDS_MAX: Final = 90.0
APART_SECONDS_MAX: Final = 1.0
LOOK_SECONDS: Final = 0.5
SERVE_SECONDS: Final = 1.0
RUNNING_MAX: Final = 8


class CassandraErrands:
    """`Errands` over a table; `owned` are the shards of this node now."""

    def __init__(
        self,
        session: Session,
        *,
        owned: Callable[[], frozenset[int]],
        shard_of_host: Callable[[str], int],
        clock: DurableClock,
        name: str,
    ) -> None:
        self._session = session
        self._owned = owned
        self._shard_of_host = shard_of_host
        self._clock = clock
        self._name = name
        self._number = 0
        self._stopping = False
        self._running: dict[str, asyncio.Task[None]] = {}

    async def ask(self, errand: Errand) -> RobotsAnswer | NotAsked | None:
        """See `Errands.ask`."""
        self._number += 1
        shard, name = self._shard_of_host(split(errand.url).host), f"{self._name}-{self._number}"
        until = self._clock.monotonic() + WAIT_SECONDS_MAX
        until_us = self._clock.wall_us() + int(WAIT_SECONDS_MAX * 1e6)
        try:
            asked = {"url": errand.url, "asked": msgspec.msgpack.encode(errand)}
            await self._session.run("errand_ask", shard=shard, id=name, until_us=until_us, **asked)
            while self._clock.monotonic() < until and not self._stopping:
                await self._clock.sleep(LOOK_SECONDS)
                row = await self._session.one("errand_look", shard=shard, id=name)
                if row is not None and row["answer"]:
                    return msgspec.msgpack.decode(bytes(row["answer"]), type=Answered)
        except (LimpetError, msgspec.MsgspecError):
            return None
        return None

    def stop(self) -> None:
        """See `Errands.stop`."""
        self._stopping = True

    async def serve(self, run: Run) -> None:
        """See `Errands.serve`."""
        try:
            while True:
                await self._clock.sleep(SERVE_SECONDS)
                if owned := sorted(self._owned()):
                    with contextlib.suppress(LimpetError):  # who asks gives up in time; the next look finds it again
                        for row in await self._session.run("errands_of", shards=owned):
                            self._consider(row["shard"], row, run)
        finally:
            for task in self._running.values():
                task.cancel()

    def _consider(self, shard: int, row: Row, run: Run) -> None:
        """Begin with an errand that is open, in time and not begun here."""
        name: str = row["id"]
        seconds = (row["until_us"] or 0) / 1e6 - self._clock.wall_us() / 1e6 - APART_SECONDS_MAX
        if row["answer"] or not row["url"] or seconds <= 0 or name in self._running:
            return
        if len(self._running) < RUNNING_MAX:
            task = asyncio.get_running_loop().create_task(self._run(shard, name, _errand(row), seconds, run))
            self._running[name] = task
            task.add_done_callback(lambda _: self._running.pop(name, None))

    async def _run(self, shard: int, name: str, errand: Errand, seconds: float, run: Run) -> None:
        answer: RobotsAnswer | NotAsked | None = None
        with contextlib.suppress(LimpetError, ValueError):
            answer = await run(errand, self._clock.monotonic() + seconds)
        with contextlib.suppress(LimpetError):
            await self._session.run("errand_answer", shard=shard, id=name, answer=msgspec.msgpack.encode(answer))


def _errand(row: Row) -> Errand:
    """What is asked; of a node of an earlier release only the URL is known."""
    try:
        return msgspec.msgpack.decode(bytes(row["asked"] or b""), type=Errand)
    except msgspec.MsgspecError:
        return Errand(url=row["url"])

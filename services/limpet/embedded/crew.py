"""The workers of one run: started, brought back when they die, drained or killed at its end.

A worker that dies is first recovered (its shards, its own segments), then its page permits are settled, then it is
started again, later each time. When nothing at all gets finished between the deaths, or the disk is to blame, bringing
it back would only wear the machine and the sites: the run ends with the reason.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Final, Protocol

from limpet.clock import Clock
from limpet.config import Settings
from limpet.embedded.door import Door
from limpet.embedded.faults import one_line
from limpet.embedded.folder import Folder
from limpet.embedded.order import Run, WorkerOrder, WorkerWord, share_of
from limpet.embedded.processes import WorkerProcess
from limpet.model.errors import CannotGoOn, LimpetError
from limpet.obs import log_event

DEATHS_MAX: Final = 5
DEATHS_WINDOW_SECONDS: Final = 60.0
BACKOFF_SECONDS: Final = 0.2
BACKOFF_SECONDS_MAX: Final = 10.0
_LOG = logging.getLogger("limpet.supervisor")


class Worker(Protocol):
    """A started worker; see `limpet.embedded.processes.WorkerProcess`."""

    slot: int
    word: WorkerWord

    @property
    def pid(self) -> int:
        """Process id."""
        ...

    @property
    def alive(self) -> bool:
        """Whether it has not been seen to end."""
        ...

    def give(self, order: WorkerOrder) -> None:
        """Send the order."""
        ...

    async def wait(self) -> int:
        """Its exit code, negative for a signal, once it ended."""
        ...

    def terminate(self) -> None:
        """Ask it to finish what is in flight and end."""
        ...

    def kill(self) -> None:
        """End it now."""
        ...


StartWorker = Callable[[int, Path], Awaitable[Worker]]
"""slot, log file -> a worker that waits for its order."""


class Crew:
    """One process a slot. `fail` is called once, with the error that ends the run."""

    def __init__(
        self,
        folder: Folder,
        settings: Settings,
        run: Run,
        *,
        clock: Clock,
        door: Door,
        settle: Callable[[int], None],
        note: Callable[[str], None],
        fail: Callable[[BaseException], None],
        start_worker: StartWorker = WorkerProcess.start,
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._run = run
        self._clock = clock
        self._door = door
        self._settle = settle
        self._note = note
        self._fail = fail
        self._start_worker = start_worker
        self._stopping = False
        self._failed = False
        self._missing: set[int] = set()  # slots whose worker died and is not back yet
        self._told: set[int] = set()  # slots whose end was told of
        self._workers: dict[int, Worker] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._deaths: dict[int, list[float]] = {slot: [] for slot in range(run.workers)}

    @property
    def pids(self) -> list[int]:
        """Processes of the workers that are alive."""
        return [worker.pid for worker in self._workers.values() if worker.alive]

    @property
    def whole(self) -> bool:
        """Whether no worker is missing. While one is, part of the folder is as its death left it."""
        return not self._missing

    def share(self, slot: int) -> frozenset[int]:
        """Shards of one worker."""
        return share_of(slot, self._run.workers, self._folder.facts.shards)

    async def start(self) -> None:
        """Start every worker; they load their code and wait for their orders."""
        for slot in range(self._run.workers):
            await self._start(slot)

    def set_to_work(self) -> None:
        """Give every worker its order, and keep each alive from now on."""
        for slot in range(self._run.workers):
            self._give(slot)
            self._keepers.append(asyncio.get_running_loop().create_task(self._guard(self._keep(slot))))

    def progressed(self) -> None:
        """Something was finished: deaths before now no longer count."""
        for deaths in self._deaths.values():
            deaths.clear()

    async def drain(self, seconds_max: float) -> None:
        """Ask every worker to finish what is in flight; kill what is still there after `seconds_max`."""
        self._stopping = True
        for worker in self._workers.values():
            worker.terminate()
        try:
            async with asyncio.timeout(seconds_max):
                await self._reap()
                await asyncio.gather(*self._keepers)
        except TimeoutError:
            self._note(
                "some requests did not finish in time: their workers are ended, the next run takes them up again"
            )
            await self.kill()

    async def kill(self) -> None:
        """End every worker now and wait until it is gone."""
        self._stopping = True
        for worker in self._workers.values():
            worker.kill()
        for keeper in self._keepers:
            keeper.cancel()
        await self._reap()
        await asyncio.gather(*self._keepers, return_exceptions=True)

    async def _reap(self) -> None:
        for worker in list(self._workers.values()):
            code = await worker.wait()
            if code > 0 and not self._failed and worker.slot not in self._told:
                self._told.add(worker.slot)
                self._note(f"worker {worker.slot} ended with exit code {code}: {worker.word.error or 'see its log'}")

    async def _start(self, slot: int) -> None:
        self._workers[slot] = await self._start_worker(slot, self._folder.worker_log(slot))

    def _give(self, slot: int) -> None:
        order = WorkerOrder(
            folder=str(self._folder.path),
            slot=slot,
            share=tuple(sorted(self.share(slot))),
            settings=self._settings,
            limited=self._run.limit is not None,
            log_level=self._run.log_level,
        )
        self._workers[slot].give(order)

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        """Await `work`; what it raises ends the run instead of vanishing with its task."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 - handed on whole
            self._failed = True
            self._fail(error)

    async def _keep(self, slot: int) -> None:
        """Bring the worker of `slot` back whenever it ends, until the run is over."""
        while True:
            worker = self._workers[slot]
            code = await worker.wait()
            if self._stopping:
                return
            if worker.word.disk:
                raise CannotGoOn(self._disk_line(worker))
            if code == 2:  # the folder or the order is wrong, and will be wrong again
                raise CannotGoOn(worker.word.error)
            self._missing.add(slot)
            await self._bury(worker, code)
            self._missing.discard(slot)
            if self._stopping:
                return
            await self._start(slot)
            self._give(slot)

    async def _bury(self, worker: Worker, code: int) -> None:
        """Recover what the dead worker held, as often as that takes, within the bound on deaths."""
        reason = worker.word.error or (f"killed by signal {-code}" if code < 0 else f"exit code {code}")
        while True:
            await self._clock.sleep(self._count_death(worker.slot, reason))
            self._note(f"worker {worker.slot} died ({reason}): recovering its part and starting it again")
            log_event(_LOG, logging.WARNING, "worker died", slot=worker.slot, reason=reason)
            incarnation = worker.word.incarnation
            try:
                await self._door.recover(self.share(worker.slot), frozenset({incarnation} if incarnation else ()))
            except LimpetError as error:
                reason = one_line(error)
                continue
            self._settle(worker.slot)
            return

    def _count_death(self, slot: int, reason: str) -> float:
        """Seconds to wait before the next try. Raises `CannotGoOn` when there have been too many."""
        now = self._clock.monotonic()
        deaths = self._deaths[slot]
        deaths[:] = [at for at in deaths if now - at < DEATHS_WINDOW_SECONDS]
        deaths.append(now)
        if len(deaths) >= DEATHS_MAX:
            raise CannotGoOn(
                f"worker {slot} died {len(deaths)} times within a minute and nothing got done: {reason} "
                f"(log: {self._folder.worker_log(slot)})"
            )
        return float(min(BACKOFF_SECONDS * 2 ** (len(deaths) - 1), BACKOFF_SECONDS_MAX))

    def _disk_line(self, worker: Worker) -> str:
        fix = {"full": "free some space", "read-only": "make it writable"}.get(worker.word.disk, "mend it")
        return f"the disk below {self._folder.path} is {worker.word.disk} ({worker.word.error}): {fix}, then run again"

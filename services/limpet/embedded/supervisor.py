"""The supervisor of one run: recovers, seeds, sets the workers to work, and knows when the run is over.

A run, in order: (1) no worker of an earlier run is left, (2) the workers are started and wait, (3) what died is
recovered, (4) seeds are admitted, (5) page permits are laid out, (6) every worker gets its order, (7) the authority is
collected until the run is over, (8) the workers drain. Killing the supervisor at any instant kills the workers with it;
the next run begins with (1) again and loses nothing.
"""

import asyncio
import logging
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from limpet.clock import Clock
from limpet.config import Settings
from limpet.embedded.collect import Collected, finished, nothing_left, quiet, settled
from limpet.embedded.crew import Crew, StartWorker
from limpet.embedded.door import Door
from limpet.embedded.folder import Folder
from limpet.embedded.lock import wait_for_dying_workers
from limpet.embedded.order import Run
from limpet.embedded.processes import WorkerProcess
from limpet.embedded.quota import FileQuota
from limpet.embedded.views import ShardViews, was_left_unclean
from limpet.model.errors import CannotGoOn
from limpet.obs import log_event
from limpet.politeness import FileShares
from limpet.politeness.daybudget import budget_days, take_up
from limpet.runtime import Disk
from limpet.urlstore.sqlite import reading

COLLECT_SECONDS: Final = 0.5
QUIET_COLLECT_SECONDS: Final = 0.15  # once nothing but the second look is missing
WHOLE_SECONDS: Final = 5.0  # between looks at what waits while the crawl is busy: for the display only
SPACE_SECONDS: Final = 5.0
SETTLE_SECONDS_MAX: Final = 15.0
_LOG: Final = logging.getLogger("limpet.supervisor")


class Ending(StrEnum):
    """Why a run is over."""

    DONE = "done"
    LIMIT = "limit"
    TIME_LIMIT = "time-limit"
    INTERRUPTED = "interrupted"


class Collects(Protocol):
    """Looks at the authority; see `limpet.embedded.collect.Collector`."""

    def collect(self, *, whole: bool = False) -> Collected:
        """One look; `whole` reads what is left to do in any case."""
        ...


class Watch(Protocol):
    """Who looks on."""

    def progress(self, collected: Collected) -> None:
        """A fresh collect."""
        ...

    def note(self, text: str) -> None:
        """Something a user should read, one line."""
        ...


class Seeding(msgspec.Struct, frozen=True):
    """What became of the URLs that were given to the run."""

    new: int = 0
    known: int = 0
    rejected: tuple[tuple[str, str], ...] = ()  # (url, rule)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """How a run went."""

    ending: Ending
    begin: Collected
    end: Collected
    seeding: Seeding
    elapsed_seconds: float


class Supervisor:
    """Drives one run of the crawl in `folder`, whose lock the caller holds. Made inside a running event loop."""

    def __init__(
        self,
        folder: Folder,
        settings: Settings,
        run: Run,
        *,
        clock: Clock,
        disk: Disk,
        door: Door,
        collector: Collects,
        watch: Watch,
        start_worker: StartWorker = WorkerProcess.start,
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._run = run
        self._clock = clock
        self._disk = disk
        self._door = door
        self._collector = collector
        self._watch = watch
        self._over: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._quota: FileQuota | None = None
        self._limit_at: float | None = None  # when the limit was reached
        self._quiet_at: float | None = None  # since when only repairs are left
        self._crew = Crew(
            folder,
            settings,
            run,
            clock=clock,
            door=door,
            settle=self._settle,
            note=watch.note,
            fail=self._fail,
            start_worker=start_worker,
        )

    @property
    def worker_pids(self) -> list[int]:
        """Processes of the workers that are alive."""
        return self._crew.pids

    def interrupt(self) -> None:
        """End the run with everything in flight finished or handed back. Cancelling `run` ends it at once instead."""
        if not self._over.done():
            self._over.set_result(Ending.INTERRUPTED)

    async def run(self) -> Report:
        """The whole run. Raises `LimpetError` when it cannot go on; whatever happens, no worker is left behind."""
        begun = self._clock.monotonic()
        try:
            await wait_for_dying_workers(self._folder.run, self._clock)
            self._check_space()
            await self._crew.start()
            seeding = await self._prepare()
            log_event(_LOG, logging.INFO, "prepared", new=seeding.new, known=seeding.known)
            begin = self._collector.collect()
            self._lay_out_quota(begin)
            self._lay_out_shares()
            try:
                ending = await self._work(begin, begun)
                log_event(_LOG, logging.INFO, "draining", ending=ending.value)
            finally:
                await self._crew.drain(self._settings.work.drain_seconds_max)
            log_event(_LOG, logging.INFO, "drained")
            end = self._collector.collect(whole=True)
        finally:
            await self._crew.kill()
        elapsed_seconds = self._clock.monotonic() - begun
        return Report(ending=ending, begin=begin, end=end, seeding=seeding, elapsed_seconds=elapsed_seconds)

    async def _prepare(self) -> Seeding:
        """Steps 3 and 4, while the workers load their code."""
        if was_left_unclean(self._folder):
            self._watch.note("the last run did not end well: recovering what it left")
            await self._door.recover(frozenset(range(self._folder.facts.shards)), None)
        if documents := await self._door.mend_gaps():
            self._watch.note(f"links were lost with an older copy of a shard: {documents:,} pages are parsed again")
        if freed := await self._door.unpark():
            self._watch.note(f"the cap of URLs a host leaves room for {freed:,} that were parked")
        if not self._run.seeds:
            return Seeding()
        report = await self._door.admit_seeds(self._run.seeds)
        return Seeding(report.new, report.known, tuple((url, rule) for url, rule in report.rejected))

    async def _work(self, begin: Collected, begun: float) -> Ending:
        """Steps 6 and 7."""
        if not self._over.done():
            self._crew.set_to_work()
        looking = asyncio.get_running_loop().create_task(self._look(begin, begun))
        looking.add_done_callback(self._looked)
        try:
            return await self._over
        finally:
            looking.cancel()

    async def _look(self, before: Collected, begun: float) -> None:
        """Collect until the run is over."""
        space_at = whole_at = 0.0
        while not self._over.done():
            until_us = self._clock.wall_us() + int(self._run.patience_seconds * 1e6)
            await self._clock.sleep(QUIET_COLLECT_SECONDS if nothing_left(before, until_us) else COLLECT_SECONDS)
            at = self._clock.monotonic()
            now = self._collector.collect(whole=at >= whole_at)
            whole_at = at + WHOLE_SECONDS if at >= whole_at else whole_at
            self._watch.progress(now)
            if now.completions > before.completions:
                self._crew.progressed()
            if at >= space_at:
                self._check_space()
                space_at = at + SPACE_SECONDS
            ending = self._judge(before, now, at, begun) if self._crew.whole else None
            if ending is not None and not self._over.done():
                self._over.set_result(ending)
            before = now

    def _judge(self, before: Collected, now: Collected, at: float, begun: float) -> Ending | None:
        """Whether the run is over. At the limit, links that are under way still reach their rows first."""
        until_us = self._clock.wall_us() + int(self._run.patience_seconds * 1e6)
        if self._run.limit is not None and now.pages >= self._run.limit:
            self._limit_at = at if self._limit_at is None else self._limit_at
            return Ending.LIMIT if settled(before, now) or at - self._limit_at >= SETTLE_SECONDS_MAX else None
        if finished(before, now, until_us) or self._only_repairs_left(before, now, until_us, at):
            return Ending.DONE
        if self._run.time_limit_seconds is not None and at - begun >= self._run.time_limit_seconds:
            return Ending.TIME_LIMIT
        return None

    def _only_repairs_left(self, before: Collected, now: Collected, until_us: int, at: float) -> bool:
        """Repairs have had all our patience: they are told of, and do not hold the run for ever."""
        if not quiet(before, now, until_us):
            self._quiet_at = None
            return False
        self._quiet_at = at if self._quiet_at is None else self._quiet_at
        return at - self._quiet_at >= self._run.patience_seconds

    def _looked(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self._over.done():
            self._over.set_exception(error)

    def _lay_out_quota(self, begin: Collected) -> None:
        if self._run.limit is not None:
            pages = [begin.pages_of(self._crew.share(slot)) for slot in range(self._run.workers)]
            self._quota = FileQuota.create(self._folder.quota_file, self._run.limit, pages)

    def _lay_out_shares(self) -> None:
        """The ledger of what workers share; it knows what was sent lately, by this run or an earlier one."""
        FileShares.lay_out(self._folder.shares_file, boot_id=self._clock.boot_id(), now_us=self._clock.boot_us())
        with ShardViews(self._folder) as views:
            sent_on = {day: _requests(views, day) for day in budget_days(self._clock)}
        shares = FileShares(self._folder.shares_file, 0)
        take_up(shares, self._settings.politeness, self._clock, sent_on)
        shares.close()

    def _settle(self, slot: int) -> None:
        if self._quota is not None:
            self._quota.settle(slot, self._collector.collect().pages_of(self._crew.share(slot)))

    def _check_space(self) -> None:
        check_space(self._folder, self._settings, self._disk)


def _requests(views: ShardViews, day: int) -> int:
    return sum(views.read(lambda reader: reading.requests(reader, day)))


def check_space(folder: Folder, settings: Settings, disk: Disk) -> None:
    """Every disk of the crawl has the free space that was asked for. Raises `CannotGoOn` naming the flag that asks."""
    for directory in (folder.path, *folder.segment_directories):
        if disk.free_bytes(directory) < settings.min_free_bytes:
            need = settings.min_free_bytes // 1_000_000
            raise CannotGoOn(
                f"less than {need} MB free at {directory}: free some, then run the same command again, or ask for less "
                "with --min-free"
            )

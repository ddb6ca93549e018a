"""`limpet crawl`: everything is checked, then the folder is locked, made or opened, then the run begins."""

import argparse
import asyncio
import contextlib
import logging
import signal
import sys

from limpet.cli.display import Display, Silence
from limpet.cli.plan import Plan, plan_crawl
from limpet.cli.printing import print_json, print_lines
from limpet.cli.reading import stored_seeds
from limpet.cli.summary import EXIT_INTERRUPTED, Summary, as_json, as_text, summarize
from limpet.clock import SystemClock
from limpet.embedded.budget import BudgetWatch
from limpet.embedded.collect import Collector
from limpet.embedded.door import RingDoor
from limpet.embedded.finder import seeds
from limpet.embedded.folder import Folder
from limpet.embedded.live import forget
from limpet.embedded.lock import FolderLock
from limpet.embedded.orderbook import OrderBook
from limpet.embedded.supervisor import Report, Supervisor, check_space
from limpet.embedded.views import ShardViews
from limpet.obs import configure_logging
from limpet.runtime import SystemDisk, SystemRandom


def crawl(arguments: argparse.Namespace) -> int:
    """Run the verb; the exit code. Raises `LimpetError`."""
    plan = plan_crawl(arguments, clock=SystemClock(), rng=SystemRandom(), stored_seeds=stored_seeds)
    watch = Silence() if arguments.quiet or arguments.json else Display(sys.stderr, SystemClock())
    lock = FolderLock.take(plan.path)
    try:
        folder = plan.folder or Folder.create(plan.path, plan.facts)
        OrderBook(folder).look()
        check_space(folder, plan.in_force, SystemDisk())
        folder.store_settings(plan.settings)  # last of all that can refuse: a refused run leaves nothing behind
        folder.start_logs()
        forget(folder.run)
        configure_logging(plan.run.log_level, folder.run / "supervisor.log")
        for line in plan.lines:
            watch.note(line)
        with ShardViews(folder) as views:
            summary = _run(folder, plan, views, watch)
    finally:
        lock.release()
    if summary is None:
        watch.note("stopped at once; nothing is lost: the same command goes on")
        return EXIT_INTERRUPTED
    if arguments.json:
        print_json(as_json(summary))
    elif not arguments.quiet:
        print_lines(as_text(summary, folder, plan.run.limit).split("\n"))
    return summary.exit_code


def _run(folder: Folder, plan: Plan, views: ShardViews, watch: Display | Silence) -> Summary | None:
    """The run and its summary, None when it was told to stop at once."""
    known_seeds = (*seeds(views), *plan.run.seeds)
    try:
        with asyncio.Runner() as runner:
            report = runner.run(_supervise(folder, plan, views, watch))
    finally:
        watch.close()
    return None if report is None else summarize(folder, views, report, known_seeds)


async def _supervise(folder: Folder, plan: Plan, views: ShardViews, watch: Display | Silence) -> Report | None:
    clock = SystemClock()
    supervisor = Supervisor(
        folder,
        plan.in_force,
        plan.run,
        clock=clock,
        disk=SystemDisk(),
        door=RingDoor(folder, plan.in_force),
        collector=Collector(
            views,
            clock,
            OrderBook(folder).kept,
            plan.run.patience_seconds,
            BudgetWatch(folder.shares_file, plan.in_force, clock),
        ),
        watch=watch,
    )
    running = asyncio.ensure_future(supervisor.run())
    interrupts = _Interrupts(supervisor, running, watch)
    interrupts.install()
    try:
        return await running
    except asyncio.CancelledError:
        if not interrupts.twice:
            raise
        return None


class _Interrupts:
    """The first signal asks for an end in good order, the second ends at once; nothing is lost either way."""

    def __init__(self, supervisor: Supervisor, running: "asyncio.Future[Report]", watch: Display | Silence) -> None:
        self._supervisor = supervisor
        self._running = running
        self._watch = watch
        self._count = 0

    @property
    def twice(self) -> bool:
        """Whether the run was told to end at once."""
        return self._count > 1

    def install(self) -> None:
        """Listen to Ctrl-C, SIGTERM and a closed terminal (unless that is ignored, as under nohup)."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue
            loop.add_signal_handler(number, self._interrupt)

    def _interrupt(self) -> None:
        self._count += 1
        if self.twice:
            self._running.cancel()
            return
        with contextlib.suppress(OSError):  # the terminal may be gone
            self._watch.note("stopping: requests in flight are finished first (once more to stop at once)")
        logging.getLogger("limpet.supervisor").info("interrupted")
        self._supervisor.interrupt()

"""`limpet run ROLE`: a process of one role, from its start to its end.

SIGTERM or SIGINT: finish what is in hand, give back what is held, within `work.drain_seconds_max`; the second one ends
the process at once. Exit codes: 0 stopped as asked, 2 configuration or facts, 4 cannot go on, or not all was finished
in time, 1 a fault of the program.
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable
from typing import Final

from limpet.assembly.tasks import together
from limpet.cluster.http import Answer, HttpServer, parse_address
from limpet.cluster.machine import Machine
from limpet.cluster.metrics import samples_of
from limpet.cluster.roles.admission import AdmissionRole
from limpet.cluster.roles.crawlnode import CrawlNodeRole
from limpet.cluster.roles.parser import ParserRole
from limpet.cluster.roles.port import RoleService
from limpet.cluster.roles.reconciler import ReconcilerRole
from limpet.cluster.settings import ClusterSettings
from limpet.model.errors import LimpetError, UsageError
from limpet.obs import log_event
from limpet.obs.metrics import exposition
from limpet.runtime.garbage import collect_rarely
from limpet.runtime.stillness import turn

ROLES: Final[dict[str, Callable[[Machine], RoleService]]] = {
    "crawlnode": CrawlNodeRole,
    "parser": ParserRole,
    "admission": AdmissionRole,
    "reconciler": ReconcilerRole,
}
EXIT_FAULT: Final = 1
EXIT_USAGE: Final = 2
EXIT_CANNOT_GO_ON: Final = 4
LATE_SECONDS: Final = 5.0
"""What ends beyond the drain's time has so long to let go of its connections."""

CLOSE_SECONDS_MAX: Final = 10.0

_LOG = logging.getLogger("limpet.run")


def run_role(role: str, settings: ClusterSettings) -> int:
    """Run a role in this process; the exit code."""
    import uvloop  # noqa: PLC0415 - only a role needs it

    collect_rarely()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(RoleProcess(role, settings).serve())
    except UsageError as error:
        return _told(error, EXIT_USAGE)
    except (LimpetError, OSError) as error:
        return _told(error, EXIT_CANNOT_GO_ON)
    except Exception:  # noqa: BLE001 - told in the log; the exit code tells the orchestrator
        _LOG.exception("died of a fault of the program")
        return EXIT_FAULT


def _told(error: BaseException, code: int) -> int:
    log_event(_LOG, logging.ERROR, "cannot go on", reason=" ".join(str(error).split()) or type(error).__name__)
    _LOG.debug("traceback", exc_info=True)
    return code


class RoleProcess:
    """One role, its health pages and its signals."""

    def __init__(self, role: str, settings: ClusterSettings) -> None:
        self._name = role
        self._settings = settings
        self._machine = Machine(settings, role)
        self._role: RoleService | None = None
        self._stop = asyncio.Event()

    async def serve(self) -> int:
        """Until asked to stop. Raises what ends the role."""
        turning = asyncio.get_running_loop().create_task(turn(self._machine.clock))
        pages = HttpServer(
            {"/live": self._live, "/ready": self._ready, "/tally": self._tally, "/metrics": self._metrics}
        )
        await pages.start(*parse_address(self._settings.cluster.http))
        self._listen_to_signals()
        host, port = pages.address
        log_event(_LOG, logging.INFO, "started", role=self._name, incarnation=self._machine.incarnation)
        log_event(
            _LOG, logging.INFO, "listening", live=f"http://{host}:{port}/live", ready=f"http://{host}:{port}/ready"
        )
        try:
            code = await self._until_stopped()
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS_MAX):
                    await self._machine.close()
            await pages.close()
            turning.cancel()
        log_event(_LOG, logging.INFO, "stopped", code=code)
        return code

    async def _until_stopped(self) -> int:
        loop = asyncio.get_running_loop()
        work = loop.create_task(self._work())
        stopped = loop.create_task(self._stop.wait())
        await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not work.done() and self._role is None:
            work.cancel()  # nothing is held yet
        await asyncio.wait({work}, timeout=self._settings.work.drain_seconds_max)
        if not work.done():
            log_event(_LOG, logging.ERROR, "not all was finished in time", waits=str(self._machine.waits.now()))
            work.cancel()
            await asyncio.wait({work}, timeout=LATE_SECONDS)
            return EXIT_CANNOT_GO_ON
        if work.cancelled():
            return 0
        work.result()
        return 0

    async def _work(self) -> None:
        await self._machine.open()
        self._role = ROLES[self._name](self._machine)
        try:
            await together([self._role.run(self._stop)], [self._machine.keep_up(), self._machine.watch_servers()])
        except BaseExceptionGroup as group:
            raise _first(group) from group

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_stop)

    def _asked_to_stop(self) -> None:
        if self._stop.is_set():
            log_event(_LOG, logging.WARNING, "ending at once")
            logging.shutdown()
            os._exit(EXIT_CANNOT_GO_ON)
        log_event(_LOG, logging.INFO, "stopping")
        self._stop.set()

    def _live(self) -> Answer:
        """That this is answered says that the loop turns; a role that could not go on has ended the process."""
        incarnation = self._role.incarnation if self._role is not None else self._machine.incarnation
        return Answer(ok=True, body={"live": True, "role": self._name, "incarnation": incarnation})

    def _tally(self) -> Answer:
        """What this process has asked of Cassandra since it connected, by name; for whoever measures."""
        found = self._machine.tally()
        return Answer(ok=True, body=found._asdict())

    def _metrics(self) -> Answer:
        """The same and more, for Prometheus."""
        machine = self._machine
        ready = self._ready().ok
        samples = samples_of(machine.waits, machine.tally(), machine.recorder, machine.clock, ready=ready)
        samples += self._role.samples() if self._role is not None else []
        return Answer(ok=True, body={}, text=exposition(samples))

    def _ready(self) -> Answer:
        waits = {name: {"since_us": since, "reason": why} for name, (since, why) in self._machine.waits.now().items()}
        now_us = self._machine.clock.wall_us()
        patience_us = int(self._settings.seen.alert_seconds * 1e6)
        late = {name: since for name, since in self._machine.seen_waits().items() if now_us - since > patience_us}
        waits |= {name: {"since_us": since, "reason": "does not answer"} for name, since in late.items()}
        troubles: dict[str, object] = dict(waits)
        if self._stop.is_set():
            troubles["stopping"] = "asked to"
        if not self._machine.checked or self._role is None:
            troubles["start"] = "facts and servers are not checked yet"
        else:
            troubles |= self._role.troubles()
        holdings = self._role.holdings() if self._role is not None else {}
        body: dict[str, object] = {"ready": not troubles, "role": self._name, "waits": troubles, "holds": holdings}
        return Answer(ok=not troubles, body=body)


def _first(group: BaseExceptionGroup) -> BaseException:
    """The first of what went wrong at once, groups within groups opened."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found

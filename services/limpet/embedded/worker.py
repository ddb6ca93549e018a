"""One worker process: runs the whole ring for its share of the shards, and dies with its supervisor.

Started as `python -m limpet.embedded.worker PARENT_PID`; everything else is in the order that arrives on stdin. It ends
on SIGTERM with what is in flight finished or handed back. Exit codes: 0 stopped as asked, 2 the folder or the order is
wrong, 4 cannot go on (another attempt after a recovery may), 1 a fault of the program, told in the worker's log.
"""

import asyncio
import ctypes
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from limpet.clock import SystemClock
from limpet.embedded.faults import disk_reason, one_line
from limpet.embedded.folder import Folder
from limpet.embedded.live import Pulse
from limpet.embedded.lock import WorkerPresence
from limpet.embedded.order import WorkerOrder, WorkerWord
from limpet.embedded.quota import FileQuota, Quota, Unlimited
from limpet.model.errors import LimpetError, UsageError
from limpet.obs import configure_logging, log_event
from limpet.politeness import FileShares
from limpet.runtime.garbage import collect_rarely

_PR_SET_PDEATHSIG: Final = 1
_ORDER_BYTES_MAX: Final = 16_777_216
_LOG = logging.getLogger("limpet.worker")


def main(argv: list[str]) -> int:
    """Run one order from stdin; the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the supervisor decides
    die_with_parent(int(argv[0]))
    import limpet.embedded.ring  # noqa: F401, PLC0415 - imported while the supervisor recovers, so that a start is quick

    order = _take_order(sys.stdin.buffer)
    if order is None:
        return 0
    collect_rarely()
    configure_logging(order.log_level, Folder.open(Path(order.folder)).worker_log(order.slot))
    threading.Thread(target=_die_at_end_of, args=(sys.stdin.buffer,), daemon=True).start()
    return _run(order)


def die_with_parent(parent_pid: int) -> None:
    """Ask the kernel to kill this process when `parent_pid` dies, and leave now if it is dead already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)


def _take_order(stream: BinaryIO) -> WorkerOrder | None:
    """The order, or None when the supervisor left without giving one."""
    line = stream.readline(_ORDER_BYTES_MAX)
    return msgspec.json.decode(line, type=WorkerOrder) if line else None


def _die_at_end_of(stream: BinaryIO) -> None:
    """Die when the supervisor's end of the pipe closes: holds where the kernel has no death signal."""
    while stream.read(1):
        pass
    os._exit(1)


def _run(order: WorkerOrder) -> int:
    import uvloop  # noqa: PLC0415 - only a worker needs it

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(order))
    except (LimpetError, OSError) as error:
        log_event(_LOG, logging.ERROR, "cannot go on", reason=one_line(error))
        _LOG.debug("traceback", exc_info=True)
        _say(WorkerWord(error=one_line(error), disk=disk_reason(error) or ""))
        return 2 if isinstance(error, UsageError) else 4
    except BaseException as error:  # noqa: BLE001 - told to the supervisor, which restarts
        _LOG.exception("died of a fault of the program")
        _say(WorkerWord(error=f"{type(error).__name__}: {one_line(error)}", disk=disk_reason(error) or ""))
        return 1
    return 0


async def _serve(order: WorkerOrder) -> None:
    from limpet.embedded.ring import Ports, Ring  # noqa: PLC0415 - see main

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    folder = Folder.open(Path(order.folder))
    presence = WorkerPresence.take(folder.run)
    quota: Quota = FileQuota(folder.quota_file, order.slot) if order.limited else Unlimited()
    ring = Ring(
        folder=folder,
        settings=order.settings,
        share=frozenset(order.share),
        quota=quota,
        ports=Ports.system(),
        shares=FileShares(folder.shares_file, order.slot),
        talks=len(order.share) < folder.facts.shards,
    )
    pulse = Pulse(folder.run, order.slot, SystemClock(), ring.hosts_now)
    beating = asyncio.ensure_future(pulse.run())
    _say(WorkerWord(incarnation=ring.incarnation))
    await ring.open()
    try:
        log_event(_LOG, logging.INFO, "started", incarnation=ring.incarnation, shards=len(order.share))
        await ring.run(stop)
        pulse.end()
    finally:
        beating.cancel()
        await ring.close()
    log_event(_LOG, logging.INFO, "stopped")
    presence.release()


def _say(word: WorkerWord) -> None:
    try:
        os.write(sys.stdout.fileno(), msgspec.json.encode(word) + b"\n")
    except OSError:
        log_event(_LOG, logging.WARNING, "the supervisor does not listen", word=repr(word))


if __name__ == "__main__":
    code = main(sys.argv[1:])
    logging.shutdown()
    os._exit(code)  # the stdin watcher may hold the interpreter's lock on the stream; nothing is left to flush

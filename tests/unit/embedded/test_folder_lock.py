import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from limpet.clock import SystemClock
from limpet.embedded.lock import FolderLock, WorkerPresence, lock_holder, wait_for_dying_workers
from limpet.model.errors import CannotGoOn, UsageError

HOLDER = """
import sys, time
from pathlib import Path
from limpet.embedded.lock import FolderLock, WorkerPresence
path = Path(sys.argv[1])
held = FolderLock.take(path) if sys.argv[2] == "lock" else WorkerPresence.take(path / "run")
print("held", flush=True)
sys.stdin.read()
"""


class Holder:
    """Another process that holds a lock until it is killed."""

    def __init__(self, path: Path, what: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path), what], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"held\n"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


def test_a_second_process_is_refused_by_naming_the_first(tmp_path: Path) -> None:
    """One supervisor a folder; the line names its pid and says that nothing changed."""
    holder = Holder(tmp_path, "lock")
    try:
        with pytest.raises(UsageError, match=f"in use by process {holder.process.pid}: .*nothing was changed"):
            FolderLock.take(tmp_path)
        assert lock_holder(tmp_path) == str(holder.process.pid)
    finally:
        holder.kill()


def test_a_dead_process_never_blocks(tmp_path: Path) -> None:
    """The lock goes with kill -9, whatever pid its file still shows."""
    holder = Holder(tmp_path, "lock")
    holder.kill()
    assert lock_holder(tmp_path) is None
    lock = FolderLock.take(tmp_path)
    assert lock_holder(tmp_path) == str(os.getpid())
    lock.release()
    lock.release()
    assert lock_holder(tmp_path) is None


def test_a_lock_file_with_rubbish_is_no_obstacle(tmp_path: Path) -> None:
    """The pid only serves the message."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lock").write_bytes(b"\xff" * 100)
    FolderLock.take(tmp_path).release()


def test_a_new_run_waits_for_workers_of_the_last_one(tmp_path: Path) -> None:
    """While a worker is dying the next supervisor waits; once it is gone it goes on."""
    (tmp_path / "run").mkdir()
    holder = Holder(tmp_path, "worker")
    clock = SystemClock()

    async def kill_then_wait() -> float:
        begun = clock.monotonic()
        waiting = asyncio.create_task(wait_for_dying_workers(tmp_path / "run", clock))
        await clock.sleep(0.2)
        assert not waiting.done()
        await asyncio.to_thread(holder.kill)
        await waiting
        return clock.monotonic() - begun

    assert 0.2 <= asyncio.run(kill_then_wait()) < 10


def test_workers_share_their_presence(tmp_path: Path) -> None:
    """Workers do not exclude each other, only a supervisor that makes sure that none is left."""
    (tmp_path / "run").mkdir()
    first, second = WorkerPresence.take(tmp_path / "run"), WorkerPresence.take(tmp_path / "run")
    first.release()
    second.release()
    asyncio.run(wait_for_dying_workers(tmp_path / "run", SystemClock()))


class ImpatientClock(SystemClock):
    """Time flies while one sleeps."""

    def __init__(self) -> None:
        self.slept_seconds = 0.0

    def monotonic(self) -> float:
        """Seconds slept so far."""
        return self.slept_seconds

    async def sleep(self, seconds: float) -> None:
        """At once, but counted."""
        self.slept_seconds += seconds


def test_a_worker_that_lingers_is_named_in_the_end(tmp_path: Path) -> None:
    """A worker stuck in the kernel or a debugger does not hang the next run for ever."""
    (tmp_path / "run").mkdir()
    presence = WorkerPresence.take(tmp_path / "run")
    with pytest.raises(CannotGoOn, match="a worker of an earlier run still holds"):
        asyncio.run(wait_for_dying_workers(tmp_path / "run", ImpatientClock()))
    presence.release()

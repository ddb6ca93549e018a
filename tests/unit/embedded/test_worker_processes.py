"""Real processes: what a supervisor hears of a worker, and that a worker never outlives it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from limpet.clock import SystemClock
from limpet.config import Settings
from limpet.embedded.order import WorkerOrder, share_of
from limpet.embedded.processes import WorkerProcess

TALKER = """
import sys
print('{"incarnation":"abc"}', flush=True)
print("no word of ours", flush=True)
print("x" * 200000, flush=True)
order = sys.stdin.readline()
print('{"error":"' + str(len(order) > 10) + '","disk":"full"}', flush=True)
print("to the log", file=sys.stderr)
sys.exit(4)
"""
SLEEPER = """
import sys
from limpet.embedded.worker import die_with_parent
die_with_parent(int(sys.argv[1]))
print('{"incarnation":"ready"}', flush=True)
sys.stdin.readline()
"""
SUPERVISOR = """
import asyncio, sys
from pathlib import Path
from limpet.clock import SystemClock
from limpet.embedded.processes import WorkerProcess

async def main():
    worker = await WorkerProcess.start(0, Path(sys.argv[1]), (sys.executable, "-c", sys.argv[2]))
    while not worker.word.incarnation:
        await SystemClock().sleep(0.01)
    print(worker.pid, flush=True)
    await worker.wait()

asyncio.run(main())
"""


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """On a real loop, within a bound."""
    return asyncio.run(asyncio.wait_for(main, 30))


def order(folder: Path) -> WorkerOrder:
    """An order for slot 0."""
    return WorkerOrder(folder=str(folder), slot=0, share=(0,), settings=Settings(), limited=False, log_level=20)


def test_words_of_a_worker_add_up_and_noise_is_ignored(tmp_path: Path) -> None:
    """Incarnation and last error are kept; lines that are no word of ours, however long, change nothing."""

    async def main() -> None:
        worker = await WorkerProcess.start(0, tmp_path / "log", (sys.executable, "-c", TALKER))
        worker.give(order(tmp_path))
        assert await worker.wait() == 4
        assert (worker.word.incarnation, worker.word.error, worker.word.disk) == ("abc", "True", "full")
        assert not worker.alive
        worker.terminate()  # too late, and harmless

    run(main())
    assert (tmp_path / "log").read_text() == "to the log\n"


def test_ctrl_c_does_not_reach_a_worker(tmp_path: Path) -> None:
    """SIGINT goes to every process of a terminal; a worker ignores it from its first instant."""

    async def main() -> int:
        worker = await WorkerProcess.start(0, tmp_path / "log", (sys.executable, "-c", SLEEPER))
        while not worker.word.incarnation:
            os.kill(worker.pid, signal.SIGINT)
            await SystemClock().sleep(0.005)
        worker.give(order(tmp_path))
        return await worker.wait()

    assert run(main()) == 0


def test_a_worker_dies_with_its_supervisor(tmp_path: Path) -> None:
    """Kill -9 of the supervisor takes the worker along, whatever the worker is doing."""
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, str(tmp_path / "log"), SLEEPER], stdout=subprocess.PIPE
    )
    assert supervisor.stdout is not None
    pid = int(supervisor.stdout.readline())
    supervisor.send_signal(signal.SIGKILL)
    supervisor.communicate()
    run(gone(pid))


async def gone(pid: int) -> None:
    """Return when the process has ended."""
    clock = SystemClock()
    while is_running(pid):
        await clock.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether a process runs; one that ended and was not reaped by its new parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except FileNotFoundError:
        return False


def test_a_worker_that_lost_its_supervisor_before_it_could_ask_leaves(tmp_path: Path) -> None:
    """The death signal is asked for after birth; whoever died in between is noticed."""
    code = "from limpet.embedded.worker import die_with_parent; die_with_parent(1); print('alive')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=tmp_path, check=False)
    assert (result.returncode, result.stdout) == (1, b"")


def test_a_worker_without_an_order_leaves_in_peace(tmp_path: Path) -> None:
    """A supervisor that gives up before step 6 leaves no worker behind and no error."""
    command = [sys.executable, "-m", "limpet.embedded.worker", str(os.getpid())]
    result = subprocess.run(command, input=b"", capture_output=True, cwd=tmp_path, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 32])
def test_every_shard_has_exactly_one_worker(workers: int) -> None:
    """The static share covers all shards and overlaps nowhere."""
    shares = [share_of(slot, workers, 32) for slot in range(workers)]
    assert sorted(shard for share in shares for shard in share) == list(range(32))

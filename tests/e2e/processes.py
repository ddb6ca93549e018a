"""A crawl as a family of processes: started again and again, watched, signalled and killed for real."""

import contextlib
import os
import re
import select
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic_ns, sleep
from types import TracebackType
from typing import Self

from e2e.command import LIMPET

POLL_SECONDS = 0.01
SECONDS_MAX = 120.0
_WORKER_MODULE = b"limpet.embedded.worker"
_SHARD_LOCK = re.compile(r"/shards/(\d+)\.sqlite\.lock$")


def wait_until(happened: Callable[[], bool], what: str, seconds_max: float = 30.0) -> float:
    """Seconds until `happened()`, which is polled. AssertionError naming `what` if it never does."""
    begun_ns = monotonic_ns()
    while not happened():
        assert monotonic_ns() - begun_ns < seconds_max * 1e9, f"waited {seconds_max:g} s for {what}"
        sleep(POLL_SECONDS)
    return (monotonic_ns() - begun_ns) / 1e9


class Watched:
    """One process that may die, told apart from a later one of the same number by its pidfd."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd = os.pidfd_open(pid)

    def __repr__(self) -> str:
        return f"Watched({self.pid})"

    @property
    def gone(self) -> bool:
        """Whether it has ended; a zombie has."""
        if self._fd >= 0 and select.select([self._fd], [], [], 0)[0]:
            self.close()
        return self._fd < 0

    def kill(self) -> None:
        """Kill -9, unless it is gone."""
        if not self.gone:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._fd, signal.SIGKILL)

    def close(self) -> None:
        """Look no more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class CrawlProcess:
    """`limpet crawl` under way, in a session of its own: its whole group can be killed without the tests.

    What it prints goes to the file `log`, since a pipe would end with its reader.
    """

    def __init__(self, arguments: Sequence[str | Path], log: Path) -> None:
        self.log = log
        self.started_ns = monotonic_ns()
        with log.open("wb") as output:
            self._popen = subprocess.Popen(
                [*LIMPET, "crawl", *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._workers: dict[int, Watched] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End what is left of it."""
        if self.exit_code is None:
            self.kill_group()
            self._popen.wait()
        for worker in self._workers.values():
            worker.close()

    @property
    def exit_code(self) -> int | None:
        """The supervisor's; None while it runs, negative for a signal."""
        return self._popen.poll()

    @property
    def text(self) -> str:
        """What it has printed by now."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait(self, seconds_max: float = SECONDS_MAX) -> int:
        """Its exit code, once it ended."""
        try:
            return self._popen.wait(seconds_max)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds_max:g} s:\n{self.text[-2000:]}") from None

    def send(self, number: signal.Signals) -> None:
        """Signal the supervisor alone."""
        self._popen.send_signal(number)

    def send_to_group(self, number: signal.Signals) -> None:
        """Signal the supervisor and its workers in one system call, as a terminal does."""
        os.killpg(self._popen.pid, number)

    def kill_group(self) -> None:
        """Kill -9 of all at once."""
        self.send_to_group(signal.SIGKILL)

    def workers(self) -> list[Watched]:
        """Its worker processes that live; once seen, they are watched until they are gone."""
        for pid in _children(self._popen.pid):
            known = self._workers.get(pid)
            if (known is None or known.gone) and _is_worker(pid):
                with contextlib.suppress(ProcessLookupError):
                    self._workers[pid] = Watched(pid)
        return [worker for worker in self._workers.values() if not worker.gone]


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            found += map(int, (task / "children").read_text().split())
    return found


def _is_worker(pid: int) -> bool:
    try:
        return _WORKER_MODULE in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def shards_of(pid: int) -> frozenset[int]:
    """Shards whose lock a process holds open: it is their owner."""
    held: set[int] = set()
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if match := _SHARD_LOCK.search(str(entry.readlink())):
                    held.add(int(match[1]))
    return frozenset(held)

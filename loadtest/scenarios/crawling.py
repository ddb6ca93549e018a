"""The crawler as a user starts it, watched from outside: its processes by /proc, its pages by the origin's log."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from scenarios.procfs import Usage, family, machine_busy_seconds, monotonic_seconds, usage, usages

LIMPET = Path(sys.executable).with_name("limpet")
OWNED = "127.0.0.0/8"
_REQUESTED = b'"event":"requested"'
_ROBOTS = b'"path":"/robots.txt"'


class LogTail:
    """Counts the requests in an origin's log as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = path.stat().st_size if path.exists() else 0
        self._rest = b""
        self.requests = 0
        self.pages = 0
        self.first_ns = 0

    def look(self) -> int:
        """Read what was added; pages asked for so far, robots.txt not counted."""
        with self._path.open("rb") as log:
            log.seek(self._read_bytes)
            added = log.read()
        self._read_bytes += len(added)
        whole, end, self._rest = (self._rest + added).rpartition(b"\n")
        whole += end
        asked = whole.count(_REQUESTED)
        if asked and not self.requests:
            line = next(line for line in whole.splitlines() if _REQUESTED in line)
            self.first_ns = int(line.partition(b'"t_ns":')[2].partition(b",")[0])
        self.requests += asked
        self.pages += asked - whole.count(_ROBOTS)
        return self.pages


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at everything. `limpet` is by process; what has ended meanwhile is missing from it."""

    at: float
    pages: int
    limpet: dict[int, Usage]
    origin_cpu_seconds: float
    machine_busy_seconds: float

    @property
    def limpet_cpu_seconds(self) -> float:
        """CPU of the Limpet processes that are alive, since each began."""
        return sum(one.cpu_seconds for one in self.limpet.values())


@dataclass(frozen=True, slots=True)
class Ended:
    """A run of `limpet` that is over; CPU of all its processes, waited for by the kernel's own account."""

    code: int
    launched_ns: int
    seconds: float
    user_seconds: float
    system_seconds: float
    output: str


class LimpetProcess:
    """Starts `limpet` with some arguments in a session of its own; whatever is left of it at exit is killed."""

    def __init__(self, arguments: Sequence[str], output: Path) -> None:
        self._arguments = [str(LIMPET), *arguments]
        self._output = output
        self._child: subprocess.Popen[bytes]
        self.launched_ns = 0

    def __enter__(self) -> Self:
        with self._output.open("wb") as output:
            self.launched_ns = time.monotonic_ns()
            self._child = subprocess.Popen(
                self._arguments, stdout=output, stdin=subprocess.DEVNULL, start_new_session=True
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child.returncode is None:
            self.kill()

    @property
    def pid(self) -> int:
        """The supervisor."""
        return self._child.pid

    def running(self) -> bool:
        """Whether it has not ended; does not wait for it, so that `end` still gets its account."""
        state = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return state is None

    def sample(self, pages: int, origin_pid: int) -> Sample:
        """A look at its processes, the origin and the machine."""
        origin = usage(origin_pid)
        return Sample(
            at=monotonic_seconds(),
            pages=pages,
            limpet=usages(family(self.pid)),
            origin_cpu_seconds=origin.cpu_seconds if origin else 0.0,
            machine_busy_seconds=machine_busy_seconds(),
        )

    def interrupt(self) -> None:
        """Ctrl-C."""
        os.kill(self.pid, signal.SIGINT)

    def kill(self) -> Ended:
        """Send kill -9 to every process of it at once."""
        os.killpg(self.pid, signal.SIGKILL)
        return self.end()

    def end(self) -> Ended:
        """Wait for its end."""
        _, status, cost = os.wait4(self.pid, 0)
        ended_ns = time.monotonic_ns()
        self._child.returncode = os.waitstatus_to_exitcode(status)
        return Ended(
            code=self._child.returncode,
            launched_ns=self.launched_ns,
            seconds=(ended_ns - self.launched_ns) / 1e9,
            user_seconds=cost.ru_utime,
            system_seconds=cost.ru_stime,
            output=self._output.read_text(),
        )


def bytes_below(*directories: Path) -> int:
    """Bytes of all files below."""
    return sum(path.stat().st_size for directory in directories for path in directory.rglob("*") if path.is_file())

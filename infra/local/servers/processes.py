"""Processes that outlive the one that started them, and are never mistaken for another.

A pid alone is no identity: it is used again after a death. A process is its pid and the moment it started (clock ticks
since boot, with the id of the boot), and every signal goes through a pidfd whose start was checked.
"""

import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
ENTER: Final = 'cd "$0" && exec "$@"'


@dataclass(frozen=True)
class Process:
    """A process that was started here; `started` is the boot's id and the tick of its birth."""

    pid: int
    started: str

    @property
    def alive(self) -> bool:
        """Whether this very process still runs (stopped counts as running, a zombie does not)."""
        _reap(self.pid)
        return _birth(self.pid) == self.started

    @property
    def memory_bytes(self) -> int:
        """Resident memory; 0 when it is dead."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except (OSError, IndexError, ValueError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE") if self.alive else 0

    def send(self, signum: signal.Signals) -> bool:
        """Signal it; False when it has died before."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if _birth(self.pid) != self.started:
                return False
            signal.pidfd_send_signal(handle, signum)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True


def spawn(
    words: Sequence[str], folder: Path, log: Path, *, env: Mapping[str, str] | None = None, tied: bool = False
) -> Process:
    """Start `words` inside `folder` in a session of its own, output appended to `log`.

    `tied`: it is killed when the thread that calls this dies, so that a killed test run leaves nothing behind.
    """
    if tied and shutil.which("setpriv"):
        words = ("setpriv", "--pdeathsig", "KILL", *words)
    pid = os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", ENTER, str(folder), *words],
        {**os.environ, **(env or {})},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    return Process(pid, _birth(pid) or "died at once")


def _birth(pid: int) -> str | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before may hold anything, brackets and blanks too
    if fields[0] in "ZX":
        return None
    return f"{BOOT.read_text().strip()}/{fields[19]}"


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # another process started it

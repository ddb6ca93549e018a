"""Who may work on a crawl folder: one supervisor, and nobody while workers of a dead one are still dying.

Both locks are flocks, which the kernel drops with the process that holds them: a dead process never blocks. The pid in
the file only serves the message.
"""

import fcntl
import os
from pathlib import Path
from typing import Final, Protocol

from limpet.clock import Clock
from limpet.embedded.faults import not_writable
from limpet.model.errors import CannotGoOn, UsageError

LOCK_NAME: Final = "lock"
WORKERS_NAME: Final = "workers"
_DYING_SECONDS_MAX: Final = 30.0
_POLL_SECONDS: Final = 0.05
_PID_BYTES_MAX: Final = 32


class Release(Protocol):
    """Something held until it is let go."""

    def release(self) -> None:
        """Let go. Idempotent."""
        ...


class FolderLock:
    """The folder is ours until `release` or death."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def take(cls, path: Path) -> "FolderLock":
        """Lock crawl folder `path`, which is made if absent.

        Raises `UsageError`: another process has it (named by pid), or it cannot be written.
        """
        try:
            (path / "run").mkdir(parents=True, exist_ok=True)
            fd = os.open(path / "run" / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise not_writable(path, error) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, _PID_BYTES_MAX, 0).decode("ascii", "replace").strip()
            os.close(fd)
            raise _in_use(path, holder) from None
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        except OSError as error:
            os.close(fd)
            raise not_writable(path, error) from error
        return cls(fd)

    def release(self) -> None:
        """See `Release.release`. The file stays: deleting it would let two processes lock two files of one name."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class WorkerPresence:
    """Held by every worker from its first moment, shared; whoever gets it alone knows that no worker is alive."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def take(cls, run: Path) -> "WorkerPresence":
        """Be present, as a worker. Raises `CannotGoOn` when somebody has made sure that nobody is."""
        fd = _open(run)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise CannotGoOn(f"{run.parent} is being recovered by another process") from None
        return cls(fd)

    def release(self) -> None:
        """See `Release.release`."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


async def wait_for_dying_workers(run: Path, clock: Clock) -> None:
    """Return once no worker of an earlier supervisor is left. They die with it; the kernel may need a moment.

    Raises `CannotGoOn` if one lingers (stopped by a debugger, stuck in the kernel).
    """
    fd = _open(run)
    try:
        give_up = clock.monotonic() + _DYING_SECONDS_MAX
        while not _alone(fd):
            if clock.monotonic() >= give_up:
                raise CannotGoOn(f"a worker of an earlier run still holds {run / WORKERS_NAME}: end it, then run again")
            await clock.sleep(_POLL_SECONDS)
    finally:
        os.close(fd)


def lock_holder(path: Path) -> str | None:
    """Pid of the process that works on the folder, None when nobody does. Takes nothing."""
    try:
        fd = os.open(path / "run" / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(fd, _PID_BYTES_MAX, 0).decode("ascii", "replace").strip()
    finally:
        os.close(fd)
    return None


def _open(run: Path) -> int:
    return os.open(run / WORKERS_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _alone(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _in_use(path: Path, holder: str) -> UsageError:
    who = f"process {holder}" if holder else "another process"
    return UsageError(f"{path} is in use by {who}: wait for it or stop it; nothing was changed")

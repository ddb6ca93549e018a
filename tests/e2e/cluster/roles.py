"""Limpet's roles as real processes, kept up as an orchestrator keeps them: what dies is started again."""

import contextlib
import os
import resource
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic_ns, time_ns
from types import TracebackType
from typing import Final, Self

from e2e.cluster.ticking import seconds

POLL_SECONDS: Final = 0.05
RESTART_SECONDS: Final = 1.0  # an orchestrator needs a moment
DRAIN_SECONDS_MAX: Final = 60.0
TICKS: Final = os.sysconf("SC_CLK_TCK")
LOG_TAIL_BYTES: Final = 3000
CANNOT_GO_ON: Final = 4


@dataclass
class Life:
    """One process of a role, from its start to its end."""

    pid: int
    log: Path
    started_ns: int
    started_wall_us: int
    killed_ns: int = 0  # when `kill -9` was sent
    ended_ns: int = 0
    code: int | None = None  # negative for a signal
    cpu_seconds: float = 0.0
    memory_kilobytes_max: int = 0
    ordered: bool = False  # its end was asked for, from here
    excused: bool = False  # it was held for dead: exit code 4 is its right

    @property
    def killed_wall_us(self) -> int:
        """`killed_ns` by the wall, as its log has it."""
        return self.started_wall_us + (self.killed_ns - self.started_ns) // 1000


@dataclass
class Role:
    """A place that an orchestrator keeps filled."""

    name: str
    command: Sequence[str]
    wanted: bool = True
    frozen: bool = False
    lives: list[Life] = field(default_factory=list)
    process: "subprocess.Popen[bytes] | None" = None
    again_at: float = 0.0

    @property
    def life(self) -> Life:
        """The one under way, or the last."""
        return self.lives[-1]

    @property
    def alive(self) -> bool:
        """Whether it runs; frozen counts."""
        return self.process is not None


class Roles:
    """`commands`: name -> how it is started. Everything is started, signalled and reaped by one thread."""

    def __init__(
        self, commands: Mapping[str, Sequence[str]], folder: Path, *, restart_seconds: float = RESTART_SECONDS
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._restart_seconds = restart_seconds
        self._roles = {name: Role(name, words) for name, words in commands.items()}
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="roles", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- who is there --------------------------------------------------------------------------------------------------
    def __getitem__(self, name: str) -> Role:
        return self._roles[name]

    @property
    def names(self) -> list[str]:
        """Every place, filled or not."""
        return list(self._roles)

    def of(self, kind: str) -> list[str]:
        """Places of one role, such as `crawlnode`."""
        return [name for name in self._roles if name.rpartition("-")[0] == kind]

    def lives(self) -> list[tuple[str, Life]]:
        """Every process that ever was, by place."""
        with self._lock:
            return [(role.name, life) for role in self._roles.values() for life in role.lives]

    def surprises(self) -> list[str]:
        """Processes that ended though nobody here had asked for it, one line each with the end of their log."""
        return [
            f"{name} ended by itself with exit code {life.code}: ...{tail(life.log)}"
            for name, life in self.lives()
            if life.code is not None and not life.ordered and not (life.excused and life.code == CANNOT_GO_ON)
        ]

    def cpu_seconds(self) -> dict[str, float]:
        """CPU by place, of all its processes so far."""
        with self._lock:
            return {
                role.name: sum(life.cpu_seconds for life in role.lives)
                + (_cpu_of(role.life.pid) if role.alive else 0.0)
                for role in self._roles.values()
            }

    # -- what is done to them ------------------------------------------------------------------------------------------
    def add(self, name: str, command: Sequence[str]) -> None:
        """One more place."""
        with self._lock:
            self._roles[name] = Role(name, command)

    def kill(self, name: str) -> int:
        """`kill -9`; it is started again. The pid."""
        return self._end(name, signal.SIGKILL)

    def terminate(self, name: str, *, for_good: bool = False) -> int:
        """SIGTERM: it drains and ends. Started again unless `for_good`."""
        if for_good:
            self._roles[name].wanted = False
        return self._end(name, signal.SIGTERM)

    def freeze(self, name: str) -> None:
        """SIGSTOP."""
        self._roles[name].frozen = True
        self._send(name, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """SIGCONT."""
        self._send(name, signal.SIGCONT)
        self._roles[name].frozen = False

    def stop(self, seconds_max: float = DRAIN_SECONDS_MAX) -> dict[str, int | None]:
        """SIGTERM to all, as an orchestrator ends them; exit code by place, None where one had to be killed."""
        for role in self._roles.values():
            role.wanted = False
            if role.alive:
                self.terminate(role.name)
        deadline = seconds() + seconds_max
        while any(role.alive for role in self._roles.values()) and seconds() < deadline:
            self._over.wait(POLL_SECONDS)
        return {role.name: None if role.alive else role.life.code for role in self._roles.values() if role.lives}

    def close(self) -> None:
        """Kill what is left."""
        for role in self._roles.values():
            role.wanted = False
            if role.alive:
                self._end(role.name, signal.SIGKILL)
        self._wait_for(lambda: not any(role.alive for role in self._roles.values()), 20.0)
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def await_life(self, name: str, lives: int, seconds_max: float = 30.0) -> None:
        """Until the place has been filled so many times. AssertionError when it is not."""
        assert self._wait_for(lambda: len(self._roles[name].lives) >= lives, seconds_max), f"{name} was not restarted"

    def check(self) -> None:
        """Raise what went wrong in the thread that keeps them up."""
        if self._fault is not None:
            raise self._fault

    # -- inside --------------------------------------------------------------------------------------------------------
    def _wait_for(self, happened: Callable[[], bool], seconds_max: float) -> bool:
        deadline = seconds() + seconds_max
        while not happened():
            if seconds() > deadline or not self._thread.is_alive():
                return False
            self._over.wait(POLL_SECONDS)
        return True

    def _end(self, name: str, number: signal.Signals) -> int:
        role = self._roles[name]
        with self._lock:
            if not role.alive:
                return 0
            role.life.ordered = True
            if number == signal.SIGKILL:
                role.life.killed_ns = monotonic_ns()
            self._send(name, number)
            return role.life.pid

    def _send(self, name: str, number: signal.Signals) -> None:
        with self._lock:
            role = self._roles[name]
            if role.process is not None and role.process.returncode is None:  # not reaped: the pid is still its own
                os.kill(role.process.pid, number)

    def _run(self) -> None:
        try:
            while not self._over.wait(POLL_SECONDS):
                with self._lock:
                    for role in list(self._roles.values()):
                        self._tend(role)
        except BaseException as error:  # noqa: BLE001 - raised where the test looks
            self._fault = error

    def _tend(self, role: Role) -> None:
        if role.process is not None:
            self._reap(role)
        elif role.wanted and seconds() >= role.again_at:
            self._start(role)

    def _start(self, role: Role) -> None:
        log = self._folder / f"{role.name}.{len(role.lives):02d}.log"
        with log.open("wb") as output:
            role.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *role.command],  # gone with the tests, however these end
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        role.lives.append(Life(role.process.pid, log, monotonic_ns(), time_ns() // 1000))

    def _reap(self, role: Role) -> None:
        assert role.process is not None
        pid, status, used = os.wait4(role.process.pid, os.WNOHANG)
        if pid == 0:
            return
        life = role.life
        life.code = role.process.returncode = os.waitstatus_to_exitcode(status)
        life.ended_ns = monotonic_ns()
        life.cpu_seconds, life.memory_kilobytes_max = _cpu_used(used), used.ru_maxrss
        role.process, role.frozen = None, False
        role.again_at = seconds() + self._restart_seconds


def _cpu_used(used: resource.struct_rusage) -> float:
    return used.ru_utime + used.ru_stime


def _cpu_of(pid: int) -> float:
    with contextlib.suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS
    return 0.0


def tail(log: Path) -> str:
    """The end of a log."""
    with contextlib.suppress(OSError):
        return log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
    return ""

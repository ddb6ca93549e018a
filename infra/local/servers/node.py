"""One server process: a folder, its ports, and the process that runs it now, if any."""

import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from servers import ports
from servers.folder import read, write
from servers.processes import Process, spawn
from servers.trouble import Trouble

DEATH_SECONDS_MAX: Final = 20.0
PORTS_SECONDS_MAX: Final = 3.0
LOG_LINES: Final = 4


@dataclass(frozen=True)
class Node:
    """A server by name; what it is lives in files, so that any process can stop what another started."""

    name: str
    folder: Path
    host: str = "127.0.0.1"
    tied: bool = False
    words: Sequence[str] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def data(self) -> Path:
        """What survives a restart, and what `wipe` removes."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """What it prints."""
        return self.folder / "log.txt"

    @property
    def ports(self) -> dict[str, int]:
        """Purpose -> port; chosen once."""
        return {name: int(port) for name, port in read(self.folder / "node.json").get("ports", {}).items()}

    def keep(self, chosen: Mapping[str, int]) -> None:
        """Write down the ports."""
        write(self.folder / "node.json", {"ports": dict(chosen)})

    @property
    def process(self) -> Process | None:
        """The process that was started last, dead or alive."""
        known = read(self.folder / "process.json")
        return Process(int(known["pid"]), str(known["started"])) if known else None

    @property
    def alive(self) -> bool:
        """Whether it runs (frozen counts)."""
        process = self.process
        return process is not None and process.alive

    def start(self) -> None:
        """Start it unless it runs. Raises `Trouble` when one of its ports is taken."""
        if self.alive:
            return
        self._await_ports()
        self.data.mkdir(parents=True, exist_ok=True)
        process = spawn(self.words, self.folder, self.log, env=self.env, tied=self.tied)
        write(self.folder / "process.json", {"pid": process.pid, "started": process.started})

    def kill(self) -> bool:
        """`kill -9`, and wait until it is gone; False when it was dead already."""
        return self._end(signal.SIGKILL)

    def terminate(self) -> bool:
        """A clean end, as the server understands it; waits for it."""
        return self._end(signal.SIGTERM)

    def freeze(self) -> bool:
        """SIGSTOP: it holds its connections and answers nothing."""
        return self._send(signal.SIGSTOP)

    def thaw(self) -> bool:
        """SIGCONT."""
        return self._send(signal.SIGCONT)

    def forget(self) -> None:
        """Remove its data; it must be dead."""
        if self.alive:
            raise Trouble(f"{self.name} runs: kill it before its data is removed")
        shutil.rmtree(self.data, ignore_errors=True)

    def last_words(self) -> str:
        """The end of its log, on one line."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return "it printed nothing"
        return " | ".join(line.strip() for line in lines[-LOG_LINES:] if line.strip()) or "it printed nothing"

    def _await_ports(self) -> None:
        """The threads of a killed JVM hold its sockets for a moment longer than its first thread lives."""
        deadline = time.monotonic() + PORTS_SECONDS_MAX
        while taken := {name: port for name, port in self.ports.items() if not ports.free(port, self.host)}:
            if time.monotonic() > deadline:
                name, port = next(iter(taken.items()))
                raise Trouble(
                    f"port {port} ({name} of {self.name}) is taken by another process: end it, or remove {self.folder}"
                )
            time.sleep(0.02)

    def _send(self, signum: signal.Signals) -> bool:
        process = self.process
        return process is not None and process.alive and process.send(signum)

    def _end(self, signum: signal.Signals) -> bool:
        process = self.process
        if process is None or not process.alive or not process.send(signum):
            return False
        deadline = time.monotonic() + DEATH_SECONDS_MAX
        while process.alive:
            if time.monotonic() > deadline:
                raise Trouble(f"{self.name} (pid {process.pid}) did not end within {DEATH_SECONDS_MAX:.0f} s")
            time.sleep(0.01)
        return True

"""The roles of the cluster form as processes of their own, watched from outside: /proc, `/ready`, `/tally`."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from scenarios.cluster_stores import Stores
from scenarios.procfs import Usage, family, monotonic_seconds, usages
from servers import ports

LIMPET: Final = (sys.executable, "-m", "limpet.cli.entry")
READY_SECONDS_MAX: Final = 120.0
STOP_SECONDS_MAX: Final = 90.0
POLL_SECONDS: Final = 0.25
SETTLE_SECONDS: Final = 5.0


class RoleFailed(Exception):
    """A role did not start, or ended by itself: there is nothing to be measured."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at all roles: CPU and memory by role, statements to Cassandra by name."""

    at: float
    cpu_seconds: Mapping[str, float]
    rss_bytes_max: Mapping[str, int]
    statements: Counter[str]
    conditional: Counter[str]
    requests: int  # that the statements travelled in


class Roles:
    """`counts`: role -> how many processes of it."""

    def __init__(self, stores: Stores, directory: Path, counts: Mapping[str, int]) -> None:
        self._directory = directory
        self._roles = tuple(counts)
        names = [f"{role}-{number}" for role, count in counts.items() for number in range(1, count + 1)]
        self._http = dict(zip(names, ports.choose(len(names)), strict=True))
        self._configs = {
            name: stores.write(directory / f"{name}.toml", http=f"127.0.0.1:{port}", folder=directory / name)
            for name, port in self._http.items()
        }
        self.config = stores.write(directory / "verbs.toml", http="127.0.0.1:0", folder=directory / "verbs")
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.limpet("init")
        time.sleep(SETTLE_SECONDS)  # a busy broker tells of new topics a moment later
        for name in self._http:
            self.start(name)
        self.await_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._children.values():
            child.kill()
            child.wait()

    @property
    def pids(self) -> dict[str, int]:
        """Process by name."""
        return {name: child.pid for name, child in self._children.items()}

    def limpet(self, verb: str, *words: str) -> str:
        """A verb to its end; what it printed."""
        command = [*LIMPET, verb, "--config", str(self.config), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RoleFailed(f"limpet {verb} ended with {done.returncode}: {done.stderr[-500:]}")
        return done.stdout

    def start(self, name: str) -> None:
        """One process; it ends with us."""
        words = ["setpriv", "--pdeathsig", "KILL", *LIMPET, "run", name.rpartition("-")[0]]
        with self._log(name).open("wb") as log:
            self._children[name] = subprocess.Popen(
                [*words, "--config", str(self._configs[name])],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def await_ready(self) -> None:
        """Until every role says that it works."""
        deadline = monotonic_seconds() + READY_SECONDS_MAX
        for name in self._http:
            while not self._ask(name, "ready"):
                self.check()
                if monotonic_seconds() > deadline:
                    raise RoleFailed(f"{name} is not ready: {self._tail(name)}")
                time.sleep(POLL_SECONDS)

    def check(self) -> None:
        """Raises `RoleFailed` when one has ended."""
        for name, child in self._children.items():
            if child.poll() is not None:
                raise RoleFailed(f"{name} ended with {child.returncode}: {self._tail(name)}")

    def look(self) -> Look:
        """What they have cost so far."""
        self.check()
        cpu: dict[str, float] = dict.fromkeys(self._roles, 0.0)
        rss: dict[str, int] = dict.fromkeys(self._roles, 0)
        statements: Counter[str] = Counter()
        conditional: Counter[str] = Counter()
        requests = 0
        for name, child in self._children.items():
            role = name.rpartition("-")[0]
            used: Mapping[int, Usage] = usages(family(child.pid))
            cpu[role] += sum(one.cpu_seconds for one in used.values())
            rss[role] = max([rss[role], *(one.rss_bytes_max for one in used.values())])
            tally: dict[str, Any] = json.loads(self._ask(name, "tally") or "{}")
            statements.update(tally.get("statements", {}))
            conditional.update(tally.get("conditional", {}))
            requests += tally.get("requests", 0)
        return Look(monotonic_seconds(), cpu, rss, statements, conditional, requests)

    def stop(self) -> None:
        """SIGTERM to all, and their end. Raises `RoleFailed` when one ends badly."""
        for child in self._children.values():
            child.terminate()
        for name, child in self._children.items():
            if child.wait(STOP_SECONDS_MAX) != 0:
                raise RoleFailed(f"{name} ended with {child.returncode} at SIGTERM: {self._tail(name)}")

    def _ask(self, name: str, page: str) -> str:
        """A page of a process; "" when it does not answer, or not with 200."""
        url = f"http://127.0.0.1:{self._http[name]}/{page}"
        with suppress(OSError, urllib.error.HTTPError), urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())
        return ""

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def _tail(self, name: str) -> str:
        return self._log(name).read_text(errors="replace")[-1000:]

"""One crawl of the cluster form: laid out, seeded, served by roles as real processes."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from e2e.cluster.config import tables, write_config
from e2e.cluster.faults import Field
from e2e.cluster.roles import Roles
from e2e.cluster.servers_up import ClusterServers
from servers import ports

LIMPET: Final = (sys.executable, "-m", "limpet.cli.entry")
VERB_SECONDS_MAX: Final = 300.0
PLACES: Final[Mapping[str, int]] = {"crawlnode": 3, "parser": 2, "admission": 2, "reconciler": 1}
SPARE: Final = ("crawlnode-4",)


class ClusterCrawl:
    """`path` holds configurations and logs. Roles are up while the `with` lasts; `add` gives them something to do."""

    def __init__(self, servers: ClusterServers, path: Path, *, spare: Sequence[str] = SPARE) -> None:
        self._path = path / "roles"
        self._path.mkdir(parents=True, exist_ok=True)
        self.servers = servers
        names = [f"{role}-{number}" for role, count in PLACES.items() for number in range(1, count + 1)]
        every = [*names, *spare]
        self._http = dict(zip(every, ports.choose(len(every)), strict=True))
        self._configs = {name: self._write(name, port) for name, port in self._http.items()}
        self.config = self._write("verbs", 0)
        self.roles = Roles({name: self.command(name) for name in names}, self._path)
        self.field = Field(
            servers, self.roles, LIMPET, str(self.config), self.command, ready=self.ready, incarnation=self.incarnation
        )

    def _write(self, name: str, port: int) -> Path:
        folder = self._path / name
        found = tables(self.servers, http=f"127.0.0.1:{port}", folder=folder)
        return write_config(self._path / f"{name}.toml", found)

    def command(self, name: str) -> Sequence[str]:
        """How the process of a place is started."""
        return (*LIMPET, "run", name.rpartition("-")[0], "--config", str(self._configs[name]))

    def __enter__(self) -> Self:
        self.limpet("init")
        self.roles.__enter__()
        try:
            for name in self.roles.names:
                self.roles.await_life(name, 1)
                self.field.await_ready(name)
        except BaseException:
            self.roles.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.roles.close()

    def limpet(self, verb: str, *words: str) -> str:
        """A verb to its end; what it printed. AssertionError when it ends badly."""
        command = [*LIMPET, verb, "--config", str(self.config), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=VERB_SECONDS_MAX, check=False)
        said = f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
        assert done.returncode == 0, f"limpet {verb} ended with {done.returncode}: {said}"
        return done.stdout

    def judge(self, verb: str, folder: Path) -> str:
        """What `verify` or `audit` says of an ordinary folder, as JSON, whether it finds something or not."""
        command = [*LIMPET, verb, str(folder), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=VERB_SECONDS_MAX, check=False)
        assert done.returncode in {0, 1}, f"limpet {verb} ended with {done.returncode}: {done.stderr[-2000:]}"
        return done.stdout

    # -- what the processes tell ---------------------------------------------------------------------------------------
    def ask(self, name: str, page: str) -> str:
        """A page of a process; "" when it does not answer, or not with 200."""
        with suppress(OSError, urllib.error.HTTPError):
            url = f"http://127.0.0.1:{self._http[name]}/{page}"
            with urllib.request.urlopen(url, timeout=2) as answer:
                return str(answer.read().decode())
        return ""

    def ready(self, name: str) -> bool:
        """Whether it says that it works."""
        return bool(self.ask(name, "ready"))

    def incarnation(self, name: str) -> str:
        """Which incarnation fills a place, by its own word; "" when it does not tell."""
        found: dict[str, Any] = json.loads(self.ask(name, "live") or "{}")
        return str(found.get("incarnation", ""))

    def tally(self, part: str) -> Counter[str]:
        """Statements to Cassandra of all processes of now, by name: `statements` or, among them, `conditional`."""
        sums: Counter[str] = Counter()
        for name in self.roles.names:
            sums.update(json.loads(self.ask(name, "tally") or "{}").get(part, {}))
        return sums

"""The folder that holds everything of a set of servers: data, configuration, logs, ports, pids, endpoints."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from servers.trouble import Trouble

Form = Literal["single", "three"]
ENDPOINTS: Final = "endpoints.json"


@dataclass(frozen=True)
class Folder:
    """Where a set of servers lives. `cache` holds what is downloaded once for all folders."""

    path: Path
    cache: Path

    @classmethod
    def at(cls, path: Path | str) -> "Folder":
        """The folder at `path`, made if absent; the cache is `SERVERS_CACHE` or one below the user's cache folder."""
        root = Path(path).resolve()
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Trouble(f"cannot make the folder {root}: {error.strerror}") from error
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return cls(root, Path(os.environ.get("SERVERS_CACHE") or Path(base) / "limpet-servers").resolve())

    @property
    def endpoints_path(self) -> Path:
        """The file that tests and configurations read."""
        return self.path / ENDPOINTS

    def endpoints(self) -> dict[str, Any]:
        """Service -> how to reach it; empty when nothing is up."""
        return read(self.endpoints_path)

    def publish(self, service: str, found: dict[str, Any] | None) -> None:
        """Write or remove the endpoints of one service."""
        with self.locked(ENDPOINTS):
            known = self.endpoints()
            known.pop(service, None)
            if found is not None:
                known[service] = found
            write(self.endpoints_path, known)

    @contextmanager
    def locked(self, what: str) -> Iterator[None]:
        """Alone with `what` in this folder; waits for whoever holds it."""
        with locked(self.path / f".{what}.lock"):
            yield


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Alone with the file `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def read(path: Path) -> dict[str, Any]:
    """A JSON object; empty when there is no such file."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise Trouble(f"{path} is not JSON: {error}") from error
    return found if isinstance(found, dict) else {}


def write(path: Path, value: dict[str, Any]) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(value, indent=1) + "\n")
    beside.replace(path)

"""The `limpet` command as a process, and an origin to point it at."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from limpet.clock import SystemClock
from limpet.embedded.collect import Collector
from limpet.embedded.folder import Folder, is_crawl
from limpet.embedded.views import ShardViews
from origin.process import OriginProcess

LIMPET = (sys.executable, "-m", "limpet.cli.entry")
SECONDS_MAX = 90.0
OWNED = ("--owned", "127.0.0.0/8")


class Result:
    """How one command ended."""

    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code = code
        self.stdout = stdout
        self.stderr = stderr

    def __repr__(self) -> str:
        return f"Result(code={self.code}, stdout={self.stdout!r}, stderr={self.stderr!r})"

    @property
    def json(self) -> Any:
        """Stdout as one JSON document."""
        return json.loads(self.stdout)

    @property
    def complaint(self) -> str:
        """The one line that an error is. Fails for anything else on stderr."""
        lines = self.stderr.splitlines()
        assert len(lines) == 1, self
        assert lines[0].startswith("limpet: "), self
        return lines[0].removeprefix("limpet: ")


def limpet(*words: str | Path, stdin: bytes = b"", cwd: Path | None = None) -> Result:
    """Run one command to its end."""
    done = subprocess.run(
        [*LIMPET, *map(str, words)], input=stdin, capture_output=True, timeout=SECONDS_MAX, check=False, cwd=cwd
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


class Running:
    """A command at work; in a session of its own, so that signals to its group reach nothing else."""

    def __init__(self, *words: str | Path) -> None:
        self.process = subprocess.Popen(
            [*LIMPET, *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> None:
        """What Ctrl-C does: the signal goes to the whole group, workers included."""
        os.killpg(self.process.pid, number)

    def workers(self) -> list[int]:
        """Its child processes."""
        entries = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return sorted(int(entry.name) for entry in entries if _parent(entry) == self.process.pid)

    def end(self) -> Result:
        """Its result, once it ends."""
        stdout, stderr = self.process.communicate(timeout=SECONDS_MAX)
        return Result(self.process.returncode, stdout.decode(), stderr.decode())

    def kill(self) -> None:
        """Kill -9 of the supervisor alone."""
        self.process.kill()
        self.process.communicate()


def _parent(entry: Path) -> int:
    try:
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if fields[0] in {"Z", "X"} else int(fields[1])


def small_web(path: Path, *, pages: int = 60, busy: bool = False) -> OriginProcess:
    """A kill web of three hosts without roles, where every page has one way in; or of four, one of them ever busy."""
    return OriginProcess(
        "kill",
        log_path=path / "origin.log",
        pages=pages,
        hosts=4 if busy else 3,
        busy_answers=1_000_000,
        retry_after_seconds=3600.0,
        crawl_delay_seconds=0.05,
    )


def pages(folder: Path) -> int:
    """Pages that the authority counts, read as any onlooker would."""
    if not is_crawl(folder):
        return 0
    with ShardViews(Folder.open(folder)) as views:
        return Collector(views, SystemClock()).collect().pages


def listed(folder: Path, state: str) -> set[str]:
    """URLs in one state, as `urls` prints them."""
    result = limpet("urls", folder, "--state", state)
    assert result.code == 0, result
    lines = result.stdout.splitlines()
    assert len(lines) == len(set(lines))
    return set(lines)


def expected(origin: OriginProcess, *kinds: str) -> set[str]:
    """URLs of the web in some kinds."""
    return {url for url, kind in origin.web.expected().items() if kind in kinds}


def assert_complete(folder: Path, origin: OriginProcess) -> None:
    """The crawl holds exactly what the web has, each URL in the state that it deserves."""
    assert listed(folder, "fetched") == expected(origin, "page", "redirect")
    assert listed(folder, "gone") == expected(origin, "gone")
    assert listed(folder, "denied") == expected(origin, "denied")

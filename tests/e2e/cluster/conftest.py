"""Real servers for the proofs of the cluster form."""

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from e2e.cluster.proof import about
from e2e.cluster.servers_up import ClusterServers, missing_programs
from origin import OriginProcess
from servers import Form

StartServers = Callable[[Form], ClusterServers]
Say = Callable[[str], None]
Keep = Callable[[str, dict[str, Any]], None]
EVIDENCE: Final = Path(__file__).parents[3] / "loadtest" / "evidence" / "cluster.json"


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """One line for people who wait."""

    def line(text: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{text}")
            sys.stdout.flush()

    return line


@pytest.fixture
def keep(say: Say, request: pytest.FixtureRequest) -> Keep:
    """The figures of a case: told, and written down if LIMPET_EVIDENCE is set; those of other cases stay."""

    def write(case: str, figures: dict[str, Any]) -> None:
        say(json.dumps(figures, indent=1))
        if not os.environ.get("LIMPET_EVIDENCE"):
            return
        command = f"LIMPET_EVIDENCE=1 python -m pytest -m servers {request.node.nodeid}"
        before = json.loads(EVIDENCE.read_text()) if EVIDENCE.exists() else {}
        EVIDENCE.write_text(json.dumps({**before, case: {"command": command, **about(), **figures}}, indent=2) + "\n")

    return write


def web(path: Path, *, pages: int, hosts: int, latency_ms: float) -> OriginProcess:
    """Many hosts that take their time: hosts over latency bounds how fast the crawl can be."""
    log = path / "origin.log"
    return OriginProcess("kill", log_path=log, pages=pages, hosts=hosts, latency_ms=latency_ms, slow_ms=2 * latency_ms)


@pytest.fixture
def start_servers(tmp_path: Path) -> Iterator[StartServers]:
    """Servers in a form, killed at the end of the test."""
    if missing := missing_programs():
        pytest.skip(f"the cluster takes {', '.join(missing)}, which this machine lacks")
    with ExitStack() as stack:
        yield lambda form: stack.enter_context(ClusterServers(tmp_path / "servers", form))


@pytest.fixture
def start_cluster(start_servers: StartServers) -> StartServers:
    """Servers for a crawl by Limpet's roles."""
    if importlib.util.find_spec("limpet.cluster") is None:
        pytest.skip("this Limpet has no cluster form yet")
    return start_servers

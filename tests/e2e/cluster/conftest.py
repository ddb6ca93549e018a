"""Real servers for the proofs of the cluster form."""

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.cluster.servers_up import ClusterServers, missing_programs
from servers import Form

StartServers = Callable[[Form], ClusterServers]


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

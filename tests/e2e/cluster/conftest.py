"""Real servers for the proofs of the cluster form."""

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

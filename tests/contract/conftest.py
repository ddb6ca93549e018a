"""Real servers for the suites of the cluster adapters."""

import os
import shutil
from collections.abc import Iterator

import pytest

from servers import Folder, Service, service


@pytest.fixture(scope="session")
def hdfs_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """HDFS, started for this run; with LIMPET_SERVERS, that of the folder it names, which is left up."""
    kept = os.environ.get("LIMPET_SERVERS")
    found = service("hdfs", Folder.at(kept or tmp_path_factory.mktemp("servers")), tied=not kept)
    for program in found.programs:
        if shutil.which(program) is None:
            pytest.skip(f"HDFS takes {program}, which is not installed here")
    try:
        found.up()
        yield found
    finally:
        if not kept:
            found.down()

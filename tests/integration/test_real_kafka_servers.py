"""Kafka as `infra/local` starts it: up, killed, frozen, wiped, back on the same ports."""

import shutil
from pathlib import Path

import pytest

from servers import Folder, service

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("form", ["single", "three"])
def test_brokers_come_up_and_come_back(tmp_path: Path, form: str) -> None:
    """The same addresses after kill -9 and after a wipe; a frozen broker does not answer."""
    if shutil.which("java") is None or shutil.which("mvn") is None:
        pytest.skip("Kafka takes java and mvn, which are not installed here")
    kafka = service("kafka", Folder.at(tmp_path), "three" if form == "three" else "single", tied=True)
    try:
        endpoints = kafka.up()
        assert len(endpoints["nodes"]) == len(kafka.nodes) == (3 if form == "three" else 1)
        last = kafka.nodes[-1]
        last.freeze()
        assert last.alive
        assert not kafka.answers(last)
        last.thaw()
        kafka.wait()
        kafka.restart(last)
        kafka.wipe(last)
        kafka.restart(last)
        assert kafka.endpoints() == endpoints
    finally:
        kafka.down()

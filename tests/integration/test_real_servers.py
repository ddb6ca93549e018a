"""The servers as `infra/local` starts them: up, killed, frozen, wiped, back on the same ports and data."""

import contextlib
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from contract.serving import serving
from servers import Folder, Form, Service, service
from servers.hdfs import Hdfs

FORMS = [
    pytest.param("single", marks=pytest.mark.servers),
    pytest.param("three", marks=pytest.mark.slow),
]


def started(name: str, folder: Path, form: Form = "single") -> Iterator[Service]:
    """A service that is up, and killed afterwards."""
    found = service(name, Folder.at(folder), form, tied=True)
    with serving(found):
        yield found


def ask(method: str, url: str, body: bytes | None = None) -> tuple[int, bytes]:
    """Status and body of an answer."""
    parts = urlsplit(url)
    with contextlib.closing(http.client.HTTPConnection(parts.netloc, timeout=60)) as connection:
        connection.request(method, f"{parts.path}?{parts.query}", body)
        answer = connection.getresponse()
        return answer.status, answer.read()


def comes_back(found: Service) -> None:
    """The last node is frozen, thawed, killed, wiped: every time it serves again where it did."""
    endpoints, last = found.endpoints(), found.nodes[-1]
    last.freeze()
    assert last.alive
    assert not found.answers(last)
    last.thaw()
    found.wait()
    found.restart(last)
    found.wipe(last)
    assert not found.answers(last)
    found.restart(last)
    found.wait()
    assert found.endpoints() == endpoints


@pytest.mark.parametrize("form", FORMS)
def test_kafka_brokers_come_back(tmp_path: Path, form: Form) -> None:
    """One broker or three, registered with each other."""
    for kafka in started("kafka", tmp_path, form):
        assert len(kafka.endpoints()["nodes"]) == (1 if form == "single" else 3)
        comes_back(kafka)


@pytest.mark.parametrize("form", FORMS)
def test_cassandra_nodes_come_back(tmp_path: Path, form: Form) -> None:
    """One node or three that know each other, on one port."""
    for cassandra in started("cassandra", tmp_path, form):
        assert len(cassandra.endpoints()["contact_points"]) == (1 if form == "single" else 3)
        comes_back(cassandra)


@pytest.mark.servers
def test_hdfs_keeps_what_was_written(tmp_path: Path) -> None:
    """A file outlives the death of every daemon and the loss of one DataNode's data."""
    body = bytes(range(256)) * 5_000
    for hdfs in started("hdfs", tmp_path):
        assert isinstance(hdfs, Hdfs)
        address, path = hdfs.endpoints()["namenode_http"], "/webhdfs/v1/some/file?user.name=limpet"
        _, said = ask("PUT", f"http://{address}{path}&op=CREATE&noredirect=true")
        place = json.loads(said)["Location"]
        assert ask("PUT", place, body)[0] == 201
        comes_back(hdfs)
        for node in hdfs.nodes:
            node.kill()
        hdfs.up()
        _, said = ask("GET", f"http://{address}{path}&op=OPEN&noredirect=true")
        assert ask("GET", json.loads(said)["Location"]) == (200, body)


def test_valkey_shards_come_back(tmp_path: Path) -> None:
    """32 addresses, in the order of the shards."""
    for valkey in started("valkey", tmp_path):
        assert len(set(valkey.endpoints()["shards"])) == 32
        comes_back(valkey)

"""Every kind of server, by name."""

from typing import Final

from servers.cassandra import Cassandra
from servers.folder import Folder, Form
from servers.hdfs import Hdfs
from servers.kafka import Kafka
from servers.service import Say, Service, quiet
from servers.trouble import Trouble
from servers.valkey import Valkey

SERVICES: Final[dict[str, type[Service]]] = {kind.name: kind for kind in (Kafka, Hdfs, Valkey, Cassandra)}


def service(name: str, folder: Folder, form: Form = "single", *, say: Say = quiet, tied: bool = False) -> Service:
    """A kind of server in a folder. Raises `Trouble` for an unknown name."""
    if name not in SERVICES:
        raise Trouble(f"no server is called {name}: {', '.join(SERVICES)}")
    return SERVICES[name](folder, form, say=say, tied=tied)

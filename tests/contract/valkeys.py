"""Real Valkey servers for the tests of the seen shards: started in milliseconds, ended with the module."""

import socket
import tempfile
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from limpet.clock import SystemClock
from limpet.receipts import Receipt, Recorder
from limpet.seen.redis import Address, Bounds, Layout, RedisSeen
from limpet.testing.memory_receipts import MemoryReceiptLog
from servers import Folder, Trouble
from servers.valkey import Valkey

CRAWLS = count(1)


class SeenServer:
    """One server of its own, without other shards."""

    def __init__(self, folder: Path) -> None:
        self.valkey = Valkey(Folder.at(folder), tied=True, shards=1)
        try:
            self.valkey.up()
        except Trouble as trouble:
            pytest.skip(f"no real server of seen shards here: {trouble}")
        self.node = self.valkey.nodes[0]

    @property
    def address(self) -> Address:
        return Address(self.node.host, self.node.ports["server"])

    def new_crawl(self) -> str:
        """A name that no other test has."""
        return f"crawl{next(CRAWLS)}"

    def lose_everything(self) -> None:
        """Kill -9, wipe, start again."""
        self.valkey.wipe(self.node)
        self.valkey.restart(self.node)

    def ask(self, *words: str) -> bytes:
        """One command, by hand; the first piece of its reply."""
        with socket.create_connection((self.node.host, self.node.ports["server"]), timeout=5) as stream:
            parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in words]
            stream.sendall(f"*{len(words)}\r\n{''.join(parts)}".encode())
            return stream.recv(1 << 16)

    def end(self) -> None:
        self.valkey.down()


class Servers:
    """The one that tests share, and the place for those of their own."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._shared: SeenServer | None = None

    def shared(self) -> SeenServer:
        if self._shared is None:
            self._folder = tempfile.TemporaryDirectory(prefix="seen-")
            self._shared = SeenServer(Path(self._folder.name))
        return self._shared

    def end(self) -> None:
        if self._shared is not None and self._folder is not None:
            self._shared.end()
            self._folder.cleanup()
        self._shared = self._folder = None


@cache
def servers() -> Servers:
    """Of this process."""
    return Servers()


class Kept:
    """A recorder with its log at hand."""

    def __init__(self) -> None:
        self.log = MemoryReceiptLog()
        self.recorder = Recorder(self.log)

    @property
    def unclean(self) -> list[Receipt]:
        return self.log.receipts


def open_shard(
    server: SeenServer,
    crawl: str,
    *,
    number: int = 0,
    capacity: int = 1_000_000,
    epoch: int = 1,
    kept: Kept | None = None,
    address: Address | None = None,
    bounds: Bounds | None = None,
) -> RedisSeen:
    """The adapter on that server."""
    return RedisSeen(
        address or server.address,
        number,
        Layout(capacity),
        crawl=crawl,
        epoch=epoch,
        incarnation="incarnation",
        recorder=(kept or Kept()).recorder,
        clock=SystemClock(),
        bounds=bounds or Bounds(commands_max=50, arguments_max=7),
    )

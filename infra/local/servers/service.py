"""A service: the nodes of one kind of server, started together and waited for until they answer."""

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

from servers.folder import Folder, Form, read, write
from servers.node import Node
from servers.trouble import Trouble

Say = Callable[[str], None]
POLL_SECONDS: Final = 0.05
HINTS: Final = {
    "java": "install a Java 17 runtime (Debian, Ubuntu: apt-get install default-jre-headless)",
    "mvn": "install Maven (Debian, Ubuntu: apt-get install maven)",
}


def quiet(_: str) -> None:
    """Say nothing."""


class Service(ABC):
    """One kind of server in one folder. `up` may be called as often as one likes.

    `tied`: the servers die with the thread that starts them.
    """

    name: ClassVar[str]
    programs: ClassVar[tuple[str, ...]] = ()
    megabytes: ClassVar[Mapping[Form, int]]
    seconds_max: ClassVar[float]

    def __init__(self, folder: Folder, form: Form = "single", *, say: Say = quiet, tied: bool = False) -> None:
        self.folder, self.say = folder, say
        self.root = folder.path / self.name
        self.form: Form = self._settle(form)
        self.nodes = tuple(replace(node, tied=tied) for node in self.plan())

    # -- what a kind of server says about itself -----------------------------------------------------------------------
    @abstractmethod
    def plan(self) -> list[Node]:
        """Its nodes, without ports and commands."""

    @abstractmethod
    def choose_ports(self) -> dict[str, dict[str, int]]:
        """Node -> purpose -> a free port."""

    @abstractmethod
    def prepare(self, node: Node) -> None:
        """Files that the node needs before it starts; again and again, leaving its data alone."""

    @abstractmethod
    def command(self, node: Node) -> tuple[str, ...]:
        """What to run."""

    @abstractmethod
    def answers(self, node: Node) -> bool:
        """Whether it serves at this moment; asked within a second or so."""

    @abstractmethod
    def endpoints(self) -> dict[str, Any]:
        """How to reach the service."""

    def complete(self) -> bool:
        """Whether the nodes have found each other."""
        return True

    def download(self) -> None:  # noqa: B027 - what is installed needs none
        """Fetch what is run, once."""

    # -- verbs ---------------------------------------------------------------------------------------------------------
    def up(self) -> dict[str, Any]:
        """Start what is not running, wait until all of it serves, publish and return the endpoints."""
        self.root.mkdir(parents=True, exist_ok=True)
        with self.folder.locked(self.name):
            self._check()
            self.download()
            self._settle_ports()
            began = time.monotonic()
            started = self.start_all()
            self.wait()
            seconds = time.monotonic() - began
            self.say(f"{self.name}: ready" + (f" after {seconds:.1f} s" if started else ", was running"))
            found = self.endpoints()
            self.folder.publish(self.name, found)
        return found

    def start_all(self) -> int:
        """Prepare and start the dead nodes; how many there were."""
        dead = [node for node in self.nodes if not node.alive]
        for node in dead:
            self.prepare(node)
        for node in dead:
            self.start(node)
        return len(dead)

    def down(self) -> int:
        """Kill every node; how many ran. Their data stays."""
        with self.folder.locked(self.name):
            self.folder.publish(self.name, None)
            return sum(node.kill() for node in self.nodes)

    def start(self, node: Node | str) -> None:
        """Start one node on its ports and data, without waiting until it serves."""
        found = self.node(node)
        replace(found, words=self.command(found)).start()
        if found.process is not None:
            self.say(f"{found.name}: started, pid {found.process.pid}")

    def restart(self, node: Node | str) -> None:
        """`kill -9` if it runs, start, wait until it serves."""
        found = self.node(node)
        found.kill()
        self.prepare(found)
        self.start(found)
        self.wait(found)

    def wipe(self, node: Node | str) -> None:
        """`kill -9` and lose its data; `restart` brings it back empty."""
        found = self.node(node)
        found.kill()
        found.forget()

    def node(self, name: Node | str) -> Node:
        """A node by name."""
        if isinstance(name, Node):
            return name
        for node in self.nodes:
            if node.name == name:
                return node
        raise Trouble(f"{self.name} has no node {name}: {', '.join(node.name for node in self.nodes)}")

    def wait(self, *nodes: Node | str) -> None:
        """Until these nodes serve; without names: until all do, and have found each other.

        Raises `Trouble`, with the last words of a node that died instead.
        """
        deadline = time.monotonic() + self.seconds_max
        waiting = [self.node(node) for node in nodes] or list(self.nodes)
        while waiting or not (nodes or self.complete()):
            for node in waiting:
                if not node.alive:
                    raise Trouble(f"{node.name} ended while starting; {node.log} ends: {node.last_words()}")
            waiting = [node for node in waiting if not self.answers(node)]
            if time.monotonic() > deadline:
                late = waiting[0].name if waiting else "not every node has found the others"
                raise Trouble(f"{self.name} is not ready after {self.seconds_max:g} s: {late}")
            time.sleep(POLL_SECONDS)

    # -- inside --------------------------------------------------------------------------------------------------------
    def _settle(self, form: Form) -> Form:
        known = read(self.root / "form.json").get("form")
        if known is None:
            return form
        if known != form:
            raise Trouble(f"{self.root} holds the form {known}, not {form}: take servers down and remove it first")
        return form

    def _settle_ports(self) -> None:
        write(self.root / "form.json", {"form": self.form})
        if not all(node.ports for node in self.nodes):
            for name, chosen in self.choose_ports().items():
                self.node(name).keep(chosen)

    def _check(self) -> None:
        for program in self.programs:
            if shutil.which(program) is None:
                raise Trouble(f"{self.name} needs {program}, which is not installed: {HINTS.get(program, '')}")
        if any(not node.alive for node in self.nodes):
            available, needed = memory_available_megabytes(), self.megabytes[self.form]
            if available < needed:
                raise Trouble(f"{self.name} ({self.form}) needs {needed} MB of memory, {available} MB are available")


def memory_available_megabytes(path: Path = Path("/proc/meminfo")) -> int:
    """What the kernel would give to new programs without swapping."""
    for line in path.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    return 0

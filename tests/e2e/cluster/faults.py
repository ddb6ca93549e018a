"""The faults of a siege: each is laid and undone by one function, which returns when what was hit is up again."""

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import field as member
from time import sleep
from typing import Final

from e2e.cluster.roles import Roles, tail
from e2e.cluster.servers_up import ClusterServers
from e2e.processes import wait_until

READY_SECONDS_MAX: Final = 180.0  # a reconciler on a busy machine takes a minute for a pass
REBUILD_SECONDS_MAX: Final = 120.0


@dataclass(frozen=True)
class Field:
    """Where faults are laid. `limpet` is the command line up to the verb."""

    servers: ClusterServers
    roles: Roles
    limpet: Sequence[str]
    config: str
    command: Callable[[str], Sequence[str]]  # place -> how it is started
    ready: Callable[[str], bool]
    incarnation: Callable[[str], str]  # of the process that fills a place now; "" when it does not tell
    joined: dict[str, str] = member(default_factory=dict)  # place -> incarnation, of those that came later

    def await_ready(self, name: str) -> None:
        """Until a role says that it works."""

        def up() -> bool:
            self.roles.check()
            return self.roles[name].alive and self.ready(name)

        try:
            wait_until(up, f"{name} to be ready", READY_SECONDS_MAX)
        except AssertionError as error:
            raise AssertionError(f"{error}: ...{tail(self.roles[name].life.log)}") from None


@dataclass(frozen=True)
class Fault:
    """`kind` is for the figures, `target` for people."""

    kind: str
    target: str
    lay: Callable[[Field], None]


# -- Limpet's own processes --------------------------------------------------------------------------------------------
def kill_role(name: str) -> Fault:
    """`kill -9`, and up again as an orchestrator brings it up."""

    def lay(field: Field) -> None:
        lives = len(field.roles[name].lives)
        field.roles.kill(name)
        field.roles.await_life(name, lives + 1)
        field.await_ready(name)

    return Fault(f"kill -9 {_kind(name)}", name, lay)


def freeze_role(name: str, seconds: float, *, held_for_dead: bool = False) -> Fault:
    """SIGSTOP, SIGCONT. One that is held for dead meanwhile may end when it finds out, and is started again."""

    def lay(field: Field) -> None:
        life = field.roles[name].life
        field.roles.freeze(name)
        sleep(seconds)
        life.excused = held_for_dead
        field.roles.thaw(name)
        field.await_ready(name)

    return Fault(f"{'long freeze' if held_for_dead else 'freeze'} {_kind(name)}", name, lay)


def restart_role(name: str) -> Fault:
    """SIGTERM and up again, as in a rolling upgrade."""

    def lay(field: Field) -> None:
        lives = len(field.roles[name].lives)
        field.roles.terminate(name)
        field.roles.await_life(name, lives + 1, seconds_max=60.0)
        field.await_ready(name)

    return Fault(f"restart {_kind(name)}", name, lay)


def join(name: str) -> Fault:
    """One more process, which gets its share."""

    def lay(field: Field) -> None:
        field.roles.add(name, field.command(name))
        field.roles.await_life(name, 1)
        field.await_ready(name)
        field.joined[name] = field.incarnation(name)

    return Fault(f"join {_kind(name)}", name, lay)


def leave(name: str) -> Fault:
    """SIGTERM for good: what it had goes to the others."""

    def lay(field: Field) -> None:
        field.roles.terminate(name, for_good=True)
        wait_until(lambda: not field.roles[name].alive, f"{name} to drain", 60.0)
        code = field.roles[name].life.code
        assert code == 0, f"{name} ended with {code} at SIGTERM: ...{tail(field.roles[name].life.log)}"

    return Fault(f"leave {_kind(name)}", name, lay)


def _kind(name: str) -> str:
    return name.rpartition("-")[0]


# -- the servers -------------------------------------------------------------------------------------------------------
def kill_server(name: str, down_seconds: float = 1.0) -> Fault:
    """`kill -9`, and back on its data."""

    def lay(field: Field) -> None:
        field.servers.node(name).kill()
        sleep(down_seconds)
        field.servers.restart(name)

    return Fault(f"kill -9 {_server(name)}", name, lay)


def freeze_server(name: str, seconds: float) -> Fault:
    """SIGSTOP, SIGCONT: connections stand, nothing answers."""

    def lay(field: Field) -> None:
        node = field.servers.node(name)
        node.freeze()
        sleep(seconds)
        node.thaw()

    return Fault(f"freeze {_server(name)}", name, lay)


def wipe_shard(name: str) -> Fault:
    """A seen shard comes back empty, and is rebuilt from the rows while the crawl goes on."""

    def lay(field: Field) -> None:
        service = field.servers.service_of(name)
        service.wipe(name)
        field.servers.restart(name)
        shard = int(name.rpartition("-")[2])
        _run(field, "rebuild-seen", "--config", field.config, "--shard", str(shard))

    return Fault("wipe a seen shard", name, lay)


def _run(field: Field, *words: str) -> None:
    """A command to its end."""
    words = (*field.limpet, *words)
    done = subprocess.run(words, capture_output=True, text=True, timeout=REBUILD_SECONDS_MAX, check=False)
    said = done.stdout[-5000:] + done.stderr[-2000:]
    assert done.returncode == 0, f"{words} ended with {done.returncode}: {said}"


# -- the network between -----------------------------------------------------------------------------------------------
def drop_replies(name: str, seconds: float) -> Fault:
    """Requests are done and nobody hears of it."""

    def lay(field: Field) -> None:
        front = field.servers.front(name)
        front.drop_replies()
        sleep(seconds)
        front.mend()

    return Fault(f"lost replies {_server(name)}", name, lay)


def hold(name: str, seconds: float) -> Fault:
    """The network stands still and goes on."""

    def lay(field: Field) -> None:
        front = field.servers.front(name)
        front.hold()
        sleep(seconds)
        front.mend()

    return Fault(f"network held {_server(name)}", name, lay)


def sever(name: str) -> Fault:
    """Every connection ends at once."""

    def lay(field: Field) -> None:
        field.servers.front(name).sever()

    return Fault(f"connections cut {_server(name)}", name, lay)


def _server(name: str) -> str:
    return {"valkey": "seen shard"}.get(name.partition("-")[0], name.partition("-")[0])

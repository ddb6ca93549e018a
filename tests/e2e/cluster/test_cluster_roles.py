"""What keeps the roles up, tried on processes that only sleep."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.roles import Roles
from e2e.processes import wait_until

SLEEP = ("sleep", "60")


@pytest.fixture
def roles(tmp_path: Path) -> Iterator[Roles]:
    """Two places."""
    with Roles({"crawlnode-1": SLEEP, "parser-1": SLEEP}, tmp_path / "roles", restart_seconds=0.1) as found:
        for name in found.names:
            found.await_life(name, 1)
        yield found
        found.check()


def state_of(pid: int) -> str:
    """By /proc: S sleeps, T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_what_is_killed_is_started_again(roles: Roles) -> None:
    """A place is never empty for long, and its lives are told apart."""
    pid = roles.kill("crawlnode-1")
    roles.await_life("crawlnode-1", 2)
    first, second = roles["crawlnode-1"].lives
    assert (first.pid, first.code) == (pid, -9)
    assert second.code is None
    assert os.path.exists(f"/proc/{second.pid}")  # noqa: PTH110 - a look at the kernel
    assert roles.surprises() == []


def test_what_ends_by_itself_is_a_surprise(roles: Roles) -> None:
    """Nobody had asked for it: that is evidence."""
    os.kill(roles["parser-1"].life.pid, 15)  # not through `roles`
    roles.await_life("parser-1", 2)
    (surprise,) = roles.surprises()
    assert surprise.startswith("parser-1 ended by itself with exit code -15")


def test_what_is_frozen_stands_still(roles: Roles) -> None:
    """SIGSTOP and SIGCONT, nothing else."""
    pid = roles["parser-1"].life.pid
    roles.freeze("parser-1")
    wait_until(lambda: state_of(pid) == "T", "the process to stop")
    roles.thaw("parser-1")
    wait_until(lambda: state_of(pid) == "S", "the process to go on")
    assert len(roles["parser-1"].lives) == 1


def test_an_end_for_good_is_none_of_the_others(roles: Roles) -> None:
    """A place that is given up stays empty; the others are stopped together."""
    roles.terminate("parser-1", for_good=True)
    wait_until(lambda: not roles["parser-1"].alive, "the process to end")
    assert roles.stop(10.0) == {"crawlnode-1": -15, "parser-1": -15}
    assert roles.cpu_seconds().keys() == {"crawlnode-1", "parser-1"}

"""Only processes that were started here are signalled, whatever became of their pids."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from servers import Node, Process, Trouble, ports
from servers.processes import spawn


def sleeper(folder: Path) -> Node:
    folder.mkdir(exist_ok=True)
    node = Node("sleeper", folder, words=("sleep", "60"), tied=True)
    node.keep({})
    return node


def test_a_process_is_found_again_by_pid_and_birth(tmp_path: Path) -> None:
    """Another object, made from the files, kills what the first one started."""
    node = sleeper(tmp_path)
    node.start()
    assert node.alive
    assert Node("sleeper", tmp_path).kill()
    assert not node.alive
    assert not node.kill()


def test_starting_twice_starts_once(tmp_path: Path) -> None:
    """`start` leaves a running process alone."""
    node = sleeper(tmp_path)
    node.start()
    first = node.process
    node.start()
    assert node.process == first
    node.kill()


def test_a_pid_that_is_used_again_is_not_signalled(tmp_path: Path) -> None:
    """The recorded start differs: it is somebody else."""
    stranger = spawn(("sleep", "60"), tmp_path, tmp_path / "log.txt", tied=True)
    node = sleeper(tmp_path)
    record = {"pid": stranger.pid, "started": stranger.started + "0"}
    (tmp_path / "process.json").write_text(json.dumps(record))
    assert not node.alive
    assert not node.kill()
    assert not replace(stranger, started="other").send(signal.SIGKILL)
    assert stranger.alive
    assert stranger.send(signal.SIGKILL)


def test_a_frozen_process_is_alive_and_can_be_killed(tmp_path: Path) -> None:
    """SIGSTOP does not look like death."""
    node = sleeper(tmp_path)
    node.start()
    assert node.freeze()
    assert node.alive
    assert node.thaw()
    assert node.freeze()
    assert node.kill()


def test_a_process_that_never_was_is_dead() -> None:
    """No such pid, no error."""
    gone = Process(2**22 - 1, "never")
    assert not gone.alive
    assert not gone.send(signal.SIGKILL)
    assert gone.memory_bytes == 0


def test_tied_processes_die_with_the_one_that_started_them(tmp_path: Path) -> None:
    """A test run that is killed leaves no server behind."""
    code = (
        "import sys, pathlib, time; from servers.processes import spawn;"
        "p = pathlib.Path(sys.argv[1]); s = spawn(('sleep', '60'), p, p / 'log.txt', tied=True);"
        "time.sleep(0.3); print(s.pid, s.started)"
    )
    infra = Path(__file__).parents[3] / "infra" / "local"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(infra)},
        capture_output=True,
        text=True,
        check=True,
    )
    pid, started = done.stdout.split()
    orphan = Process(int(pid), started)
    for _ in range(1000):
        if not orphan.alive:
            break
        time.sleep(0.01)
    else:
        orphan.send(signal.SIGKILL)
        pytest.fail("it outlived its parent")


def test_data_of_a_running_node_is_not_removed(tmp_path: Path) -> None:
    """Wiping begins with a death."""
    node = sleeper(tmp_path)
    node.start()
    with pytest.raises(Trouble, match="kill it before"):
        node.forget()
    node.kill()
    node.forget()
    assert not node.data.exists()


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    """The line says which port of which server, and what to do."""
    node = sleeper(tmp_path)
    (port,) = ports.choose(1)
    node.keep({"broker": port})
    with subprocess.Popen([sys.executable, "-m", "http.server", str(port)], stderr=subprocess.DEVNULL) as other:
        while not ports.answers("127.0.0.1", port):
            assert other.poll() is None
        with pytest.raises(Trouble, match=rf"port {port} \(broker of sleeper\) is taken"):
            node.start()
        other.kill()

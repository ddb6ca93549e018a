"""Costs of processes as the kernel counts them."""

import os
import subprocess
import sys

from scenarios.procfs import family, machine_busy_seconds, usage, usages


def test_a_living_process_has_costs_and_a_dead_one_none() -> None:
    """What is gone is None, and left out of several."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    assert usage(child.pid) is None
    mine = usages([os.getpid(), child.pid])
    assert list(mine) == [os.getpid()]
    assert mine[os.getpid()].cpu_seconds > 0
    assert mine[os.getpid()].rss_bytes_max >= mine[os.getpid()].rss_bytes > 1_000_000


def test_children_of_children_are_family() -> None:
    """A grandchild is found through its parent."""
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'], stdin=subprocess.PIPE)\n"
        "print(child.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        grandchild = int(child.stdout.readline())
        assert family(child.pid) == [child.pid, grandchild]
        assert {child.pid, grandchild} < set(family(os.getpid()))
        child.stdin.close()


def test_the_machine_is_busy_while_we_are() -> None:
    """Our own work shows in what the machine has worked."""
    before = machine_busy_seconds()
    began = os.times()
    while os.times().user - began.user < 0.1:
        pass
    assert machine_busy_seconds() - before >= 0.05

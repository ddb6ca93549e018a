"""A process that stands still ends itself, even while something has the interpreter's lock."""

import subprocess
import sys
from typing import Final

import pytest

SECONDS_MAX: Final = 30
PROGRAM: Final = """
import asyncio, ctypes, time
from limpet.clock import SystemClock
from limpet.runtime.stillness import turn

async def main():
    turning = asyncio.create_task(turn(SystemClock(), 0.6))
    await asyncio.sleep(1.5)
    print("turned", flush=True)
    {standing_still}
    turning.cancel()
    await asyncio.gather(turning, return_exceptions=True)
    time.sleep(1.5)
    print("ended", flush=True)

asyncio.run(main())
"""
HOLDS_THE_LOCK: Final = "ctypes.PyDLL(None).usleep(60_000_000)"
LETS_GO_OF_IT: Final = "time.sleep(60)"


def run(standing_still: str) -> "subprocess.CompletedProcess[str]":
    """The program to its end."""
    words = [sys.executable, "-c", PROGRAM.format(standing_still=standing_still)]
    return subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)


@pytest.mark.parametrize("standing_still", [HOLDS_THE_LOCK, LETS_GO_OF_IT])
def test_a_loop_that_stands_still_ends_its_process(standing_still: str) -> None:
    """While it turned nothing happened; then its stack is told, and the code is that of a fault of the program."""
    done = run(standing_still)
    assert (done.returncode, done.stdout) == (1, "turned\n")
    assert "in main" in done.stderr


def test_whoever_watches_no_more_is_left_alone() -> None:
    """After its end the process may take its time."""
    done = run("pass")
    assert (done.returncode, done.stdout) == (0, "turned\nended\n")

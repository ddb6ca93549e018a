"""Ports on loopback below the range that the kernel hands out to outgoing connections."""

import random
import socket
from typing import Final

from servers.trouble import Trouble

FIRST: Final = 20_000
LAST: Final = 32_000
TRIES_MAX: Final = 500


_GIVEN: Final[set[int]] = set()  # by this process: servers that start side by side have not bound theirs yet
EVERY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - bound for a moment, never listening


def free(port: int, host: str = EVERY_ADDRESS) -> bool:
    """Whether nobody listens on it; what waits after a close (TIME_WAIT) does not count."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError:
            return False
    return True


def choose(count: int) -> list[int]:
    """As many ports, free at this moment, at random so that two folders rarely meet."""
    found: set[int] = set()
    for _ in range(TRIES_MAX + count):
        if len(found) == count:
            return sorted(found)
        port = random.randrange(FIRST, LAST)
        if port in _GIVEN:
            continue
        _GIVEN.add(port)
        if free(port):
            found.add(port)
    raise Trouble(f"found no {count} free ports between {FIRST} and {LAST}")


def answers(host: str, port: int, seconds: float = 1.0) -> bool:
    """Whether somebody accepts connections there."""
    try:
        with socket.create_connection((host, port), timeout=seconds):
            return True
    except OSError:
        return False

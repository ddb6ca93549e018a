"""Chance as a port, so that a seed replays a run."""

import random
import secrets
from typing import Protocol


class Random(Protocol):
    """Tokens that nobody can guess, and jitter."""

    def token(self, size_bytes: int) -> bytes:
        """`size_bytes` unpredictable bytes."""
        ...

    def fraction(self) -> float:
        """A number in [0, 1), for jitter only."""
        ...


class SystemRandom:
    """`Random` from the operating system."""

    def token(self, size_bytes: int) -> bytes:
        """See `Random.token`."""
        return secrets.token_bytes(size_bytes)

    def fraction(self) -> float:
        """See `Random.fraction`."""
        return random.random()  # noqa: TID251, S311 - this is the one place, and jitter is no secret


def new_incarnation(rng: Random) -> str:
    """A fresh process identity: 16 hexadecimal digits. It names segments and owns leases; host names never do."""
    return rng.token(8).hex()

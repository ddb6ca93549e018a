"""Chance from a seed."""

import random


class SeededRandom:
    """`Random` that a seed replays. Its tokens are guessable: for rehearsals only."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - replayable on purpose

    def token(self, size_bytes: int) -> bytes:
        """See `Random.token`."""
        return self._random.randbytes(size_bytes)

    def fraction(self) -> float:
        """See `Random.fraction`."""
        return self._random.random()

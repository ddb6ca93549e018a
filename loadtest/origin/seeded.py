"""Numbers and prose that follow from a seed and a name alone: nothing is stored, everything can be told again."""

import hashlib
import random
import struct
from itertools import accumulate

_SYLLABLES = tuple(
    onset + vowel
    for onset in ("b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v")
    for vowel in "aeiou"
)


def number(seed: int, *name: object) -> int:
    """A 64-bit number for `name`, evenly spread and the same on every machine and in every run."""
    text = "\x1f".join(map(str, (seed, *name))).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def shorts(seed: int, first: int, second: int, count: int) -> tuple[int, ...]:
    """`count` 16-bit numbers for a pair of small integers; one hash call, so cheap enough to do per answer."""
    stretch = hashlib.shake_128(struct.pack("<qqq", seed, first, second)).digest(2 * count)
    return struct.unpack(f"<{count}H", stretch)


class Prose:
    """Sentences of made-up words whose frequencies fall like those of a real language (Zipf's law).

    That makes gzip behave as it does on real pages: about a third of the size is left.
    """

    def __init__(self, seed: int, *, words: int = 3000) -> None:
        chance = random.Random(seed)
        self._words = [self._word(chance) for _ in range(words)]
        self._weights = list(accumulate(1.0 / (rank + 2.7) for rank in range(words)))

    @staticmethod
    def _word(chance: random.Random) -> str:
        body = "".join(chance.choices(_SYLLABLES, k=chance.choice((1, 2, 2, 3, 3, 4))))
        return body + chance.choice(("", "", "n", "s", "r", "th"))

    def paragraph(self, name: int, size_bytes: int) -> str:
        """ASCII prose of exactly `size_bytes` (at least 2) that depends on `name` only."""
        chance = random.Random(name)
        parts: list[str] = []
        length = 0
        while length < size_bytes:
            words = chance.choices(self._words, cum_weights=self._weights, k=chance.randrange(6, 18))
            sentence = " ".join(words).capitalize() + ". "
            parts.append(sentence)
            length += len(sentence)
        return "".join(parts)[: size_bytes - 1].rstrip(". ").ljust(size_bytes - 1, "a") + "."

"""How fast this machine is at a fixed piece of work, so that figures of different machines can be put side by side."""

import random
import statistics
import time
import zlib

PAGE_BYTES = 72_000
LEVEL = 6
ROUNDS = 5
PAGES_A_ROUND = 40
_WORDS = 4_000


def page() -> bytes:
    """The same HTML on every machine; compresses about as well as the pages of the benchmark."""
    choose = random.Random(72)
    words = ["".join(choose.choices("etaoinshrdlucmfwyp", k=choose.randint(2, 9))) for _ in range(_WORDS)]
    text = " ".join(choose.choices(words, weights=[1 / rank for rank in range(1, _WORDS + 1)], k=PAGE_BYTES // 4))
    return f"<!doctype html>\n<html><body><p>{text}".encode()[:PAGE_BYTES]


def gzip_ms() -> float:
    """CPU milliseconds of compressing that page once with zlib; the median of a few rounds."""
    data = page()
    return statistics.median(_round_ms(data) for _ in range(ROUNDS))


def _round_ms(data: bytes) -> float:
    began = time.process_time()
    for _ in range(PAGES_A_ROUND):
        zlib.compress(data, LEVEL)
    return (time.process_time() - began) * 1000 / PAGES_A_ROUND

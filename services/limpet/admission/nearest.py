"""At which depth URLs were admitted lately, for crawls whose depth is limited.

It only saves reads of rows that the same depth, or a greater one, cannot change; what it forgot is read again.
"""

from collections.abc import Iterable
from typing import Final

KNOWN_MAX: Final = 16_384


class Nearest:
    """Up to `known_max` fingerprints with their least depth."""

    def __init__(self, known_max: int = KNOWN_MAX) -> None:
        self._known: dict[bytes, int] = {}
        self._known_max = known_max

    def has(self, fp: bytes, depth: int) -> bool:
        """Whether `fp` was admitted at `depth` or nearer."""
        known = self._known.get(fp)
        return known is not None and known <= depth

    def add(self, admitted: Iterable[tuple[bytes, int]]) -> None:
        """Remember (fingerprint, depth) pairs whose rows are durable."""
        for fp, depth in admitted:
            if len(self._known) >= self._known_max:
                self._known.clear()
            self._known[fp] = min(depth, self._known.get(fp, depth))

"""Path patterns of one group, compiled for look-up: no regular expressions, no backtracking.

RFC 9309 section 2.2.2: the match with the most octets wins, and Allow wins a tie. ``*`` stands for any octets, ``$``
at the end for the end of the path (section 2.2.3). Leftmost-first search of the pieces between the stars is exact for
such patterns, so one pattern costs one walk along the path.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from limpet.robots.octets import Reading

WORK_BYTES_MAX: Final = 20_000_000
"""Starred patterns times path length, beyond which a group is not searched but read as "disallow"."""


class Rule(NamedTuple):
    """One Allow or Disallow line; `value` is never empty (an empty one forbids and allows nothing)."""

    allow: bool
    value: bytes


class Match(NamedTuple):
    """The best rule so far. `rank` orders by octets, then Allow over Disallow; 0 is "no rule matches"."""

    rank: int
    rule: Rule | None

    @property
    def allowed(self) -> bool:
        """An Allow rule won, or none matched (RFC 9309 section 2.2.2: then the URI is allowed)."""
        return self.rank == 0 or self.rank % 2 == 1


NO_MATCH: Final = Match(0, None)
TOO_MUCH_WORK: Final = Match(2, None)


class Pattern(NamedTuple):
    """A pattern in pieces: `head` is anchored left, `middles` come in order, `tail`, if any, is anchored right."""

    octets: int
    head: bytes
    middles: tuple[bytes, ...]
    tail: bytes | None


def pattern(value: bytes, reading: Reading) -> Pattern:
    """Cut a rule's value at its stars and bring each piece into comparable form."""
    anchored = value.endswith(b"$")
    pieces = [reading(piece) for piece in value[: len(value) - anchored].split(b"*")]
    octets = sum(map(len, pieces)) + len(pieces) - 1 + anchored
    head, rest = pieces[0], pieces[1:]
    if not rest:
        return Pattern(octets, head, (), b"" if anchored else None)
    tail = rest.pop() if anchored and rest[-1] else None  # "*$" ends anywhere, like "*"
    return Pattern(octets, head, tuple([piece for piece in rest if piece]), tail)


def matches(found: Pattern, path: bytes) -> bool:
    """Whether a pattern with a star covers the path."""
    if not path.startswith(found.head):
        return False
    position = len(found.head)
    for piece in found.middles:
        at = path.find(piece, position)
        if at < 0:
            return False
        position = at + len(piece)
    return found.tail is None or (path.endswith(found.tail) and len(path) - len(found.tail) >= position)


class PatternTable:
    """All rules of a group under one reading.

    Plain prefixes and exact paths, the great majority, are found by hash, one look-up per distinct length; patterns
    with inner stars are tried from the most specific down, and only as long as they could still win.
    """

    __slots__ = ("_exact", "_lengths", "_prefixes", "_starred", "patterns")

    def __init__(self, rules: Iterable[Rule], reading: Reading) -> None:
        self._exact: dict[bytes, Match] = {}
        self._prefixes: dict[bytes, Match] = {}
        self._starred: list[tuple[Match, Pattern]] = []
        self.patterns: list[Pattern] = []
        for rule in rules:
            self._add(rule, pattern(rule.value, reading))
        self._lengths = sorted({len(prefix) for prefix in self._prefixes})
        self._starred.sort(key=lambda starred: -starred[0].rank)

    def _add(self, rule: Rule, found: Pattern) -> None:
        self.patterns.append(found)
        match = Match(2 * found.octets + rule.allow, rule)
        if found.middles or (found.tail and found.octets > len(found.head) + 1):
            self._starred.append((match, found))
            return
        literals = self._prefixes if found.tail is None else self._exact
        if match.rank > literals.get(found.head, NO_MATCH).rank:
            literals[found.head] = match

    def best(self, path: bytes) -> Match:
        """The winning rule for a path in comparable form."""
        best = self._exact.get(path, NO_MATCH)
        size = len(path)
        for length in self._lengths:
            if length > size:
                break
            match = self._prefixes.get(path[:length])
            if match is not None and match.rank > best.rank:
                best = match
        if len(self._starred) * size > WORK_BYTES_MAX:
            return TOO_MUCH_WORK
        for match, found in self._starred:
            if match.rank <= best.rank:
                break
            if matches(found, path):
                return match
        return best

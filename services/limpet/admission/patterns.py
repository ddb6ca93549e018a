"""What the user wants in and out by pattern: `--include` and `--exclude`, regular expressions over canonical URLs.

The engine is RE2, which takes linear time whatever the pattern and the URL (docs/adr/0009-patterns-by-re2.md); Python's
own would let a page of somebody else's hang a worker. A pattern is searched for anywhere in the URL.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import re2

from limpet.model.errors import UsageError

PATTERNS_MAX: Final = 100
"""Patterns of one kind."""
PATTERN_BYTES_MAX: Final = 1_000
PROGRAM_BYTES_MAX: Final = 1_048_576
"""Memory that one pattern may take when compiled, and what it may cache while it searches."""


class _Search(Protocol):
    def search(self, text: bytes, /) -> object | None: ...


class Patterns:
    """All patterns of a crawl. `include` narrows, when there is one at all; `exclude` wins over everything."""

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        """Raises `UsageError` for the first pattern that cannot be used, naming its flag."""
        self._include = _compiled(include, "--include")
        self._exclude = _compiled(exclude, "--exclude")

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._include or self._exclude)

    def excludes(self, url: str) -> bool:
        """Whether a pattern keeps the canonical `url` out."""
        return _found(self._exclude, url)

    def includes(self, url: str) -> bool:
        """Whether `url` matches one of the patterns that say what is wanted; yes when there is none."""
        return not self._include or _found(self._include, url)


def _found(patterns: Sequence[_Search], url: str) -> bool:
    text = url.encode()
    return any(pattern.search(text) is not None for pattern in patterns)


def _compiled(patterns: Sequence[str], flag: str) -> tuple[_Search, ...]:
    """The patterns as one, which costs one search a URL however many they are."""
    if len(patterns) > PATTERNS_MAX:
        raise UsageError(f"{flag} was given {len(patterns)} times, and {PATTERNS_MAX} is the most: join some with |")
    each = tuple(_checked(pattern, flag) for pattern in patterns)
    if len(each) < 2 or any(r"\Q" in pattern for pattern in patterns):  # \Q would quote what joins them
        return each
    try:
        return (_compile("|".join(f"(?:{pattern})" for pattern in patterns), PROGRAM_BYTES_MAX * 8),)
    except re2.error:  # one name for groups of two of them, or too large together
        return each


def _checked(pattern: str, flag: str) -> _Search:
    size_bytes = len(pattern.encode("utf-8", "replace"))
    if size_bytes > PATTERN_BYTES_MAX:
        raise UsageError(f"{flag}: a pattern of {size_bytes:,} bytes is too long: at most {PATTERN_BYTES_MAX:,}")
    if not pattern:
        raise UsageError(f"{flag} '' matches every URL: write a pattern, or leave it out")
    try:
        return _compile(pattern, PROGRAM_BYTES_MAX)
    except UnicodeEncodeError:
        raise UsageError(f"{flag} {pattern!r} is not text") from None
    except re2.error as error:
        reason = error.args[0] if error.args else "it does not compile"
        shown = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise UsageError(
            f"{flag} {pattern!r} is no pattern: {shown} (RE2 syntax: no look-around, no back-references)"
        ) from error


def _compile(pattern: str, program_bytes_max: int) -> _Search:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = program_bytes_max
    found: _Search = re2.compile(pattern.encode(), options=options)
    return found

"""Durations, sizes and counts as people write them, both ways."""

import math
import re
from typing import Final

from limpet.model.errors import UsageError

_SECONDS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_BYTES: Final = {"": 1, "b": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000, "t": 1_000_000_000_000}
_NUMBER: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([a-z]*)", re.ASCII)


def parse_duration(text: str) -> float:
    """Seconds in `90`, `90s`, `10m`, `2h`, `1d` or `1h30m`. Raises `UsageError` naming the text and the forms."""
    rest, total, seen = text.strip().lower(), 0.0, False
    while rest:
        match = _NUMBER.match(rest)
        if match is None or match[2] not in _SECONDS or (seen and match[2] == ""):
            raise UsageError(f"{text!r} is not a duration: write 90, 90s, 10m, 2h or 1d")
        total, seen, rest = total + float(match[1]) * _SECONDS[match[2]], True, rest[match.end() :]
    if not seen:
        raise UsageError("an empty text is not a duration: write 90, 90s, 10m, 2h or 1d")
    return total


def parse_size(text: str) -> int:
    """Bytes in `500`, `10k`, `200M`, `1.5GB` (powers of 1000). Raises `UsageError` naming the text and the forms."""
    match = _NUMBER.fullmatch(text.strip().lower())
    unit = match[2] if match else ""
    unit = unit.removesuffix("b") or unit
    if match is None or unit not in _BYTES:
        raise UsageError(f"{text!r} is not a size: write 500, 10k, 200M or 1G")
    return int(float(match[1]) * _BYTES[unit])


def parse_count(text: str) -> int:
    """A whole number, `_` and `,` allowed between digits. Raises `UsageError`."""
    digits = text.strip().replace(",", "").replace("_", "")
    if digits.startswith("-") and digits[1:].isdigit():
        raise UsageError(f"{text} is too small: at least 0 is needed")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 15):
        raise UsageError(f"{text!r} is not a whole number")
    return int(digits)


def show_duration(seconds: float) -> str:
    """`7 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    whole = math.ceil(max(0.0, seconds))
    for unit, size, small, small_size in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // small_size
            return f"{whole // size} {unit}" + (f" {rest} {small}" if rest else "")
    return f"{whole} s"


def show_bytes(size_bytes: float) -> str:
    """`512 B`, `3.4 MB`, powers of 1000 as on the label of a disk."""
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 1000:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} TB"


def show_count(number: int, noun: str) -> str:
    """`1 page`, `1,204 pages`."""
    plural = noun if number == 1 else (noun[:-1] + "ies" if noun.endswith("y") else noun + "s")
    return f"{number:,} {plural}"

"""The ``Link`` fields of a response (RFC 8288 §3), bounded: targets and their parameters."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

HEADER_BYTES_MAX: Final = 16_384
LINKS_MAX: Final = 100
"""Links looked at in all ``Link`` fields of one response."""

_TARGET: Final = re.compile(rb"[\t ,]*+<([^<>]*+)>")
_PARAMETER: Final = re.compile(
    rb"""[\t ]*+;[\t ]*+(?:([^\t ;,="<>]++)[\t ]*+(?:=[\t ]*+(?:"((?:[^"\\]|\\.){0,1000})"|([^\t ;,"]*+)))?)?"""
)
_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)

Linked = tuple[bytes, dict[bytes, bytes]]
"""A target as written, and its parameters: names in lower case, of a repeated one the first."""


def linked(values: Iterable[bytes]) -> Iterator[Linked]:
    """The links of all ``Link`` fields in order. What does not parse is stepped over. Never raises; linear time.

    Links with an ``anchor`` are left out: they speak of another page than this one (§3.2).
    """
    found = (one for value in values for one in _links(value[:HEADER_BYTES_MAX]))
    return (one for one in islice(found, LINKS_MAX) if b"anchor" not in one[1])


def _links(value: bytes) -> Iterator[Linked]:
    position = 0
    while position < len(value):
        target = _TARGET.match(value, position)
        if target is None:
            comma = value.find(b",", position)
            position = comma + 1 if comma >= 0 else len(value)
            continue
        position = target.end()
        parameters: dict[bytes, bytes] = {}
        while parameter := _PARAMETER.match(value, position):
            position = parameter.end()
            name, quoted, token = parameter.groups()
            if name:
                parameters.setdefault(name.lower(), _ESCAPE.sub(rb"\1", quoted) if quoted is not None else token or b"")
        yield target[1], parameters

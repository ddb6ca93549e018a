"""Which media type a response declares, when its Content-Type is repeated, malformed, or says nothing.

Sources: https://fetch.spec.whatwg.org/#concept-header-extract-mime-type for several values, and
https://mimesniff.spec.whatwg.org/ §4.4 (what is a type at all) and §7 (which ones are to be found out).
"""

import re
from collections.abc import Iterable
from typing import Final

from limpet.parser.charset import charset_parameter

_SPACE: Final = rb"[\t\n\r\f ]"
_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
_TYPE: Final = re.compile(_SPACE + rb"*+(" + _TOKEN + rb"/" + _TOKEN + rb")" + _SPACE + rb"*+(?:;|\Z)")
_VALUES: Final = re.compile(rb'(?:[^",]++|"(?:[^"\\]++|\\.?+)*+(?:"|\Z))++', re.DOTALL)
_ANY: Final = b"*/*"
_TELLS_NOTHING: Final = frozenset({_ANY, b"unknown/unknown", b"application/unknown"})


def declared(fields: Iterable[bytes]) -> bytes | None:
    """The value in force among Content-Type `fields`, None when there is none. Never raises; linear time.

    The last that parses and is not a wildcard; it inherits the charset of those before it that are of the same type.
    When none is one, all of them as they stand: a charset may still be read out of them, a type may not.
    """
    values = list(fields)
    if not values:
        return None
    whole = b", ".join(values)
    chosen: bytes | None = None
    label: bytes | None = None
    type_in_force = b""
    for value in _VALUES.findall(whole):
        essence = _parsed(value)
        if essence in (b"", _ANY):
            continue
        own = charset_parameter(value)
        inherited = label if own is None and essence == type_in_force else None
        chosen = value if inherited is None else value + b";charset=" + inherited
        type_in_force, label = essence, own or inherited
    return whole if chosen is None else chosen


def essence(content_type: bytes | None) -> bytes:
    """The type without parameters in lower case; b"" when it is missing, malformed or unknown by its own word."""
    found = _parsed(declared([content_type or b""]) or b"")
    return b"" if found in _TELLS_NOTHING else found


def _parsed(value: bytes) -> bytes:
    found = _TYPE.match(value)
    return found[1].lower() if found else b""

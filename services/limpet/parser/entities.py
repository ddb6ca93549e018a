"""Character references in attribute values, by the rule for attributes.

`html.unescape` follows the rule for text, by which ``?a=1&copy=2`` turns into ``?a=1©=2``. In an attribute a
reference without semicolon counts only when neither ``=`` nor a letter or digit follows it.
Source: https://html.spec.whatwg.org/#named-character-reference-state
"""

import re
from html.entities import html5
from typing import Final

_REFERENCE: Final = re.compile(r"&(?:#([0-9]++);?|#[xX]([0-9A-Fa-f]++);?|([A-Za-z][A-Za-z0-9]*+)(;?)(=?))")
_CODE_POINT_MAX: Final = 0x10FFFF
_DIGITS_MAX: Final = 7
"""Significant digits of the largest code point, in decimal."""


def unescape_attribute(value: str) -> str:
    """`value` with its character references resolved; never yields a surrogate. Linear time."""
    if "&" not in value:
        return value
    return _REFERENCE.sub(_resolve, value)


def _resolve(match: re.Match[str]) -> str:
    decimal, hexadecimal, name, semicolon, equals = match.groups()
    if decimal:
        return _character(decimal, 10)
    if hexadecimal:
        return _character(hexadecimal, 16)
    if semicolon:
        return html5.get(name + ";", match[0].removesuffix(equals)) + equals
    if equals:
        return match[0]
    return html5.get(name, match[0])


def _character(digits: str, radix: int) -> str:
    digits = digits.lstrip("0")
    if len(digits) > _DIGITS_MAX:
        return "\ufffd"
    code = int(digits or "0", radix)
    if code == 0 or code > _CODE_POINT_MAX or 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    if 0x80 <= code <= 0x9F:
        return bytes([code]).decode("cp1252", "replace").replace("\ufffd", chr(code))
    return chr(code)

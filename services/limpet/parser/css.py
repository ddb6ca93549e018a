"""The references of a style sheet: ``url()`` and ``@import``, in one linear pass.

Follows the tokens of https://www.w3.org/TR/css-syntax-3/#tokenization as far as they decide what is a reference:
comments, strings, escapes (in keywords too), good and bad urls. Strings elsewhere name nothing: the bare strings of
``image-set()`` are not taken. ``@namespace`` and ``@document`` name, but do not load.
"""

import re
from collections.abc import Iterator
from typing import Final

_NEXT: Final = re.compile(r"""/\*|["'\\@]|[uU][rR][lL]\(""")
_STRING_STOP: Final = {'"': re.compile(r'["\\\n\r\f]'), "'": re.compile(r"['\\\n\r\f]")}
_UNQUOTED_STOP: Final = re.compile(r"""[\t\n\f\r "'()\\]""")
_BAD_URL_STOP: Final = re.compile(r"[)\\]")
_PRELUDE_STOP: Final = re.compile(r"""[;{"']|/\*""")
_SPACE: Final = re.compile(r"[\t\n\f\r ]*+")
_ESCAPE_BODY: Final = r"(?:[0-9a-fA-F]{1,6}(?:\r\n|[\t\n\f\r ])?|[^0-9a-fA-F\n\r\f])"
_WORD: Final = re.compile(rf"@?(?:[-\w]|\\{_ESCAPE_BODY}){{1,64}}")
_ESCAPE: Final = re.compile(r"\\(?:([0-9a-fA-F]{1,6})(?:\r\n|[\t\n\f\r ])?|(\r\n|[\n\r\f])|(.)|\Z)", re.DOTALL)
_NAMING_ONLY: Final = frozenset({"@namespace", "@document", "@-moz-document"})
_LOOK_BACK_MAX: Final = 16
"""More than the longest word looked for, so that one with an escape inside is found from its start."""


def references(sheet: str) -> Iterator[str]:
    """Every reference that `sheet` loads, escapes resolved, in order. Never raises; linear time."""
    position = 0
    while mark := _NEXT.search(sheet, position):
        start, position = mark.span()
        text: str | None = None
        match mark[0]:
            case "/*":
                position = _after(sheet, "*/", position)
            case '"' | "'":
                _, position = _string(sheet, position)
            case "@":
                text, position = _word(sheet, start)
            case "\\":
                text, position = _word(sheet, _word_start(sheet, start), start + 1)
            case _:
                if not _in_word(sheet, start):  # "my-url(" is another function
                    text, position = _url(sheet, position)
        if text and (reference := _unescaped(text)):
            yield reference


def _word(sheet: str, start: int, least: int = 0) -> tuple[str | None, int]:
    """Read the word at `start`, and what it loads; go on at `least` or later."""
    found = _WORD.match(sheet, start)
    if found is None or found.end() < least:
        return None, max(start + 1, least)
    position = found.end()
    word = _unescaped(found[0]).lower()
    if word == "@import":
        return _imported(sheet, position)
    if word in _NAMING_ONLY:
        return None, _after_prelude(sheet, position)
    if word == "url" and sheet.startswith("(", position) and not _in_word(sheet, start):
        return _url(sheet, position + 1)
    return None, position


def _word_start(sheet: str, position: int) -> int:
    start = position
    while start > 0 and position - start < _LOOK_BACK_MAX and _in_word(sheet, start):
        start -= 1
    return start - 1 if start > 0 and sheet[start - 1] == "@" else start


def _in_word(sheet: str, position: int) -> bool:
    """Whether the character before `position` is one of a word."""
    if position == 0:
        return False
    before = sheet[position - 1]
    return before.isalnum() or before in "-_" or before > "\x7f"


def _imported(sheet: str, position: int) -> tuple[str | None, int]:
    position = _after_space(sheet, position)
    if sheet.startswith(('"', "'"), position):
        return _string(sheet, position + 1)
    if sheet[position : position + 4].lower() == "url(":
        return _url(sheet, position + 4)
    return None, position


def _after_prelude(sheet: str, position: int) -> int:
    """Behind the semicolon or opening brace that ends the prelude of an at-rule."""
    while stop := _PRELUDE_STOP.search(sheet, position):
        position = stop.end()
        if stop[0] in ";{":
            return position
        position = _after(sheet, "*/", position) if stop[0] == "/*" else _string(sheet, position)[1]
    return len(sheet)


def _after_space(sheet: str, position: int) -> int:
    """Behind white space and comments."""
    while True:
        found = _SPACE.match(sheet, position)
        position = found.end() if found else position
        if not sheet.startswith("/*", position):
            return position
        position = _after(sheet, "*/", position + 2)


def _after(sheet: str, mark: str, position: int) -> int:
    found = sheet.find(mark, position)
    return found + len(mark) if found >= 0 else len(sheet)


def _string(sheet: str, start: int) -> tuple[str | None, int]:
    """The raw text of the string whose opening quote stands before `start`, and where it ends; None for a bad one."""
    stops = _STRING_STOP[sheet[start - 1]]
    position = start
    while stop := stops.search(sheet, position):
        if stop[0] == "\\":
            position = stop.end() + (2 if sheet.startswith("\r\n", stop.end()) else 1)
            continue
        if stop[0] in "\n\r\f":
            return None, stop.start()
        return sheet[start : stop.start()], stop.end()
    return sheet[start:], len(sheet)


def _url(sheet: str, position: int) -> tuple[str | None, int]:
    """The raw reference behind ``url(``, and where to go on; None for a bad one."""
    found = _SPACE.match(sheet, position)
    start = position = found.end() if found else position
    if sheet.startswith(('"', "'"), position):
        return _string(sheet, position + 1)
    while stop := _UNQUOTED_STOP.search(sheet, position):
        if stop[0] == "\\" and not sheet.startswith(("\n", "\r", "\f"), stop.end()):
            position = stop.end() + 1
            continue
        if stop[0] == ")":
            return sheet[start : stop.start()], stop.end()
        found = _SPACE.match(sheet, stop.start())
        end = found.end() if found else stop.start()
        if stop[0] in "\t\n\f\r " and (end == len(sheet) or sheet[end] == ")"):
            return sheet[start : stop.start()], end + 1
        return None, _after_bad_url(sheet, end)
    return sheet[start:], len(sheet)


def _after_bad_url(sheet: str, position: int) -> int:
    while stop := _BAD_URL_STOP.search(sheet, position):
        if stop[0] == ")":
            return stop.end()
        position = stop.end() + 1
    return len(sheet)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(escape: re.Match[str]) -> str:
    digits, _line_end, literal = escape.groups()
    if digits is None:
        return literal or ""
    code = int(digits, 16)
    return "\ufffd" if code == 0 or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF else chr(code)

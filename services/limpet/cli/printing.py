"""How verbs print: text for people or JSON for programs, never a control character from the web."""

import sys
from collections.abc import Iterable
from typing import Any

import msgspec

from limpet.model.errors import CannotGoOn


class CannotPrintError(CannotGoOn):
    """Stdout does not take what a verb has to say: a full device, say. A reader that left is a `BrokenPipeError`."""


def print_json(value: Any) -> None:
    """One JSON document on stdout. Raises `CannotPrintError`, as everything here that prints."""
    write(msgspec.json.format(msgspec.json.encode(value)).decode() + "\n")


def print_json_list(values: Iterable[Any]) -> int:
    """One JSON array on stdout, written as its values come; how many there were. The same bytes as `print_json`."""
    count = 0
    for count, value in enumerate(values, 1):
        text = msgspec.json.format(msgspec.json.encode(value)).decode()
        write(("[\n  " if count == 1 else ",\n  ") + text.replace("\n", "\n  "))
    write("\n]\n" if count else "[]\n")
    return count


def print_lines(lines: Iterable[str]) -> None:
    """Lines on stdout, each made printable; tabs between fields stay."""
    for line in lines:
        write("\t".join(plain(field) for field in line.split("\t")) + "\n")


def write(text: str) -> None:
    """`text` on stdout as it is."""
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CannotPrintError(f"cannot write to stdout: {error.strerror or error}") from error


def flush() -> None:
    """Hand on what was printed."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CannotPrintError(f"cannot write to stdout: {error.strerror or error}") from error


def plain(text: str) -> str:
    """`text` without anything that could start a line of its own or drive a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)

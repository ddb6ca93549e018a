"""How verbs print: text for people or JSON for programs, never a control character from the web."""

import sys
from collections.abc import Iterable
from typing import Any

import msgspec


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value)).decode() + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """Lines on stdout, each made printable; tabs between fields stay."""
    for line in lines:
        sys.stdout.write("\t".join(plain(field) for field in line.split("\t")) + "\n")


def plain(text: str) -> str:
    """`text` without anything that could start a line of its own or drive a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)

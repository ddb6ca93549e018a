"""What is wrong with a value of the settings, in words that name its key as a file writes it."""

import difflib
import ipaddress
import re
from typing import Final

import msgspec

_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<name>[^`]*)`(?: - at `\$\.(?P<table>[^`]*)`)?")
_PLACED: Final = re.compile(r"(?P<what>.+) - at `\$\.(?P<key>[^`]+)`", re.DOTALL)
_PORT_MAX: Final = 65_535


def told(error: Exception, kind: type[msgspec.Struct]) -> str:
    """A decoder's complaint about the keys of `kind`; an unknown key with the one that was probably meant."""
    text = str(error)
    if unknown := _UNKNOWN.fullmatch(text):
        key = ".".join(filter(None, (unknown["table"], unknown["name"])))
        meant = difflib.get_close_matches(key, known_keys(kind), 1)
        return f"unknown key {key}" + (f": is it {meant[0]}?" if meant else ": see docs/configuration.md")
    placed = _PLACED.fullmatch(text)
    return f"{placed['key']}: {placed['what'][:1].lower()}{placed['what'][1:]}" if placed else text


def known_keys(kind: type[msgspec.Struct]) -> list[str]:
    """Every key of a file: `name` at the top level, `table`, and `table.name`."""
    keys = []
    for field in msgspec.structs.fields(kind):
        keys.append(field.name)
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            keys += [f"{field.name}.{inner.name}" for inner in msgspec.structs.fields(field.type)]
    return keys


def out_of_range(settings: msgspec.Struct) -> str:
    """The first value that a file could not hold, with its key; "" when all is well.

    For values that came by flags: what is remembered has to be readable again.
    """
    try:
        msgspec.convert(msgspec.to_builtins(settings), type=type(settings))
    except msgspec.ValidationError as error:
        return told(error, type(settings))
    return ""


def is_nameserver(text: str) -> bool:
    """Whether `text` is an address, alone or with a port: `192.0.2.1`, `192.0.2.1:5353`, `[2001:db8::1]:53`."""
    bracketed = re.fullmatch(r"\[([^\]]+)\](?::([0-9]{1,5}))?", text)
    plain = bracketed or re.fullmatch(r"([0-9.]+)(?::([0-9]{1,5}))?", text)
    address, port = (plain[1], plain[2]) if plain else (text, None)
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return port is None or 0 < int(port) <= _PORT_MAX

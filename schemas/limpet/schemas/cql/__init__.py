"""The tables of the Cassandra form and every query on them, each named and described, in files of their own.

`NNN-NAME.cql` is a migration: statements that end with `;` at the end of a line, each safe to repeat, applied in the
order of NNN and never edited once released. Every other file holds queries (see `limpet.schemas.named`) with named
markers (`:fp`), on any table of any migration.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

from limpet.schemas.named import parse

_MIGRATION: Final = re.compile(r"\d{3}-[a-z0-9-]+\.cql")
_COMMENT: Final = re.compile(r"^\s*--.*$", re.MULTILINE)
_END: Final = re.compile(r";\s*$", re.MULTILINE)


class Migration(NamedTuple):
    """One step of the schema. `name` is the file's, without its ending."""

    name: str
    statements: tuple[str, ...]


@cache
def migrations() -> tuple[Migration, ...]:
    """Every migration in the order in which they are applied."""
    names = sorted(name for name in _files() if _MIGRATION.fullmatch(name))
    return tuple(Migration(name.removesuffix(".cql"), statements(_text(name))) for name in names)


@cache
def queries() -> Mapping[str, str]:
    """Every query by name. Raises ValueError for a name that occurs twice."""
    found: dict[str, str] = {}
    for file in sorted(_files()):
        if _MIGRATION.fullmatch(file):
            continue
        for query in parse(_text(file), file):
            if query.name in found:
                raise ValueError(f"query {query.name} is defined twice")
            found[query.name] = query.text
    return found


def statements(text: str) -> tuple[str, ...]:
    """The statements of a migration, without comments."""
    pieces = (piece.strip() for piece in _END.split(_COMMENT.sub("", text)))
    return tuple(piece for piece in pieces if piece)


def _files() -> list[str]:
    return [entry.name for entry in resources.files(__name__).iterdir() if entry.name.endswith(".cql")]


def _text(file: str) -> str:
    return resources.files(__name__).joinpath(file).read_text("utf-8")

"""Statements of a query language in their own files: `-- name: NAME`, comments that describe it, one statement."""

from typing import Final, NamedTuple

_MARK: Final = "-- name:"


class Query(NamedTuple):
    """One statement with its name and what it is for."""

    name: str
    description: str
    text: str


def parse(text: str, file: str) -> list[Query]:
    """The blocks of one query file. Raises ValueError naming `file` for one without a description or a statement."""
    found = []
    for block in text.split(_MARK)[1:]:
        name, *lines = block.strip().splitlines()
        comments = [line.removeprefix("--").strip() for line in lines if line.startswith("--")]
        statement = "\n".join(line for line in lines if line and not line.startswith("--"))
        if not comments or not statement:
            raise ValueError(f"{file}: query {name.strip()} lacks a description or a statement")
        found.append(Query(name.strip(), " ".join(comments), statement))
    return found

"""The SQLite schemas and every query of the embedded form, each named and described, in files of their own.

What a query file looks like: see `limpet.schemas.named`.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

from limpet.schemas.named import parse
from limpet.schemas.sqlite.steps import FUNCTIONS, Step, steps_of

SHARD_VERSION: Final = 4
SEEN_VERSION: Final = 1


class Schema(NamedTuple):
    """One kind of database file: its version (`user_version`), the script that creates it, and its queries by name.

    `steps` lead from the oldest version that is read to this one; `functions` are what they call, of one argument each.
    """

    version: int
    script: str
    queries: Mapping[str, str]
    steps: tuple[Step, ...] = ()
    functions: Mapping[str, Callable[[bytes], str | int]] = {}

    def steps_from(self, version: int) -> tuple[Step, ...]:
        """The way from an earlier version to this one; empty when there is none."""
        found = tuple(step for step in self.steps if step.to > version)
        return found if version < self.version == version + len(found) else ()


@cache
def shard_schema() -> Schema:
    """A shard's file: rows, due index, hosts, outcomes, parse, repair, outgoing log and consumer offsets."""
    parts = ("file", "urls", "work", "hosts", "parse", "repair", "view", "report", "bus")
    script = _text("file_schema") + _text("shard_schema")
    steps = steps_of(parse(_text("shard_steps"), "shard_steps.sql"))
    return Schema(SHARD_VERSION, script, queries(*parts), steps, FUNCTIONS)


@cache
def seen_schema() -> Schema:
    """A seen shard's file."""
    return Schema(SEEN_VERSION, _text("seen_schema"), queries("seen"))


def queries(*files: str) -> dict[str, str]:
    """Every query of the named files. Raises ValueError for a name that occurs twice."""
    found: dict[str, str] = {}
    for file in files:
        for query in parse(_text(file), f"{file}.sql"):
            if query.name in found:
                raise ValueError(f"query {query.name} is defined twice")
            found[query.name] = query.text
    return found


def _text(file: str) -> str:
    return resources.files(__name__).joinpath(f"{file}.sql").read_text("utf-8")

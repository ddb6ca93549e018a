"""How files of earlier schema versions become files of this one: named steps, taken in order in one transaction.

A step never changes once it was released. What it has to read of stored records it reads by functions of its own, which
know the records as that earlier version wrote them, whatever became of their types since.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from limpet.schemas.named import Query

_RECORD: Final = msgspec.msgpack.Decoder(dict[str, Any])


class Step(NamedTuple):
    """From version `to` - 1 to version `to`."""

    to: int
    name: str
    script: str


def steps_of(blocks: Iterable[Query]) -> tuple[Step, ...]:
    """The steps in a file whose blocks are named `VERSION_what_it_does`, each of one or more statements.

    Raises ValueError for a gap or a wrong order.
    """
    steps = tuple(Step(int(block.name.partition("_")[0]), block.name, block.text) for block in blocks)
    versions = [step.to for step in steps]
    if versions != list(range(versions[0], versions[0] + len(versions))):
        raise ValueError(f"steps lead to versions {versions}")
    return steps


def _outcome_2_answer(data: bytes) -> str:
    record = _RECORD.decode(data)
    return str(record.get("status", 0) or record.get("failure", ""))


def _outcome_2_mime(data: bytes) -> str:
    return str(_RECORD.decode(data).get("mime", ""))


def _outcome_2_bytes(data: bytes) -> int:
    return int(_RECORD.decode(data).get("wire_bytes", 0))


FUNCTIONS: Final[Mapping[str, Callable[[bytes], str | int]]] = {
    "outcome_2_answer": _outcome_2_answer,
    "outcome_2_mime": _outcome_2_mime,
    "outcome_2_bytes": _outcome_2_bytes,
}
"""SQL functions of one argument that steps may call."""

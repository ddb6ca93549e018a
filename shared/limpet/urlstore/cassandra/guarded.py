"""Conditional writes whose fate may be unknown, and reads that decide it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from limpet.model.errors import Definite, Indefinite
from limpet.urlstore.cassandra.session import Row, Session, Verdict

TRIES_MAX: Final = 16
"""How often a guarded write is tried anew after somebody else changed what it was decided on."""

AT_ONCE_MAX: Final = 64
"""Statements of one call that are under way at a time."""

T = TypeVar("T")
R = TypeVar("R")


async def attempt(session: Session, name: str, /, **params: Any) -> Verdict | None:
    """The verdict of a conditional write; None when nobody knows."""
    try:
        return await session.conditional(name, **params)
    except Indefinite:
        return None


async def settled(session: Session, name: str, /, **params: Any) -> Row | None:
    """What an unknown write came to. A question without an answer leaves it unknown: `Indefinite`, not `Definite`."""
    try:
        return await session.settled(name, **params)
    except Definite as error:
        raise Indefinite(str(error)) from error


def contended(name: str) -> Definite:
    """The error of a write that lost every time; what it read last was there, so it did not happen."""
    return Definite(f"{name}: others changed the row {TRIES_MAX} times in a row; try again")


async def each(items: Iterable[T], act: Callable[[T], Awaitable[R]]) -> list[R]:
    """`act` on every item, a bounded number at a time; what the first failure raises, after all have ended."""
    waiting = list(items)
    results: list[R] = []
    for begin in range(0, len(waiting), AT_ONCE_MAX):
        answers: Sequence[R | BaseException] = await asyncio.gather(
            *(act(item) for item in waiting[begin : begin + AT_ONCE_MAX]), return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            results.append(answer)
    return results

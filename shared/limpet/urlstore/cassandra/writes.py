"""Guarded writes: whether one was applied, also when nobody answered.

Every conditional write leaves a stamp of its own in the row and is conditional on not finding it there. So a row that
carries our stamp proves that the write was applied, whatever the answer said: Cassandra may say "not applied" for a
write that another coordinator finished on its behalf. After silence the row is read at LOCAL_SERIAL, which first ends
what is under way; if the guard still holds there, the same write, with the same stamp, may be sent again.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, Protocol

from limpet.model.errors import Definite, Indefinite
from limpet.runtime.randomness import Random
from limpet.urlstore.cassandra.session import Row

STAMP_BYTES: Final = 16
ATTEMPTS_MAX: Final = 3

Guard = Callable[[Row], bool]


class Ruling(NamedTuple):
    """What became of a guarded write, and the row that says so, as far as it was read."""

    applied: bool
    row: Row | None = None


def ruling(row: Row | None, stamp: bytes, guard: Guard) -> bool | None:
    """What a row tells of a write whose answer was lost: applied, not applied, or (None) it may be sent again."""
    if row is None:
        return False
    if row["stamp"] == stamp:
        return True
    return None if guard(row) else False


class Answer(Protocol):
    """See `Verdict`."""

    @property
    def applied(self) -> bool:
        """Whether it says so."""
        ...

    @property
    def row(self) -> Row | None:
        """Cells as they are, when it was not."""
        ...


class Conditional(Protocol):
    """What is needed of a `Session`."""

    async def conditional(self, name: str, /, **params: Any) -> Answer:
        """See `Session.conditional`."""
        ...

    async def settled(self, name: str, /, **params: Any) -> Row | None:
        """See `Session.settled`."""
        ...


class Writes:
    """Guarded writes of one process."""

    def __init__(self, session: Conditional, random: Random) -> None:
        self._session = session
        self._random = random

    def stamp(self) -> bytes:
        """Names one write. It is the token of the claim that it makes."""
        return self._random.token(STAMP_BYTES)

    async def guarded(
        self,
        name: str,
        fp: bytes,
        guard: Guard,
        *,
        stamp: bytes = b"",
        proof: Callable[[bytes], Awaitable[bool]] | None = None,
        **params: Any,
    ) -> Ruling:
        """Send conditional query `name` on row `fp`, until it is known what became of it.

        `guard` says of a row what the query's conditions say. `proof` looks for the stamp elsewhere, when others may
        have written the row since. Raises `Indefinite` when nobody could be asked.
        """
        stamp = stamp or self.stamp()
        silence: Indefinite | None = None
        for _ in range(ATTEMPTS_MAX):
            try:
                verdict = await self._session.conditional(name, fp=fp, stamp=stamp, **params)
            except Indefinite as error:
                silence = error
            else:
                if verdict.applied:
                    return Ruling(applied=True)
                if silence is None or verdict.row is None:
                    found = verdict.row is not None and verdict.row["stamp"] == stamp
                    return Ruling(found, verdict.row)
            row = await self.settled(fp)
            applied = ruling(row, stamp, guard)
            if applied is False and proof is not None and await proof(stamp):
                applied = True
            if applied is not None:
                return Ruling(applied, row)
        raise Indefinite(f"{name}: no answer {ATTEMPTS_MAX} times; the row waits as it was ({silence})") from silence

    async def settled(self, fp: bytes) -> Row | None:
        """A row, once everything that was under way on it has ended. Raises `Indefinite` when it cannot be read."""
        try:
            return await self._session.settled("url_get", fp=fp)
        except Definite as error:
            raise Indefinite(f"row {fp.hex()} not to be read after a write without an answer: {error}") from error

"""One row of a Cassandra table behind a network that loses answers: for tests of what is made of silence."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from limpet.model.errors import Definite, Indefinite

Row = dict[str, Any]


class Fate(Enum):
    """What becomes of one conditional write."""

    ANSWERED = "answered"
    LOST_REQUEST = "lost request"  # nothing was done, and nobody knows
    LOST_REPLY = "lost reply"  # it was done, and nobody knows
    LATE = "late"  # nobody knows; it is done after the row was read
    DENIED = "denied"  # done by another coordinator, answered with "not applied"


class Answer:
    """See `limpet.urlstore.cassandra.Verdict`."""

    def __init__(self, row: Row | None, *, applied: bool) -> None:
        self.applied, self.row = applied, row


class LossySession:
    """A session with one row. `condition` and `change` say what the conditional write does; `fates` what becomes of it.

    After the last fate everything is answered. A read at LOCAL_SERIAL fails as often as `silent_reads` says.
    """

    def __init__(
        self,
        row: Row | None,
        condition: Callable[[Row, Row], bool],
        fates: Sequence[Fate],
        *,
        silent_reads: int = 0,
    ) -> None:
        self.row = row
        self.applied = 0
        self.sent = 0
        self._condition = condition
        self._fates = list(fates)
        self._late: list[Row] = []
        self._silent_reads = silent_reads

    async def conditional(self, name: str, /, **params: Any) -> Answer:
        """Apply the parameters to the row, if the condition holds and it does not carry their stamp."""
        self.sent += 1
        fate = self._fates.pop(0) if self._fates else Fate.ANSWERED
        if fate is Fate.LOST_REQUEST:
            raise Indefinite(f"{name}: silence")
        if fate is Fate.LATE:
            self._late.append(params)
            raise Indefinite(f"{name}: silence")
        applied = self._apply(params)
        if fate is Fate.LOST_REPLY:
            raise Indefinite(f"{name}: silence")
        return Answer(None if self.row is None else dict(self.row), applied=applied and fate is not Fate.DENIED)

    async def settled(self, name: str, /, **_: Any) -> Row | None:
        """The row; what is late comes after."""
        if self._silent_reads:
            self._silent_reads -= 1
            raise Definite(f"{name}: no answer")
        found = None if self.row is None else dict(self.row)
        while self._late:
            self._apply(self._late.pop())
        return found

    def _apply(self, params: Row) -> bool:
        if self.row is None or self.row["stamp"] == params["stamp"] or not self._condition(self.row, params):
            return False
        self.row |= params
        self.applied += 1
        return True

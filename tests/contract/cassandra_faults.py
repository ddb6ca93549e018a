"""Connections on which conditional writes get no answer."""

from collections.abc import Callable
from enum import Enum
from typing import Any

from limpet.model.errors import Indefinite
from limpet.urlstore.cassandra import Session, Verdict


class Fate(Enum):
    """What becomes of one conditional write."""

    ANSWERED = "answered"
    LOST_ANSWER = "lost answer"  # it was done, or its guard was gone
    NEVER_ARRIVED = "never arrived"


def answered() -> Fate:
    """A sound connection."""
    return Fate.ANSWERED


class LostAnswers(Session):
    """A session whose conditional writes meet the fates that `fate` draws."""

    fate: Callable[[], Fate] = staticmethod(answered)

    async def conditional(self, name: str, /, **params: Any) -> Verdict:
        """See `Session.conditional`."""
        fate = self.fate()
        if fate is Fate.NEVER_ARRIVED:
            raise Indefinite(f"{name}: never arrived")
        verdict = await super().conditional(name, **params)
        if fate is Fate.LOST_ANSWER:
            raise Indefinite(f"{name}: the answer was lost")
        return verdict


class Each:
    """The same fate for a number of writes, then answers."""

    def __init__(self, fate: Fate, times: int) -> None:
        self._fate, self._times = fate, times

    def __call__(self) -> Fate:
        """The next one's."""
        self._times -= 1
        return self._fate if self._times >= 0 else Fate.ANSWERED

"""What every part agrees on: URLs and their identity, states, outcomes, events, errors.

`outcome`, `events` and `verdict` are imported by module: they speak of segments and exchanges, whose ports speak of
errors from here.
"""

from limpet.model.errors import CannotGoOn, Definite, Indefinite, LimpetError, UsageError
from limpet.model.lifecycle import Actor, State
from limpet.model.links import LinkKind
from limpet.model.urls import InvalidUrl, SplitUrl, canonicalize, canonicalize_all, split

__all__ = [
    "Actor",
    "CannotGoOn",
    "Definite",
    "Indefinite",
    "InvalidUrl",
    "LimpetError",
    "LinkKind",
    "SplitUrl",
    "State",
    "UsageError",
    "canonicalize",
    "canonicalize_all",
    "split",
]

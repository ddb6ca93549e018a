"""Errors say what the caller may do next.

`Definite`: the effect did not happen; trying again is safe. `Indefinite`: it may have happened; re-read the authority,
never assume. Adapters translate their driver's exceptions into these at the edge and keep the cause.
"""


class LimpetError(Exception):
    """Base of every error Limpet raises on purpose; its text is one line that a user can act on."""


class Definite(LimpetError):
    """The effect did not happen."""


class Indefinite(LimpetError):
    """The effect may or may not have happened: read the authority before acting."""


class UsageError(LimpetError):
    """The user asked for something that cannot be done as asked (exit code 2)."""


class CannotGoOn(LimpetError):
    """Disk, store or clock makes going on unsafe (exit code 4); what was acknowledged is kept."""

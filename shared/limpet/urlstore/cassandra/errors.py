"""What the driver's errors mean to a caller; the driver's exceptions stop here, their text is kept."""

from typing import Final

from cassandra import (
    AuthenticationFailed,
    InvalidRequest,
    Unauthorized,
    Unavailable,
    UnresolvableContactPoints,
    UnsupportedOperation,
)
from cassandra.cluster import NoHostAvailable
from cassandra.protocol import ConfigurationException, SyntaxException

from limpet.model.errors import CannotGoOn, Definite, Indefinite, LimpetError

REFUSED: Final = (
    InvalidRequest,
    SyntaxException,
    ConfigurationException,
    Unauthorized,
    UnsupportedOperation,
    UnresolvableContactPoints,
)
"""The servers will say the same again: the keyspace is not what this release expects, or we may not use it."""

NOTHING_SENT: Final = (NoHostAvailable,)
"""No retry policy of ours moves a write to another host, so this is only raised before anything left."""


def of_read(error: Exception, what: str) -> LimpetError:
    """A question that got no answer changed nothing."""
    return _refusal(error, what) or Definite(f"{what}: no answer from Cassandra ({_text(error)})")


def of_write(error: Exception, what: str, *, conditional: bool) -> LimpetError:
    """A write that was not acknowledged.

    `Unavailable` is said before a plain write begins; a conditional one has several rounds, and it may be the last.
    """
    refusal = _refusal(error, what)
    if refusal is not None:
        return refusal
    if isinstance(error, NOTHING_SENT) or (isinstance(error, Unavailable) and not conditional):
        return Definite(f"{what}: Cassandra did not take it ({_text(error)})")
    return Indefinite(f"{what}: Cassandra may or may not have done it ({_text(error)})")


def of_connect(error: Exception, what: str) -> LimpetError:
    """No session could be opened: refused, also by any host that does not know us, or nobody was there (`Definite`)."""
    for each in [error, *_each_host(error)]:
        if isinstance(each, (AuthenticationFailed, *REFUSED)):
            return CannotGoOn(f"{what}: Cassandra refuses it ({_text(each)})")
    return Definite(f"{what}: cannot reach Cassandra ({_text(error)})")


def _each_host(error: Exception) -> list[Exception]:
    """What each host said; the driver tells it as a dict by host, or lists hosts alone."""
    said = error.errors if isinstance(error, NoHostAvailable) else {}
    return list(said.values()) if isinstance(said, dict) else []


def _refusal(error: Exception, what: str) -> LimpetError | None:
    return CannotGoOn(f"{what}: Cassandra refuses it ({_text(error)})") if isinstance(error, REFUSED) else None


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"

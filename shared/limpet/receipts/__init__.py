"""Receipts: what became of every batched write to a shared server, so that nothing partial is silent.

A line belongs here when it says how an outcome is written down, kept or counted; what a pipeline does belongs to the
adapter that runs it.
"""

from limpet.receipts.files import FileReceiptLog
from limpet.receipts.port import ReceiptLog
from limpet.receipts.recorder import Maxima, Recorder
from limpet.receipts.types import (
    Action,
    Ambiguous,
    CommandFailure,
    Receipt,
    Role,
    Transport,
    Verdict,
    classes_of,
    error_code,
)

__all__ = [
    "Action",
    "Ambiguous",
    "CommandFailure",
    "FileReceiptLog",
    "Maxima",
    "Receipt",
    "ReceiptLog",
    "Recorder",
    "Role",
    "Transport",
    "Verdict",
    "classes_of",
    "error_code",
]

"""The clock that all processes of a machine share, the witness's log included."""

from time import monotonic_ns


def seconds() -> float:
    """Now."""
    return monotonic_ns() / 1e9

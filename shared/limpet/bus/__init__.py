"""The bus: two topics close the ring."""

from limpet.bus.port import (
    BusUnavailableError,
    Capabilities,
    Consumer,
    DeniedError,
    GapError,
    LostPartitionError,
    Message,
    OversizedError,
    Position,
    Producer,
    RefusedError,
    UnknownTopicError,
)

__all__ = [
    "BusUnavailableError",
    "Capabilities",
    "Consumer",
    "DeniedError",
    "GapError",
    "LostPartitionError",
    "Message",
    "OversizedError",
    "Position",
    "Producer",
    "RefusedError",
    "UnknownTopicError",
]

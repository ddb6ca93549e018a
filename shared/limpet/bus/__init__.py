"""The bus: two topics close the ring."""

from limpet.bus.port import Consumer, GapError, Message, Position, Producer, UnknownTopicError

__all__ = ["Consumer", "GapError", "Message", "Position", "Producer", "UnknownTopicError"]

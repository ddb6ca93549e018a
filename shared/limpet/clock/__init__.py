"""Time as a port: nothing else in Limpet may read a clock or sleep."""

from limpet.clock.durable import DurableClock
from limpet.clock.port import Clock
from limpet.clock.system import SystemClock

__all__ = ["Clock", "DurableClock", "SystemClock"]

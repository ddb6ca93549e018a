"""What a process needs from its machine, as ports: chance, disk, death, and where blocking work runs."""

from limpet.runtime.crashpoints import CRASH_POINTS, Immortal, Killed, Mortality
from limpet.runtime.disk import Disk, DiskFile, SystemDisk
from limpet.runtime.executor import InlineRunner, Runner, ThreadRunner
from limpet.runtime.randomness import Random, SystemRandom, new_incarnation

__all__ = [
    "CRASH_POINTS",
    "Disk",
    "DiskFile",
    "Immortal",
    "InlineRunner",
    "Killed",
    "Mortality",
    "Random",
    "Runner",
    "SystemDisk",
    "SystemRandom",
    "ThreadRunner",
    "new_incarnation",
]

"""Everything the ring takes from its machine, in one place: the real things, or a rehearsal's."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from limpet.assembly.politeness import wire_fetcher
from limpet.clock import Clock, SystemClock
from limpet.config import Settings
from limpet.embedded.parts import REAL_PARTS, Parts
from limpet.fetch import Fetcher
from limpet.runtime import Disk, Immortal, Mortality, Random, Runner, SystemDisk, SystemRandom, ThreadRunner

MakeFetcher = Callable[[Settings, Clock], Fetcher]


@dataclass(frozen=True, kw_only=True)
class Ports:
    """The ports of one process."""

    clock: Clock
    random: Random
    disk: Disk
    mortality: Mortality
    make_runner: Callable[[str], Runner]
    make_fetcher: MakeFetcher
    synchronous: Literal["FULL", "NORMAL", "OFF"] = "FULL"
    parts: Parts = REAL_PARTS

    @classmethod
    def system(cls) -> "Ports":
        """The machine as it is."""
        return cls(
            clock=SystemClock(),
            random=SystemRandom(),
            disk=SystemDisk(),
            mortality=Immortal(),
            make_runner=ThreadRunner,
            make_fetcher=wire_fetcher,
        )

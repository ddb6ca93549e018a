"""A robots.txt that redirects to a host of another worker: that worker asks its host, and hands the answer back."""

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from limpet.robots import HttpAnswer, NetworkFailure, RobotsAnswer


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be asked for a robots.txt, and why: see `RobotsFetch`."""

    url: str
    hops: str = ""
    via: str = ""
    cause: bytes = b""

    def led_to(self, url: str) -> "Errand":
        """The next one, after a redirect."""
        return Errand(url=url, hops=f"{self.hops}R", via=self.url, cause=self.cause)


class NotAsked(msgspec.Struct, frozen=True, tag=True):
    """A host to which a robots.txt redirects will not be asked soon, and was not asked at all."""

    reason: str
    """What the redirecting authority waits for."""
    wait_us: int = 0
    """How long the host is known to wait yet."""
    theirs: bool = False
    """The host asked for the wait, or brought it on itself: it counts like its own 429 as robots.txt out of reach."""


Run = Callable[[Errand, float], Awaitable[RobotsAnswer | NotAsked | None]]
"""Errand, monotonic second after which nobody waits any more -> what the host said, or that it was not asked."""


Answered = HttpAnswer | NetworkFailure | NotAsked | None
"""What an errand brings back, as a type that can be written down."""


class Errands(Protocol):
    """Between the workers of one crawl.

    Contract: whoever keeps a host's politeness is the one who asks it; an errand that is not run in time is None, and
    costs nobody anything; a death on either side loses the errand and nothing else.
    """

    async def ask(self, errand: Errand) -> RobotsAnswer | NotAsked | None:
        """Have the owner of the URL's host fetch it once, as a hop of a robots.txt. None: it did not, in time."""
        ...

    def stop(self) -> None:
        """Wait for nobody any more: what is asked from now on, or is being waited for, is None."""
        ...

    async def serve(self, run: Run) -> None:
        """Run the errands of others, for ever."""
        ...

"""A robots.txt that redirects to a host of another worker: that worker asks its host, and hands the answer back."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from limpet.robots import RobotsAnswer

Run = Callable[[str, float], Awaitable[RobotsAnswer | None]]
"""URL, monotonic second after which nobody waits any more -> what the host said, None when it was not asked."""


class Errands(Protocol):
    """Between the workers of one crawl.

    Contract: whoever keeps a host's politeness is the one who asks it; an errand that is not run in time is None, and
    costs nobody anything; a death on either side loses the errand and nothing else.
    """

    async def ask(self, url: str) -> RobotsAnswer | None:
        """Have the owner of the host of `url` fetch it once, as a hop of a robots.txt. None: it did not, in time."""
        ...

    def stop(self) -> None:
        """Wait for nobody any more: what is asked from now on, or is being waited for, is None."""
        ...

    async def serve(self, run: Run) -> None:
        """Run the errands of others, for ever."""
        ...

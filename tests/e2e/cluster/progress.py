"""How far a crawl is, by the word of the site alone: what it has answered in full."""

from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Final

from e2e.cluster.ticking import seconds
from e2e.inflight import WitnessLog
from origin.events import Requested, Responded
from origin.visits import Visit

POLL_SECONDS: Final = 0.05
REFUSED: Final = frozenset({429, 503})


class Progress:
    """Targets answered in full, robots.txt apart; read as the log grows."""

    def __init__(self, log: Path) -> None:
        self._witness = WitnessLog(log)
        self._position = 0
        self._asked: dict[int, str] = {}
        self._done: set[str] = set()

    def count(self) -> int:
        """How many different URLs were answered in full by now."""
        self._witness.read()
        events = self._witness.events
        for event in events[self._position :]:
            match event:
                case Requested(path="/robots.txt"):
                    pass
                case Requested():
                    self._asked[event.request] = f"{event.authority}{event.path}?{event.query}"
                case Responded(complete=True) if event.status not in REFUSED:
                    if url := self._asked.pop(event.request, ""):
                        self._done.add(url)
                case _:
                    pass
        self._position = len(events)
        return len(self._done)

    def visits(self) -> list[Visit]:
        """All requests so far, in order of arrival."""
        return self._witness.visits()

    def reach(self, count: int, seconds_max: float, check: Callable[[], None] = lambda: None) -> None:
        """Wait until so many are done; AssertionError when nothing new is answered for `seconds_max`."""
        last, since = self.count(), seconds()
        while (done := self.count()) < count:
            check()
            if done > last:
                last, since = done, seconds()
            assert seconds() - since < seconds_max, f"nothing was fetched for {seconds_max:g} s, at {done} of {count}"
            sleep(POLL_SECONDS)

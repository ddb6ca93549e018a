"""The live view of a run: one line that is redrawn on a terminal, a plain line now and then elsewhere."""

import contextlib
import shutil
from collections import deque
from collections.abc import Callable
from typing import Final, TextIO

from limpet.cli.units import show_bytes, show_count, show_duration
from limpet.clock import Clock
from limpet.embedded.collect import UNKNOWN_US, Collected
from limpet.model.lifecycle import State
from limpet.politeness.daybudget import BUDGET
from limpet.urlstore.sqlite import QueueState

PLAIN_SECONDS: Final = 5.0
RATE_SECONDS: Final = 10.0
_ERASE_LINE: Final = "\r\x1b[2K"


class Silence:
    """A watch that says nothing: --quiet and --json."""

    def progress(self, collected: Collected) -> None:
        """See `Watch.progress`."""

    def note(self, text: str) -> None:
        """See `Watch.note`."""

    def close(self) -> None:
        """Nothing to put back."""


class Display:
    """`Watch` for people. Writes to `stream`, which is redrawn in place when it is a terminal."""

    def __init__(self, stream: TextIO, clock: Clock, *, columns: Callable[[], int] | None = None) -> None:
        self._stream = stream
        self._clock = clock
        self._live = stream.isatty()
        self._columns = columns or (lambda: shutil.get_terminal_size().columns)
        self._pages: deque[tuple[float, int]] = deque()
        self._waiting: tuple[QueueState, ...] = ()
        self._drawn = False
        self._last_text = ""
        self._last_at = float("-inf")

    def progress(self, collected: Collected) -> None:
        """See `Watch.progress`."""
        at = self._clock.monotonic()
        self._pages.append((at, collected.pages))
        if collected.rest is not None:
            self._waiting = collected.rest.queues
        while at - self._pages[0][0] > RATE_SECONDS:
            self._pages.popleft()
        if self._live:
            text = self._line(collected)[: max(1, self._columns() - 1)]
            self._write(f"{_ERASE_LINE}{text}")
            self._drawn = True
        elif at - self._last_at >= PLAIN_SECONDS:
            self._plain(self._line(collected), at)

    def note(self, text: str) -> None:
        """See `Watch.note`."""
        self._write(f"{_ERASE_LINE if self._drawn else ''}{text}\n")
        self._drawn = False

    def close(self) -> None:
        """Leave the terminal at the begin of an empty line."""
        if self._drawn:
            self._write(_ERASE_LINE)
            self._drawn = False

    def _plain(self, text: str, at: float) -> None:
        if text != self._last_text:
            self._write(text + "\n")
            self._last_text, self._last_at = text, at

    def _line(self, collected: Collected) -> str:
        """`fetched 120 · queued 34 · waiting 2 hosts, next in 12 s · failed 1 · 4.2 pages/s · 3.4 MB`."""
        queued = collected.state(State.DUE) + collected.state(State.LEASED)
        parts = [f"fetched {collected.pages:,}", f"queued {queued:,}", self._waits(collected.at_us)]
        parts += [f"failed {collected.state(State.FAILED):,}", f"{self._rate():.1f} pages/s"]
        return " · ".join([*parts, show_bytes(collected.wire_bytes)])

    def _waits(self, now_us: int) -> str:
        """Hosts that may not be asked yet, as far as the last whole look knows."""
        waits = {queue.host: queue.effective_us for queue in self._waiting if now_us < queue.effective_us < UNKNOWN_US}
        if not waits:
            return "waiting 0"
        seconds = (min(waits.values()) - now_us) / 1e6
        first = min(self._waiting, key=lambda queue: queue.effective_us)
        if first.reason == BUDGET:  # it holds back every host
            return f"waiting for the day's budget, next request in {show_duration(seconds)}"
        return f"waiting {show_count(len(waits), 'host')}, next in {show_duration(seconds)}"

    def _rate(self) -> float:
        (begin, first), (end, last) = self._pages[0], self._pages[-1]
        return (last - first) / (end - begin) if end > begin else 0.0

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that is gone, a full device: no reason to end a run
            self._stream.write(text)
            self._stream.flush()

"""From the driver's thread to the event loop: answers are gathered, and the loop is woken once for many of them."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

Rows = list[dict[str, Any]]


class Answers:
    """Hands what the driver's thread finds to the futures of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop: Final = loop
        self._lock = threading.Lock()
        self._ready: deque[tuple[asyncio.Future[Any], Callable[[Any], None], object]] = deque()
        self._woken = False

    def expect(self, request: Any) -> asyncio.Future[tuple[Rows, bytes | None]]:
        """The rows of one request of the driver, and where its next page begins (None = that was all)."""
        answer: asyncio.Future[tuple[Rows, bytes | None]] = self._loop.create_future()

        def found(rows: Rows | None) -> None:
            place = request._paging_state  # noqa: SLF001 - `has_more_pages` tells only whether there is one
            self._post(answer, answer.set_result, (rows or [], place))

        def failed(error: Exception) -> None:
            self._post(answer, answer.set_exception, error)

        request.add_callbacks(found, failed)
        return answer

    def _post(self, answer: asyncio.Future[Any], settle: Callable[[Any], None], value: object) -> None:
        """From any thread."""
        with self._lock:
            self._ready.append((answer, settle, value))
            if self._woken:
                return
            self._woken = True
        try:
            self._loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:  # the loop was closed: nobody waits any more
            self._ready.clear()

    def _deliver(self) -> None:
        with self._lock:
            ready, self._ready = self._ready, deque()
            self._woken = False
        for answer, settle, value in ready:
            if not answer.done():  # nobody gave it up meanwhile
                settle(value)

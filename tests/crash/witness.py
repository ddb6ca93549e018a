"""The witness: stands between a crawl and its web, and writes down what was really sent, on the site's own clock."""

from collections.abc import Callable
from email.utils import parsedate_to_datetime

import msgspec

from limpet.fetch import Capture, Fetcher, FetchRequest, Head
from limpet.fetch.port import OnHead
from limpet.testing.loop import EPOCH_US

AtStage = Callable[[str, str], None]
"""Hears of (stage, URL): request, head, body."""


class Visit(msgspec.Struct, kw_only=True):
    """One request as the site saw it. `end_us` stays None when the client vanished before the answer was over."""

    host: str
    url: str
    start_us: int
    open_before: int  # connections of the same process to this host that were open already
    head_us: int | None = None
    status: int | None = None
    retry_after_us: int = 0  # what the head asked for
    end_us: int | None = None


class Witness:
    """A `Fetcher` around another one. `at` hears of each stage of each exchange, and may not return."""

    def __init__(self, inner: Fetcher, log: list[Visit], now: Callable[[], float], at: AtStage | None = None) -> None:
        self._inner = inner
        self._log = log
        self._now = now
        self._at = at or _unheard
        self._open: set[int] = set()  # places in the log

    async def fetch(self, request: FetchRequest, on_head: OnHead | None = None) -> Capture:
        """See `Fetcher.fetch`."""
        host = request.url.split("/")[2]
        busy = sum(self._log[place].host == host for place in self._open)
        visit = Visit(host=host, url=request.url, start_us=self._now_us(), open_before=busy)
        place = len(self._log)
        self._log.append(visit)
        self._open.add(place)
        self._at("request", request.url)

        async def head_seen(head: Head) -> None:
            visit.head_us, visit.status = self._now_us(), head.status
            visit.retry_after_us = _asked_us(head)
            self._at("head", request.url)
            if on_head is not None:
                await on_head(head)

        capture = await self._inner.fetch(request, head_seen)
        self._at("body", request.url)
        visit.end_us = self._now_us()
        self._open.discard(place)
        return capture

    async def close(self) -> None:
        """See `Fetcher.close`."""
        await self._inner.close()

    def _now_us(self) -> int:
        return EPOCH_US + round(self._now() * 1e6)


def _asked_us(head: Head) -> int:
    """What Retry-After asks for, from the head's own Date on when it is a date."""
    value = (head.get(b"retry-after") or b"0").decode()
    if value.isdigit():
        return int(value) * 1_000_000
    date = (head.get(b"date") or b"").decode()
    return round((parsedate_to_datetime(value) - parsedate_to_datetime(date)).total_seconds() * 1e6)


def _unheard(_stage: str, _url: str) -> None:
    """Nobody listens."""

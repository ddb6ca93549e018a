"""Brings notices to people: one log line each, and a webhook when one is set.

A notice is marked delivered only after the webhook answered 2xx (without a webhook: after the log line), so a crash or
a deaf receiver delays it and never loses it; a receiver may see one twice and can tell by `id` and `count`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import msgspec

from limpet.clock import Clock
from limpet.obs import log_event
from limpet.urlstore import Notice, UrlStore

PERIOD_SECONDS: Final = 5.0
BACKOFF_SECONDS_MAX: Final = 600.0
POST_SECONDS_MAX: Final = 10.0
NOTICES_A_POST_MAX: Final = 100
_LOG = logging.getLogger("limpet.notice")

Post = Callable[[str, bytes], Awaitable[int]]
"""POST JSON bytes to a URL; the status of the answer, 0 when there was none. Never raises, ends within a bound."""


class Notifier:
    """Delivers the notices of the shards of one owner."""

    def __init__(self, stores: Iterable[UrlStore], webhook: str, clock: Clock, post: Post) -> None:
        self._stores = tuple(stores)
        self._webhook = webhook
        self._clock = clock
        self._post = post
        self._logged: dict[tuple[int, int], int] = {}  # (shard, notice) -> count in the log
        self._failures = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver every few seconds until `stop`, and once more then. Raises what the store raises."""
        while not stop.is_set():
            delay = PERIOD_SECONDS if await self.deliver() else self._backoff_seconds()
            stopped = asyncio.ensure_future(stop.wait())
            napping = asyncio.ensure_future(self._clock.sleep(delay))
            await asyncio.wait({stopped, napping}, return_when=asyncio.FIRST_COMPLETED)
            for task in (stopped, napping):
                task.cancel()
        await self.deliver()

    async def deliver(self) -> bool:
        """One round over all shards; False when the webhook did not take something."""
        taken = True
        for store in self._stores:
            notices = await store.notices()
            for begin in range(0, len(notices), NOTICES_A_POST_MAX):
                some = notices[begin : begin + NOTICES_A_POST_MAX]
                taken = await self._deliver(store, some) and taken
        self._failures = 0 if taken else self._failures + 1
        return taken

    async def _deliver(self, store: UrlStore, notices: list[Notice]) -> bool:
        for notice in notices:
            self._write_down(store.shard, notice)
        if self._webhook and not await self._send(notices):
            return False
        await store.delivered(notices)
        for notice in notices:
            self._logged.pop((store.shard, notice.id), None)
        return True

    async def _send(self, notices: list[Notice]) -> bool:
        status = await self._post(self._webhook, msgspec.json.encode({"notices": notices}))
        if 200 <= status < 300:
            return True
        log_event(_LOG, logging.WARNING, "webhook did not take notices", status=status, notices=len(notices))
        return False

    def _write_down(self, shard: int, notice: Notice) -> None:
        """One log line for what is new in a notice."""
        if self._logged.get((shard, notice.id)) == notice.count:
            return
        self._logged[shard, notice.id] = notice.count
        log_event(
            _LOG,
            logging.WARNING,
            notice.kind,
            host=notice.host,
            reason=notice.reason,
            count=notice.count,
            sample=notice.sample,
        )

    def _backoff_seconds(self) -> float:
        return float(min(PERIOD_SECONDS * 2 ** min(self._failures, 20), BACKOFF_SECONDS_MAX))


async def post_json(url: str, body: bytes) -> int:
    """`Post` over httpx: no redirects, no environment proxies, bounded in time."""
    import httpx  # noqa: PLC0415 - slow to import, and only a crawl with a webhook needs it

    try:
        async with asyncio.timeout(POST_SECONDS_MAX), httpx.AsyncClient(trust_env=False) as client:
            answer = await client.post(url, content=body, headers={"Content-Type": "application/json"})
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        log_event(_LOG, logging.WARNING, "webhook unreachable", error=type(error).__name__)
        return 0
    return answer.status_code

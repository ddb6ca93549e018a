"""A gap in `links.discovered`: messages that were dropped unread. What published them is parsed again.

The partition stands still meanwhile. In order: a repair item and a notice · a parse job for every document whose
accepted output went to places in the gap · the item is closed · the reader's position moves behind the gap. A death on
the way meets the same gap again. A document whose output was not accepted yet is published anew by its own message.
What a robots.txt named as sitemaps has no output; it is published again with the next copy of that robots.txt.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import msgspec

from limpet.clock import Clock
from limpet.model.events import LINKS_DISCOVERED, encode
from limpet.obs import log_event
from limpet.runtime import Mortality
from limpet.urlstore import Job, RepairItem, UrlStore
from limpet.urlstore.facts import event_of

LINKS_GAP: Final = "links_gap"
"""The kind of notice and repair item."""
_LOG = logging.getLogger("limpet.reconciler")


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of one partition of `links.discovered` from `begin` to `end` - 1 of the log of `source`."""

    partition: int
    source: int
    begin: int
    end: int

    def __str__(self) -> str:
        place = f"{LINKS_DISCOVERED}[{self.partition}]"
        return f"{place} from source {self.source}: messages {self.begin} to {self.end - 1}"


class GapMender:
    """Mends gaps of one crawl.

    `holders` together tell every output; `store_of` gives the store of a URL.
    """

    def __init__(
        self,
        *,
        holders: Iterable[UrlStore],
        store_of: Callable[[str], UrlStore],
        crawl: str,
        clock: Clock,
        mortality: Mortality,
    ) -> None:
        self._holders = list(holders)
        self._store_of = store_of
        self._crawl = crawl
        self._clock = clock
        self._crashpoint = mortality.crashpoint

    async def mend(self, gap: Gap, home: UrlStore, step_over: Callable[[], Awaitable[None]]) -> int:
        """Everything above for a gap of the partition of `home`, whose reader `step_over` moves; documents to parse."""
        now_us = self._clock.wall_us()
        subject = str(gap)
        log_event(_LOG, logging.ERROR, "links were dropped unread", gap=subject)
        detail = "what published them is parsed again"
        await home.put_repair(RepairItem(kind=LINKS_GAP, subject=subject, detail=detail, created_us=now_us))
        await home.notify(LINKS_GAP, "", "links were dropped unread", subject, now_us)
        count = 0
        for holder in self._holders:
            for fp, fetched_us in await holder.published(gap.partition, gap.source, gap.begin, gap.end):
                count += await self._parse_again(holder, fp, fetched_us)
        await home.close_repair(LINKS_GAP, subject)  # before it is passed: nobody would meet it again
        self._crashpoint("recover.pass.before")
        await step_over()
        self._crashpoint("recover.pass.after")
        log_event(_LOG, logging.WARNING, "what published dropped links is parsed again", gap=subject, documents=count)
        return count

    async def _parse_again(self, holder: UrlStore, fp: bytes, fetched_us: int) -> bool:
        row = await holder.row(fp)
        found = [one for one in await holder.outcomes(fp) if one.fetched_us == fetched_us and one.location is not None]
        if row is None or not found:
            return False
        job = Job(
            fp=fp,
            fetched_us=fetched_us,
            event=encode(event_of(found[0], row, self._crawl)),
            attempt=1,
            due_us=self._clock.wall_us(),
            reason=LINKS_GAP,
        )
        self._crashpoint("recover.gap.before")
        await self._store_of(row.url).put_job(job)
        self._crashpoint("recover.gap.after")
        return True

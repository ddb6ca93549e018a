"""Admission: from discovered links to rows, then marks.

Reads `links.discovered`; writes URL rows with their due entries, then seen marks. It may be killed at any instant: the
offset is committed last, and the row comes before the mark.

1 receive · 2 judge and fingerprint · 3 ask the seen shard · 4 row · 5 mark · 6 commit.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence

import msgspec

from limpet.admission.candidates import Desk, Judged
from limpet.admission.nearest import Nearest
from limpet.admission.rules import Rule
from limpet.bus import Consumer, Message, Position
from limpet.clock import Clock
from limpet.config import Settings
from limpet.model.events import PageLinks, decode_links
from limpet.politeness.orders import CANCELLED_BY
from limpet.runtime import Mortality
from limpet.seen import SeenShard
from limpet.urlstore import AdmitResult, Candidate, Reject, UrlStore
from limpet.urlstore.facts import nearer_jobs

IDLE_SECONDS = 0.25
PORTION_LINKS_MIN = 500
SEEDS_DECIDE = frozenset({Rule.SCOPE.value, Rule.NO_CONTACT.value})
"""Rules that another seed may overrule."""

Offer = Callable[[str, str, int], None]
"""(host, authority, due time): tells the crawl node of new work."""


def _in_portions(messages: Sequence[Message]) -> Iterator[list[PageLinks]]:
    """The pages of the messages, as many at a time as the event loop may be held up for: sitemaps come in batches."""
    pages: list[PageLinks] = []
    links = 0
    for message in messages:
        found = decode_links(message.payload).pages
        pages += found
        links += sum(len(page.links) for page in found)
        if links >= PORTION_LINKS_MIN:
            yield pages
            pages, links = [], 0
    if pages:
        yield pages


class Admission:
    """Serves one partition, which is one shard."""

    def __init__(
        self,
        *,
        store: UrlStore,
        seen: SeenShard,
        consumer: Consumer,
        desk: Desk,
        offer: Offer,
        clock: Clock,
        mortality: Mortality,
        settings: Settings,
        crawl: str,
        nearest: Nearest | None = None,
        blocked: Callable[[str, str], bool] = lambda _host, _url: False,
        reads_seeds: bool = False,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """`nearest` stands where the crawl has a depth limit, so that a shorter way to a known URL is not skipped.

        `reads_seeds`: others may add seeds while this runs, so they are read anew before a link is called off scope.
        """
        self._store = store
        self._seen = seen
        self._consumer = consumer
        self._desk = desk
        self._offer = offer
        self._clock = clock
        self._crashpoint = mortality.crashpoint
        self._settings = settings
        self._crawl = crawl
        self._nearest = nearest
        self._blocked = blocked
        self._reads_seeds = reads_seeds
        self._idle_seconds = idle_seconds

    async def run(self, stop: asyncio.Event) -> None:
        """Admit until `stop`; what was received is finished first."""
        while not stop.is_set():
            if not await self.step():
                await self._consumer.wait(self._idle_seconds)

    async def step(self) -> int:
        """One batch through all steps; the number of messages it held."""
        messages = await self._consumer.receive(self._settings.work.admit_batch_messages_max)
        if not messages:
            return 0
        for pages in _in_portions(messages):
            await self.admit(pages)
        await self._commit([message.position for message in messages])
        return len(messages)

    async def admit(self, pages: Sequence[PageLinks]) -> list[AdmitResult]:
        """Steps 2 to 5 for the links of some pages; what became of each new candidate."""
        judged = await self._judge(pages)
        for candidate in judged.candidates:
            if candidate.seed and not self._desk.is_seed(candidate.url):
                await self._widen(candidate, self._clock.wall_us())
        unseen = await self._unseen(judged)
        capped = self._desk.cap(unseen, await self._urls(unseen))
        results = await self._rows(capped.candidates)
        await self._bring_nearer(capped.candidates, results)
        await self._mark(capped.candidates, results)
        await self._count([*judged.rejects, *capped.rejects])
        return results

    async def _judge(self, pages: Sequence[PageLinks]) -> Judged:
        """Part of step 2: what the rules say, under the scope as it is now."""
        judged = self._desk.judge(pages, self._clock.wall_us())
        if not self._reads_seeds or not any(reject.rule in SEEDS_DECIDE for reject in judged.rejects):
            return judged
        fresh = [url for url in await self._store.seeds() if not self._desk.is_seed(url)]
        for url in fresh:
            self._desk.add_seed(url)
        return self._desk.judge(pages, self._clock.wall_us()) if fresh else judged

    async def _unseen(self, judged: Judged) -> list[Candidate]:
        """Step 3: *present* may skip the rest, since a mark always follows its row.

        A mark knows no depth. Where depth decides what belongs to the crawl, only what was admitted at this depth or
        a lesser one is skipped.
        """
        if self._nearest is not None:
            return [one for one in judged.candidates if not self._nearest.has(one.fp, one.depth)]
        present = await self._seen.present([candidate.fp for candidate in judged.candidates])
        return [candidate for candidate, known in zip(judged.candidates, present, strict=True) if not known]

    async def _urls(self, candidates: Sequence[Candidate]) -> dict[str, int]:
        """How many rows the hosts of the candidates have, for their caps."""
        hosts = dict.fromkeys(candidate.host for candidate in candidates)
        rows = [await self._store.host(host) for host in hosts]
        return {row.host: row.urls for row in rows if row is not None}

    async def _rows(self, candidates: Sequence[Candidate]) -> list[AdmitResult]:
        """Step 4: due entry, then row, then read back."""
        if not candidates:
            return []
        self._crashpoint("admit.rows.before")
        now_us = self._clock.wall_us()
        candidates = [self._minded(candidate) for candidate in candidates]  # no await from here to the write
        results = await self._store.admit(candidates, now_us)
        self._crashpoint("admit.rows.after")
        for candidate, result in zip(candidates, results, strict=True):
            if result is AdmitResult.NEW and not (candidate.parked or candidate.cancelled):
                self._offer(candidate.host, candidate.authority, candidate.due_us)
            elif result is AdmitResult.CLASH:
                await self._store.notify("review", candidate.host, "fingerprint_clash", candidate.url, now_us)
        return results

    def _minded(self, candidate: Candidate) -> Candidate:
        """A URL that an operator blocked, or its host, is born cancelled: it has its row, and is never due."""
        if not self._blocked(candidate.host, candidate.url):
            return candidate
        return msgspec.structs.replace(candidate, cancelled=CANCELLED_BY)

    async def _widen(self, candidate: Candidate, now_us: int) -> None:
        """Where a seed's redirects lead is a seed too; the scope grows with it, durably before its row."""
        await self._store.add_seed(candidate.url)
        self._desk.add_seed(candidate.url)
        await self._store.notify("seed_redirect", candidate.host, "a seed redirects here", candidate.url, now_us)

    async def _bring_nearer(self, candidates: Sequence[Candidate], results: Sequence[AdmitResult]) -> None:
        """Part of step 4: a stored document that turned out to be nearer to a seed is parsed again for its links."""
        for candidate, result in zip(candidates, results, strict=True):
            if result is AdmitResult.NEARER:
                for job in await nearer_jobs(self._store, candidate.fp, self._crawl, self._clock.wall_us()):
                    self._crashpoint("admit.nearer.before")
                    await self._store.put_job(job)
                    self._crashpoint("admit.nearer.after")
        if self._nearest is not None:
            self._nearest.add((candidate.fp, candidate.depth) for candidate in candidates)

    async def _mark(self, candidates: Sequence[Candidate], results: Sequence[AdmitResult]) -> None:
        """Step 5, after the rows: never a mark without a row."""
        if not candidates:
            return
        self._crashpoint("admit.seen.before")
        await self._seen.mark(
            [row.fp for row, result in zip(candidates, results, strict=True) if result is not AdmitResult.CLASH]
        )
        self._crashpoint("admit.seen.after")

    async def _count(self, rejects: Sequence[Reject]) -> None:
        """Links that the rules turned away have no row; they are counted, so that nothing vanishes silently."""
        if not rejects:
            return
        self._crashpoint("admit.count.before")
        await self._store.count_rejects(rejects)
        self._crashpoint("admit.count.after")

    async def _commit(self, positions: Sequence[Position]) -> None:
        """Step 6, last."""
        self._crashpoint("admit.commit.before")
        await self._consumer.commit(positions)
        self._crashpoint("admit.commit.after")

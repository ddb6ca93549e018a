"""The parser: from a body to its links, once per (fingerprint, fetch time, parser version).

Reads `document.fetched` and exactly the record it names; writes `links.discovered`, parse outputs and parse jobs. It
may be killed at any instant: the offset is committed last.

1 receive · 2 read and verify · 3 parse · 4 publish · 5 accept · 6 commit.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from limpet.bus import Consumer, Message, Position, Producer
from limpet.clock import Clock
from limpet.config import Settings
from limpet.model.events import (
    LINKS_DISCOVERED,
    DocumentFetched,
    Link,
    LinksDiscovered,
    PageLinks,
    decode_fetched,
    encode,
)
from limpet.model.urls import split
from limpet.parser.decode import DecodeLimits
from limpet.parser.kept import KeptBodies
from limpet.parser.long import read_long
from limpet.parser.page import (
    PARSER_VERSION,
    RECORD_BYTES_MAX,
    HeavyBodyError,
    Parsed,
    ParseError,
    TooLargeError,
    parse_member,
    parse_stream,
    payload_bytes_max,
    was_needed,
)
from limpet.parser.wants import NAVIGATION_ONLY, Wants
from limpet.runtime import InlineRunner, Mortality, Runner
from limpet.runtime.insist import insist
from limpet.segments import SegmentStore
from limpet.urlstore import Job, ParseOutput, Reject, UrlStore
from limpet.warc import RecordStream

IDLE_SECONDS = 0.25
PORTION_BYTES_MIN = 2_000_000
BACKLOG_SECONDS = 0.25
HEAVY_LINKS_MIN = 10_000
SERVERS_KNOWN_MAX = 4_096


class Marks(Protocol):
    """Attempt marks of the uncommitted span after an unclean start: poison cannot loop, two kills park nothing."""

    async def mark(self, position: Position) -> int:
        """Durably count one more attempt at the message; the count."""
        ...

    async def acquit(self, position: Position) -> None:
        """The message killed nobody: its attempts are forgotten."""
        ...


Page = tuple[DocumentFetched, Parsed]
"""A document, at the depth it has now, and what was found in it."""


class Parsing(msgspec.Struct, frozen=True):
    """One message on its way through the steps. `page` None: somebody was first, or a job takes over."""

    position: Position
    page: Page | None


class Parser:
    """Serves one partition."""

    def __init__(
        self,
        *,
        store: UrlStore,
        consumer: Consumer,
        producer: Producer,
        segments: SegmentStore,
        partition_of: Callable[[str], int],
        marks: Marks,
        suspect: Mapping[int, int],
        alone: asyncio.Lock,
        cleared: Callable[[], None] = lambda: None,
        clock: Clock,
        mortality: Mortality,
        settings: Settings,
        crawl: str,
        wants: Wants = NAVIGATION_ONLY,
        depth_counts: bool = False,
        in_scope: Callable[[str], bool] = lambda _url: True,
        kept: KeptBodies | None = None,
        runner: Runner | None = None,
        learn: Callable[[], Awaitable[None]] | None = None,
        reads_at_once: int = 1,
        jobs_seconds: float = 0.0,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """`learn` brings `in_scope` up to date where others add seeds; records of a batch are read `reads_at_once`.

        After a look that found no job the next one is `jobs_seconds` later, since looks may cost a question.
        """
        self._store = store
        self._consumer = consumer
        self._producer = producer
        self._segments = segments
        self._partition_of = partition_of
        self._partitions: dict[str, int] = {}  # scheme, host and port -> partition, as asked before
        self._marks = marks
        self._suspect = dict(suspect)  # source -> first offset beyond the span of an unclean start
        self._alone = alone  # one for all parsers of a process: whoever parses a suspect is alone in it
        self._cleared = cleared  # told when no suspect is left
        self._clock = clock
        self._crashpoint = mortality.crashpoint
        self._settings = settings
        self._crawl = crawl
        self._wants = wants
        self._depth_counts = depth_counts  # the crawl has a limit of depth
        self._runner = runner or InlineRunner()  # where long bodies are parsed, so that others go on meanwhile
        self._kept = kept  # bodies that the crawl node of this process has decoded
        self._learn = learn
        self._jobs_seconds = jobs_seconds
        self._idle_seconds = idle_seconds
        self._look_at = 0.0  # monotonic second from which on jobs are looked for
        self._reads = asyncio.Semaphore(reads_at_once)
        self._reads_at_once = reads_at_once
        self._in_scope = in_scope  # of pages of this partition, whose seeds are known here and nowhere else

    async def run(self, stop: asyncio.Event) -> None:
        """Parse until `stop`; what was received is finished first."""
        while not stop.is_set():
            if self._producer.backlog() > self._settings.work.log_backlog_max:
                await self._clock.sleep(BACKLOG_SECONDS)
                continue
            if not await self.step() and not await self._look_for_jobs():
                await self._consumer.wait(self._idle_seconds)

    async def step(self) -> int:
        """One batch through all steps; the number of messages it held."""
        messages = await self._consumer.receive(1 if self._suspect else self._settings.work.parse_batch_max)
        if not messages:
            self._clear_if_passed()
            return 0
        if self._is_suspect(messages[0].position):
            async with self._alone:
                if not await self._poison(messages[0]):
                    await self._finish(await self._parse_all(messages), messages[0].position)
            return 1
        self._clear_if_passed()
        async with self._alone:
            parsings = await self._parse_all(messages)
        await self._finish(parsings)
        return len(messages)

    async def _look_for_jobs(self) -> int:
        if self._clock.monotonic() < self._look_at:
            return 0
        found = await self.run_jobs()
        self._look_at = 0.0 if found else self._clock.monotonic() + self._jobs_seconds
        return found

    async def run_jobs(self) -> int:
        """Later attempts, claimed like URLs; the number of jobs tried."""
        now_us = self._clock.wall_us()
        lease_us = now_us + int(self._settings.work.lease_seconds * 1e6)
        jobs = await self._store.claim_jobs(limit=1, now_us=now_us, lease_us=lease_us)
        for job in jobs:
            event = await self._placed(decode_fetched(job.event))
            if job.attempt > self._settings.retries.parse_attempts_max:  # the last one's holder died of it
                await self._defer(job.event, event, job.attempt, "suspected_poison", job.token)
                continue
            async with self._alone:
                parsed = await self._try(event)
            if isinstance(parsed, Parsed):
                positions = await self._publish([(event, parsed)])
                await self._accept([self._output(event, parsed, positions.get(event.fp, ()))], job)
            else:
                await self._defer(job.event, event, job.attempt + 1, str(parsed), job.token)
        return len(jobs)

    def _clear_if_passed(self) -> None:
        """Back to whole batches once every suspect is committed."""
        if self._suspect and all(self._consumer.uncommitted().get(s, 0) >= end for s, end in self._suspect.items()):
            self._suspect.clear()
            self._cleared()

    def _is_suspect(self, position: Position) -> bool:
        return position.offset < self._suspect.get(position.source, 0)

    async def _poison(self, message: Message) -> bool:
        """Count an attempt at a message of the suspect span; the third death alone sends it to review.

        A mark may stand only while nothing else is parsed in this process: until it is taken away, a death is laid at
        the message's door.
        """
        self._crashpoint("parse.mark.before")
        attempts = await self._marks.mark(message.position)
        self._crashpoint("parse.mark.after")
        if attempts <= self._settings.retries.parse_attempts_max:
            return False
        event = decode_fetched(message.payload)
        attempt = self._settings.retries.parse_attempts_max + 1
        await self._defer(message.payload, event, attempt, "suspected_poison", b"")
        await self._commit([message.position])
        return True

    async def _parse_all(self, messages: Sequence[Message]) -> list[Parsing]:
        if self._reads_at_once == 1:
            return [await self._parse(message) for message in messages]
        parsings = [asyncio.ensure_future(self._parse_in_turn(message)) for message in messages]
        try:
            return await asyncio.gather(*parsings)
        finally:
            for parsing in parsings:
                parsing.cancel()  # of those that one failed among
            await asyncio.gather(*parsings, return_exceptions=True)

    async def _parse_in_turn(self, message: Message) -> Parsing:
        async with self._reads:
            return await self._parse(message)

    async def _finish(self, parsings: Sequence[Parsing], suspect: Position | None = None) -> None:
        """Steps 4 to 6."""
        await self._emit([parsing.page for parsing in parsings if parsing.page is not None], suspect)
        await self._commit([parsing.position for parsing in parsings])

    async def _emit(self, pages: Sequence[Page], suspect: Position | None = None) -> None:
        """Steps 4 and 5. A suspect is acquitted in the same group commit that makes its links durable."""
        if suspect is None:
            positions = await self._publish(pages)
        else:
            positions, _ = await asyncio.gather(self._publish(pages), self._acquit(suspect))
        if not pages:
            return
        await self._count(pages)
        outputs = [self._output(event, parsed, positions.get(event.fp, ())) for event, parsed in pages]
        accepted = await self._accept(outputs, None)
        if self._depth_counts:
            outdated = [event for (event, _), taken in zip(pages, accepted, strict=True) if not taken]
            await self._emit_again(outdated)

    async def _emit_again(self, outdated: Sequence[DocumentFetched]) -> None:
        """Those that came nearer to a seed between parse and acceptance, if that is why they were not accepted."""
        fresh = [
            event for event in outdated if await self._store.output(event.fp, event.fetched_us, PARSER_VERSION) is None
        ]
        pages = [page for event in fresh if (page := await self._attempt(event)) is not None]
        if pages:
            await self._emit(pages)

    async def _acquit(self, position: Position) -> None:
        """What a body could do to the process it has done by now: a death from here on is not its own.

        Kills from outside hit whoever is being parsed, and after a start that is the same page again and again.
        """
        self._crashpoint("parse.acquit.before")
        await self._marks.acquit(position)
        self._crashpoint("parse.acquit.after")

    async def _parse(self, message: Message) -> Parsing:
        event = decode_fetched(message.payload)
        if await self._store.output(event.fp, event.fetched_us, PARSER_VERSION) is not None:
            return Parsing(message.position, None)  # someone was first
        return Parsing(message.position, await self._attempt(event))

    async def _attempt(self, event: DocumentFetched) -> Page | None:
        """Steps 2 and 3 for the document where it is now; None when it became a job."""
        event = await self._placed(event)
        parsed = await self._try(event)
        if isinstance(parsed, Parsed):
            return event, parsed
        await self._defer(encode(event), event, 2, str(parsed), b"")
        return None

    async def _placed(self, event: DocumentFetched) -> DocumentFetched:
        """The document where it is now: since it was fetched, a shorter way to it may have been found."""
        row = await self._store.row(event.fp) if self._depth_counts else None
        if row is None or row.depth >= event.depth:
            return event
        return msgspec.structs.replace(event, depth=row.depth, hops=row.hops)

    def _output(
        self, event: DocumentFetched, parsed: Parsed, positions: tuple[tuple[int, int, int], ...]
    ) -> ParseOutput:
        return ParseOutput(
            fp=event.fp,
            fetched_us=event.fetched_us,
            parser_version=PARSER_VERSION,
            links=len(parsed.links),
            positions=positions,
            flags=parsed.flags,
            depth=event.depth if self._depth_counts else 0,
        )

    async def _try(self, event: DocumentFetched) -> Parsed | ParseError:
        """Steps 2 and 3. Whatever a body does to the parser is that body's own outcome."""
        if event.location.length > RECORD_BYTES_MAX:
            return await self._try_long(event)
        try:
            member = await self._segments.read(event.location)
        except (KeyError, ValueError) as error:
            return ParseError(f"unreadable record: {error}")
        try:
            return self._read(member, event, light=True)
        except HeavyBodyError:
            try:
                return await self._runner.run(lambda: self._read(member, event, light=False))
            except TooLargeError:
                return await self._try_long(event)
        except TooLargeError:
            return await self._try_long(event)

    def _read(self, member: bytes, event: DocumentFetched, *, light: bool) -> Parsed | ParseError:
        """Step 3. `light` says that the event loop is waiting; raises `HeavyBodyError` only then. `TooLargeError`."""
        try:
            return parse_member(
                member,
                event,
                links_max=self._settings.rules.page_links_max,
                limits=DecodeLimits(),
                wants=self._wants,
                kept=self._kept if light else None,
                light=light,
            )
        except ParseError as error:
            return error
        except (HeavyBodyError, TooLargeError):
            raise
        except Exception as error:  # noqa: BLE001 - a fault of ours on hostile bytes becomes a job, not a dead worker
            return ParseError(f"parser fault: {type(error).__name__}: {error}")

    async def _try_long(self, event: DocumentFetched) -> Parsed | ParseError:
        """The same for a record that is read as a stream, no further than it is parsed."""
        payload_max = payload_bytes_max(event, DecodeLimits(), self._wants)
        try:
            stream = await read_long(self._segments, event.location, payload_max, self._clock)
        except (KeyError, ValueError) as error:
            return ParseError(f"unreadable record: {error}")
        return await self._runner.run(lambda: self._read_long(stream, event))

    def _read_long(self, stream: RecordStream, event: DocumentFetched) -> Parsed | ParseError:
        try:
            links_max = self._settings.rules.page_links_max
            return parse_stream(stream, event, links_max=links_max, limits=DecodeLimits(), wants=self._wants)
        except ParseError as error:
            return error
        except Exception as error:  # noqa: BLE001 - see _read
            return ParseError(f"parser fault: {type(error).__name__}: {error}")

    async def _count(self, pages: Sequence[Page]) -> None:
        """Links beyond the bounds of one page are no links of the event; they are counted, so that none is silent."""
        rejects = [
            Reject(host=split(event.url).host, rule=rule, count=count, sample=event.url)
            for event, parsed in pages
            for rule, count in parsed.left_out
        ]
        if rejects:
            await self._store.count_rejects(rejects)

    async def _publish(self, pages: Sequence[Page]) -> dict[bytes, tuple[tuple[int, int, int], ...]]:
        """Step 4: links of many pages, one message a target partition, bounded. fp -> positions of its messages."""
        if self._learn is not None and any(self._is_stray(event) for event, _ in pages):
            await self._learn()  # nothing is called stray that a new seed has brought into scope
        if sum(len(parsed.links) for _, parsed in pages) > HEAVY_LINKS_MIN:
            messages, owners = await self._runner.run(lambda: self._messages(pages))
        else:
            messages, owners = self._messages(pages)
        if not messages:
            return {}
        self._crashpoint("parse.publish.before")
        positions = [position for part in _in_portions(messages) for position in await self._insist(part)]
        self._crashpoint("parse.publish.after")
        found: dict[bytes, tuple[tuple[int, int, int], ...]] = {}
        for position, fps in zip(positions, owners, strict=True):
            for fp in fps:
                found[fp] = (*found.get(fp, ()), (position.partition, position.source, position.offset))
        return found

    def _messages(self, pages: Sequence[Page]) -> tuple[list[tuple[int, bytes]], list[list[bytes]]]:
        """Messages to publish, and whose links each of them holds."""
        messages: list[tuple[int, bytes]] = []
        owners: list[list[bytes]] = []
        for partition, group in self._by_partition(pages):
            event = LinksDiscovered(crawl=self._crawl, pages=tuple(group))
            messages.append((partition, encode(event)))
            owners.append([page.fp for page in group])
        return messages, owners

    async def _insist(self, messages: Sequence[tuple[int, bytes]]) -> list[Position]:
        """Publish until it holds: a bus that is down stops the parser, and nobody else."""
        return await insist(lambda: self._producer.publish(LINKS_DISCOVERED, messages), self._clock)

    def _by_partition(self, pages: Sequence[Page]) -> list[tuple[int, list[PageLinks]]]:
        groups: dict[int, list[PageLinks]] = {}
        full: list[tuple[int, list[PageLinks]]] = []
        sizes: dict[int, int] = {}
        for event, parsed in pages:
            stray = self._is_stray(event)
            for partition, links in self._split(parsed.links).items():
                for start in range(0, len(links), self._settings.work.links_message_max):
                    part = links[start : start + self._settings.work.links_message_max]
                    if sizes.get(partition, 0) + len(part) > self._settings.work.links_message_max:
                        full.append((partition, groups.pop(partition)))
                        sizes[partition] = 0
                    groups.setdefault(partition, []).append(_page_links(event, part, stray))
                    sizes[partition] = sizes.get(partition, 0) + len(part)
        return full + list(groups.items())

    def _is_stray(self, event: DocumentFetched) -> bool:
        return was_needed(event.hops) and not self._in_scope(event.url)

    def _split(self, links: Sequence[Link]) -> dict[int, list[Link]]:
        split: dict[int, list[Link]] = {}
        known = self._partitions
        for link in links:
            url = link.url
            server = url[: url.find("/", 8)]  # canonical: it has a path, behind "http://" or "https://"
            partition = known.get(server)
            if partition is None:
                if len(known) >= SERVERS_KNOWN_MAX:
                    known.clear()
                partition = known[server] = self._partition_of(url)
            split.setdefault(partition, []).append(link)
        return split

    async def _accept(self, outputs: Sequence[ParseOutput], job: Job | None) -> list[bool]:
        """Step 5: once per key; zero rows means that someone was first, and that is fine."""
        self._crashpoint("parse.accept.before")
        accepted = await self._store.accept_outputs(outputs, job)
        self._crashpoint("parse.accept.after")
        return accepted

    async def _commit(self, positions: Sequence[Position]) -> None:
        """Step 6, last."""
        self._crashpoint("parse.commit.before")
        await self._consumer.commit(positions)
        self._crashpoint("parse.commit.after")

    async def _defer(self, payload: bytes, event: DocumentFetched, attempt: int, reason: str, token: bytes) -> None:
        """What needs another attempt becomes a durable job; after the last one a person has to look."""
        policy = self._settings.retries
        last = attempt > policy.parse_attempts_max
        now_us = self._clock.wall_us()
        delay_us = int(policy.base_seconds * policy.factor ** max(0, attempt - 2) * 1e6)
        job = Job(
            fp=event.fp,
            fetched_us=event.fetched_us,
            event=payload,
            attempt=attempt,
            due_us=now_us + delay_us,
            reason=reason,
            token=token,
            state="review" if last else "open",
        )
        if last:  # first: a death in between tells people twice, never not at all
            self._crashpoint("parse.notify.before")
            await self._store.notify("parse_review", "", reason, event.url, now_us)
            self._crashpoint("parse.notify.after")
        self._crashpoint("parse.job.before")
        await self._store.put_job(job)
        self._crashpoint("parse.job.after")


def _in_portions(messages: Sequence[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    """The messages, as many at a time as the event loop may be held up for: those of a sitemap may take 50 MB."""
    part: list[tuple[int, bytes]] = []
    size_bytes = 0
    for message in messages:
        part.append(message)
        size_bytes += len(message[1])
        if size_bytes >= PORTION_BYTES_MIN:
            yield part
            part, size_bytes = [], 0
    if part:
        yield part


def _page_links(event: DocumentFetched, links: Sequence[Link], stray: bool) -> PageLinks:
    return PageLinks(
        fp=event.fp,
        fetched_us=event.fetched_us,
        url=event.url,
        depth=event.depth,
        hops=event.hops,
        seed=event.seed,
        stray=stray or msgspec.UNSET,
        links=tuple(links),
    )

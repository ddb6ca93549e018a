"""After a death: what the dead left half done, found from the authority and the archive alone.

No worker reports its own death. In order: hosts that may still have been answering are made to wait; the segments of
dead incarnations are cut to their last whole capture, intact records without an outcome are published and adopted, and
the segment is sealed; leases are ended last, so that what was adopted is not fetched again. Every step may be repeated:
a death inside recovery is recovered from by the next one.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from limpet.bus import Producer
from limpet.clock import Clock
from limpet.config import Facts, Settings
from limpet.fetch import Capture, Head
from limpet.model.events import DOCUMENT_FETCHED, encode
from limpet.model.lifecycle import State
from limpet.model.verdict import Verdict, classify, is_redirect
from limpet.politeness import Governor, hold_unfinished
from limpet.reconciler.orphans import fp_of, is_robots, observed, robots_fetch_of
from limpet.robots import stored_delay
from limpet.runtime import Mortality
from limpet.segments import Location, SegmentInfo, SegmentStore, Settled
from limpet.urlstore import DAMAGED_SEGMENT, AuthorityRow, HostRow, UrlStore
from limpet.urlstore.facts import event_of
from limpet.warc import (
    CaptureGrouper,
    CaptureSpan,
    CaptureView,
    Record,
    RecordStream,
    Scanner,
    WarcError,
    capture_of,
    index_line,
    index_of,
    line_of,
    long_capture_of,
    parse_fields,
    parse_record,
    parse_segment_name,
)

READ_BYTES = 1_048_576
ADOPTIONS_MAX = 64  # that share their commits
ADOPTIONS_BYTES_MAX = 8_388_608
RECORD_BYTES_MAX = 4_194_304  # longer ones are read as streams
LONG_PAYLOAD_BYTES_MAX = 20_000_000  # kept of those: what a decoder is given


class _Found(msgspec.Struct):
    """What a scan found: the end of the last whole capture, bytes in all, index lines up to that end, orphans."""

    whole_bytes: int
    size_bytes: int
    lines: list[bytes]
    orphans: list[CaptureSpan]


class RecoveryReport(msgspec.Struct):
    """What one recovery did."""

    segments: int = 0
    cut_bytes: int = 0
    adopted: int = 0
    interrupted: int = 0
    poisoned: int = 0


class Recovery:
    """Recovers the shards in `stores` from the death of their last owner."""

    def __init__(
        self,
        *,
        stores: Mapping[int, UrlStore],
        producers: Mapping[int, Producer],
        segments: SegmentStore,
        governor: Governor,
        shard_of: Callable[[str], int],
        coding_is_cut: Callable[[bytes, bytes | None], bool],
        clock: Clock,
        mortality: Mortality,
        settings: Settings,
        facts: Facts,
    ) -> None:
        self._stores = stores
        self._producers = producers
        self._segments = segments
        self._governor = governor
        self._shard_of = shard_of
        self._coding_is_cut = coding_is_cut
        self._clock = clock
        self._crashpoint = mortality.crashpoint
        self._settings = settings
        self._facts = facts

    async def run(self, incarnations: frozenset[str] | None = None) -> RecoveryReport:
        """Recover; with `incarnations`, only the segments of those dead writers are looked at."""
        report = RecoveryReport()
        await self._hold_hosts()
        for info in await self._segments.infos():
            if not info.sealed and not info.live and _written_by(info.name, incarnations):
                await self.segment(info, report)
        await self._end_leases(report)
        return report

    async def _hold_hosts(self) -> None:
        """A host with an unfinished lease may still be answering: it waits two gaps, and that outlives us too."""
        for store in self._stores.values():
            await hold_unfinished(
                store,
                self._governor,
                know=partial(self._governor.load, read=store.host),
                delay_of=self._crawl_delay,
                persist=partial(self._put_hosts, store),
            )

    async def _put_hosts(self, store: UrlStore, rows: Sequence[HostRow]) -> None:
        self._crashpoint("recover.waits.before")
        await asyncio.gather(*(store.put_host(row) for row in rows))
        self._crashpoint("recover.waits.after")

    def _crawl_delay(self, authority: AuthorityRow) -> float | None:
        """The gap counts as the site wants it, and the site may want more than we do."""
        return stored_delay(authority.robots, self._facts.agent)

    async def segment(self, info: SegmentInfo, report: RecoveryReport) -> None:
        """Cut, adopt, seal one segment of a dead writer."""
        found = await self._scan(info)
        torn = found.size_bytes > found.whole_bytes
        kept = await self._recorded(info.name, found.whole_bytes) if torn else []
        if kept:
            await self._keep_damaged(info.name, found, kept)
        else:
            self._crashpoint("recover.cut.before")
            if not await self._segments.recover(info.name, found.whole_bytes):
                return  # its writer lives after all
            self._crashpoint("recover.cut.after")
            report.cut_bytes += max(0, found.size_bytes - found.whole_bytes)
        for batch in _batches(found.orphans):
            report.adopted += sum(await asyncio.gather(*(self._adopt(info.name, span) for span in batch)))
        self._crashpoint("recover.seal.before")
        await self._segments.seal(info.name, index_of(found.lines))
        self._crashpoint("recover.seal.after")
        report.segments += 1

    async def _scan(self, info: SegmentInfo) -> "_Found":
        """Read what is not settled: its index lines, its orphans, and where the last whole capture ends."""
        settled = await self._segments.settled(info.name)
        if settled.offset > info.size_bytes:
            settled = Settled()  # the hint survived what it speaks of
        offset = settled.offset
        scanner, grouper = Scanner(offset), CaptureGrouper(offset)
        lines = [(offset, line) for line in settled.lines]
        orphans: list[CaptureSpan] = []
        while data := await self._segments.read_raw(info.name, offset, READ_BYTES):
            offset += len(data)
            for member in scanner.feed(data):
                line = line_of(member, info.name)
                if line is not None:
                    lines.append((member.end, line))
                span = grouper.add(member)
                if span is not None and await self._is_orphan(span):
                    orphans.append(span)
        whole_bytes = grouper.whole_bytes
        return _Found(whole_bytes, offset, [line for end, line in lines if end <= whole_bytes], orphans)

    async def _recorded(self, name: str, offset: int) -> list[Location]:
        """Acknowledged records beyond `offset`: there are none, unless the disk damaged what lies before them."""
        return [location for store in self._stores.values() for location in await store.recorded(name, offset)]

    async def _keep_damaged(self, name: str, found: "_Found", kept: list[Location]) -> None:
        """Damage in front of acknowledged records is no torn tail: nothing is cut, and a person is told."""
        for location in sorted(kept):
            try:
                line = index_line(await self._segments.read(location), name, location.offset)
            except (WarcError, ValueError):
                continue  # damaged itself; verify will name it
            if line is not None:
                found.lines.append(line)
        store = next(iter(self._stores.values()))
        await store.notify(DAMAGED_SEGMENT, "", f"{name} at byte {found.whole_bytes}", name, self._clock.wall_us())

    async def _is_orphan(self, span: CaptureSpan) -> bool:
        fields = parse_fields(span.metadata.block_start)
        response = span.response.header
        store = self._store_of(response.uri)
        if store is None:
            return False
        if is_robots(fields):
            return not await store.has_robots_fetch(response.uri, response.date_us)
        return not await store.has_outcome(fp_of(fields), response.date_us)

    def _store_of(self, url: str) -> UrlStore | None:
        try:
            return self._stores.get(self._shard_of(url))
        except ValueError:
            return None

    async def _adopt(self, name: str, span: CaptureSpan) -> int:
        """Publish, then insert the outcome if it is absent, in the order of a living node; 1 if adopted.

        A death in between publishes twice, which the parser takes once. The other order would leave an outcome that
        nobody parses until the reconciler looks, and a crawl that calls itself done before.
        """
        try:
            view = await self._view(name, span)
        except (WarcError, ValueError):
            return 0
        store, location = self._store_of(view.url), Location(name, span.response.offset, span.response.length)
        if store is not None and is_robots(view.fields):
            return await self._adopt_robots(store, view, location)
        row = await store.row(fp_of(view.fields)) if store is not None else None
        if store is None or row is None or view.revisits is not None:
            return 0  # a revisit without an outcome: the URL is simply due again
        verdict = self._judge(view)
        if verdict.state not in {State.FETCHED, State.GONE}:
            return 0  # an attempt that settles nothing: the URL is simply due again
        page = verdict.page and not is_redirect(view.status)
        outcome = msgspec.structs.replace(observed(view, row.fp, location), page=page)
        if verdict.state is State.FETCHED:
            self._crashpoint("recover.publish.before")
            event = event_of(outcome, row, self._facts.crawl)
            await self._producers[store.shard].publish(DOCUMENT_FETCHED, [(store.shard, encode(event))])
            self._crashpoint("recover.publish.after")
        self._crashpoint("recover.adopt.before")
        adopted = await store.adopt(outcome, verdict.state, verdict.reason, self._clock.wall_us())
        self._crashpoint("recover.adopt.after")
        return int(adopted)

    async def _adopt_robots(self, store: UrlStore, view: CaptureView, location: Location) -> int:
        """The line of a robots.txt. Its rules are asked for anew: nobody knows which authority they were for."""
        self._crashpoint("recover.line.before")
        adopted = await store.put_robots_fetch(robots_fetch_of(view, location))
        self._crashpoint("recover.line.after")
        return int(adopted)

    async def _view(self, name: str, span: CaptureSpan) -> CaptureView:
        """The capture as its records tell it; a long one is read as a stream. Raises WarcError, ValueError."""
        metadata = await self._record(name, span.metadata.offset, span.metadata.length)
        if span.response.header.block_bytes <= RECORD_BYTES_MAX:
            response = await self._record(name, span.response.offset, span.response.length)
            return capture_of([response, metadata])
        stream = RecordStream(LONG_PAYLOAD_BYTES_MAX)
        offset, end = span.response.offset, span.response.offset + span.response.length
        while offset < end:
            data = await self._segments.read_raw(name, offset, min(READ_BYTES, end - offset))
            if not data:
                break
            offset += len(data)
            stream.feed(data)
            await self._clock.sleep(0)
        return long_capture_of(stream, metadata)

    async def _record(self, name: str, offset: int, length: int) -> Record:
        return parse_record(await self._segments.read(Location(name, offset, length)), block_bytes_max=RECORD_BYTES_MAX)

    def _judge(self, view: CaptureView) -> Verdict:
        head = Head(status=view.status, headers=view.headers)
        capture = Capture(
            url=view.url,
            head=head,
            truncated="disconnect" if view.truncated == "disconnect" else "length" if view.truncated else None,
        )
        page = 200 <= view.status < 300 and not view.truncated
        return classify(
            capture,
            failures=0,
            now_us=self._clock.wall_us(),
            policy=self._settings.retries,
            jitter=0.0,
            coding_cut=page and self._coding_is_cut(view.payload, head.get(b"content-encoding")),
        )

    async def _end_leases(self, report: RecoveryReport) -> None:
        """Interruptions are counted apart from failures; the fifth one alone is no accident."""
        now_us = self._clock.wall_us()
        for store in self._stores.values():
            self._crashpoint("recover.expire.before")
            ended = await store.expire(now_us, dead=True, poison_after=self._settings.retries.interruptions_alone_max)
            self._crashpoint("recover.expire.after")
            report.interrupted += len(ended)
            report.poisoned += sum(state is State.REVIEW for _, state in ended)


def _batches(orphans: Sequence[CaptureSpan]) -> Iterator[list[CaptureSpan]]:
    """Orphans to adopt side by side: so many that they share commits, so few that memory holds their records."""
    batch: list[CaptureSpan] = []
    size_bytes = 0
    for span in orphans:
        if batch and (len(batch) == ADOPTIONS_MAX or size_bytes + span.response.length > ADOPTIONS_BYTES_MAX):
            yield batch
            batch, size_bytes = [], 0
        batch.append(span)
        size_bytes += span.response.length
    if batch:
        yield batch


def _written_by(name: str, incarnations: frozenset[str] | None) -> bool:
    parsed = parse_segment_name(name)
    return incarnations is None or (parsed is not None and parsed.incarnation in incarnations)

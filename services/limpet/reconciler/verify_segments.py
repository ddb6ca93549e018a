"""The archive against the rows: every outcome's record, every record's outcome, segment by segment."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping

import msgspec

from limpet.config import Facts
from limpet.model.identity import bucket_of, shard_of
from limpet.model.urls import InvalidUrl, split
from limpet.reconciler.archive_walk import Archive, Damage, Replica, Segment, Walk
from limpet.reconciler.kinds import VerifyKind as Kind
from limpet.reconciler.places import Places
from limpet.reconciler.report import Collector
from limpet.reconciler.snapshot import Snapshot
from limpet.reconciler.verify_index import IndexCheck
from limpet.reconciler.verify_records import ROBOTS, Claimed, RecordCheck, Whole, check_metadata
from limpet.reconciler.verify_replicas import check_indexes, check_replicas
from limpet.reconciler.verify_revisits import RevisitCheck
from limpet.reconciler.verify_rows import decode_outcome
from limpet.warc import Member
from limpet.warc.cdxj import is_indexed


class SegmentCheck:
    """Checks segments, one after the other. `shards` answers what becomes of a record that no outcome names."""

    def __init__(
        self,
        *,
        archive: Archive,
        places: Places,
        shards: Mapping[int, Snapshot],
        facts: Facts,
        running: bool,
        out: Collector,
    ) -> None:
        self._archive = archive
        self._places = places
        self._shards = shards
        self._facts = facts
        self._running = running
        self._out = out
        self.revisits = RevisitCheck(archive, facts, self._owner, out)

    def run(self, segment: Segment) -> None:
        """Every check of one segment, in every directory. Raises OSError when it cannot be read."""
        acknowledged_bytes = self._places.end(segment.name)
        differing = check_replicas(self._archive, segment, acknowledged_bytes, self._out)
        index = check_indexes(self._archive, segment, self._out) if segment.sealed else None
        lines = IndexCheck(segment.name, index, self._out) if index is not None else None
        first = segment.replicas[0]
        _SegmentWalk(self, segment, first, lines).run()
        for replica in differing:
            self._copy(segment, replica)
        self._out.checked["segments"] += 1
        self._out.checked["bytes"] += first.size_bytes

    def claims(self, segment: str) -> Iterator[Claimed]:
        """What outcomes say of a segment, by offset."""
        for place in self._places.of(segment):
            shard, outcome = self._shards.get(place.shard), None
            # What is wrong with an outcome or a shard that cannot be read was found with the rows.
            with contextlib.suppress(msgspec.MsgspecError, sqlite3.Error):
                row = shard.one("outcome", (place.seq,)) if shard is not None else None
                outcome = decode_outcome(row[0]) if row is not None else None
            yield Claimed(place, outcome)

    def next_known(self, segment: str, lines: IndexCheck | None) -> Callable[[int], int | None]:
        """Where the next response begins behind an offset, as far as a row or the index knows."""

        def find(offset: int) -> int | None:
            known = [place] if (place := self._places.next_after(segment, offset)) is not None else []
            known += [at for at in (lines.offsets() if lines is not None else ()) if at > offset]
            return min(known, default=None)

        return find

    def unclaimed(self, segment: Segment, whole: Whole) -> None:
        """A capture that no outcome names."""
        header, at = whole.response.header, f"{segment.name}+{whole.response.offset}"
        if whole.fields.get("limpet-kind") == ROBOTS:
            self._out.checked["robots"] += 1
            return
        try:
            self._judge_unclaimed(segment, whole, at)
        except sqlite3.Error as error:
            self._out.find(Kind.STORE_DAMAGED, header.uri, f"its row cannot be looked up: {error}")

    def _judge_unclaimed(self, segment: Segment, whole: Whole, at: str) -> None:
        header = whole.response.header
        shard, fp = self._owner(header.uri), _bytes(whole.fields.get("limpet-fp", ""))
        if shard is None:
            self._out.find(Kind.BAD_RECORD, at, f"{header.uri} is no URL of this crawl")
        elif shard.one("row_exists", (fp,)) is None:
            self._out.find(Kind.LOST_ROW, header.uri, f"fetched at {header.get('WARC-Date')}, record {at}")
        elif shard.one("outcome_of", (fp, header.date_us)) is not None:
            self._out.note(Kind.DUPLICATE_RECORD, at, f"{header.uri}: its outcome names another copy")
        elif self._running and not segment.sealed:
            self._out.checked["in_flight"] += 1
        else:
            self._out.note(Kind.ADOPTABLE, at, f"{header.uri} of {header.get('WARC-Date')} has no outcome")

    def torn(self, segment: Segment, offset: int, reason: str) -> None:
        """The end of a segment that is not sealed, behind everything acknowledged, is no whole capture."""
        if not self._running:
            detail = f"{segment.replicas[0].size_bytes - offset} bytes: {reason}"
            self._out.note(Kind.TORN_TAIL, f"{segment.name}+{offset}", detail)

    def unsealed(self, segment: Segment) -> None:
        """Say that a segment is not sealed."""
        if self._running:
            self._out.checked["open_segments"] += 1
        else:
            detail = f"{segment.replicas[0].size_bytes} bytes; the next run recovers it"
            self._out.note(Kind.UNSEALED, segment.name, detail)

    @property
    def out(self) -> Collector:
        """Where findings go."""
        return self._out

    @property
    def archive(self) -> Archive:
        """What is checked."""
        return self._archive

    def acknowledged_bytes(self, segment: str) -> int:
        """Where the last acknowledged response of a segment ends."""
        return self._places.end(segment)

    def _owner(self, url: str) -> Snapshot | None:
        try:
            host = split(url).host
        except InvalidUrl:
            return None
        return self._shards.get(shard_of(bucket_of(host, self._facts.buckets), self._facts.shards))

    def _copy(self, segment: Segment, replica: Replica) -> None:
        """A copy that differs from the first: is it intact in itself?"""
        read = self._archive.reader(segment, replica)
        label = f"{replica.folder.name}/{segment.name}"
        records = RecordCheck(segment.name, read, self._out, label)
        end = self.acknowledged_bytes(segment.name)
        for item in Walk([read], replica.size_bytes, self.next_known(segment.name, None)):
            if isinstance(item, Member):
                records.take(item, None)
            else:
                records.interrupt(forgive=True)
                if segment.sealed or item.offset < end:
                    self._out.find(Kind.DAMAGED, f"{label}+{item.offset}", item.reason)


class _SegmentWalk:
    """One walk over the first copy of a segment, with the places that outcomes name walked beside it."""

    def __init__(self, check: SegmentCheck, segment: Segment, replica: Replica, lines: IndexCheck | None) -> None:
        self._check = check
        self._segment = segment
        self._lines = lines
        self._size_bytes = replica.size_bytes
        self._acknowledged_bytes = check.acknowledged_bytes(segment.name)
        self._read = check.archive.reader(segment, replica)
        self._records = RecordCheck(segment.name, self._read, check.out)
        self._claims = check.claims(segment.name)
        self._claim = next(self._claims, None)

    def run(self) -> None:
        known = self._check.next_known(self._segment.name, self._lines)
        for item in Walk([self._read], self._size_bytes, known):
            if isinstance(item, Damage):
                self._damage(item)
            else:
                self._member(item)
        self._end()

    def _member(self, member: Member) -> None:
        claim = self._claim_at(member.offset)
        if claim is not None and member.header.type not in {"response", "revisit"}:
            self._missing(claim, f"a {member.header.type} record begins there")
            claim = None
        whole = self._records.take(member, claim)
        if self._lines is not None and is_indexed(member.header):
            self._lines.check(member)
        if member.header.type == "revisit":
            self._check.revisits.check(member, f"{self._segment.name}+{member.offset}")
        if whole is None:
            return
        if whole.claim is None:
            self._check.unclaimed(self._segment, whole)
        elif whole.claim.outcome is not None:
            for detail in check_metadata(whole, whole.claim.outcome):
                subject = f"{self._segment.name}+{whole.response.offset}"
                self._check.out.find(Kind.WRONG_RECORD, subject, f"{whole.response.header.uri}: {detail}")

    def _damage(self, damage: Damage) -> None:
        claim = self._claim_at(damage.offset)
        self._records.interrupt(forgive=True)
        if self._lines is not None:
            self._lines.forgive(damage.offset)
        if not self._segment.sealed and damage.offset >= self._acknowledged_bytes:
            self._check.torn(self._segment, damage.offset, damage.reason)
            return
        url = f", the record of {claim.outcome.url}" if claim is not None and claim.outcome is not None else ""
        on = f"; read on at {damage.resumed}" if damage.resumed is not None else "; nothing behind it can be read"
        subject = f"{self._segment.name}+{damage.offset}"
        self._check.out.find(Kind.DAMAGED, subject, f"{damage.reason}{url}{on}")

    def _end(self) -> None:
        while self._claim is not None:
            self._missing(self._claim, "the segment ends before it")
            self._claim = next(self._claims, None)
        begun = self._records.open_offset
        if not self._segment.sealed and begun is not None and begun >= self._acknowledged_bytes:
            self._records.interrupt(forgive=True)
            self._check.torn(self._segment, begun, "a capture without its metadata record")
        self._records.interrupt()
        if self._lines is not None:
            self._lines.finish()
        if not self._segment.sealed:
            self._check.unsealed(self._segment)

    def _claim_at(self, offset: int) -> Claimed | None:
        """The outcome that names `offset`; places before it that nobody met hold no record."""
        while self._claim is not None and self._claim.place.offset < offset:
            self._missing(self._claim, "no record begins there")
            self._claim = next(self._claims, None)
        if self._claim is None or self._claim.place.offset != offset:
            return None
        claim, self._claim = self._claim, next(self._claims, None)
        while self._claim is not None and self._claim.place.offset == offset:
            self._shared(self._claim)
            self._claim = next(self._claims, None)
        return claim

    def _missing(self, claim: Claimed, why: str) -> None:
        self._check.out.find(Kind.MISSING_RECORD, self._subject(claim), self._detail(claim, why))

    def _shared(self, claim: Claimed) -> None:
        self._check.out.find(Kind.SHARED_RECORD, self._subject(claim), self._detail(claim, "another outcome names it"))

    def _subject(self, claim: Claimed) -> str:
        return claim.outcome.url if claim.outcome is not None else f"shard {claim.place.shard:02d}"

    def _detail(self, claim: Claimed, why: str) -> str:
        at = f" of {claim.outcome.fetched_us}" if claim.outcome is not None else ""
        return f"its outcome{at} names {self._segment.name}+{claim.place.offset}: {why}"


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""

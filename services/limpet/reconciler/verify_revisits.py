"""Revisit records against what they refer to: a response record of the archive, with that very payload.

A replay tool follows the reference; where it leads nowhere, the content of the revisit is lost. The original is looked
up by the row of its URL, whatever segment it lies in.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from limpet.config import Facts
from limpet.model.identity import Fingerprinter, identity_key
from limpet.model.outcome import Outcome
from limpet.reconciler.archive_walk import Archive
from limpet.reconciler.kinds import VerifyKind as Kind
from limpet.reconciler.report import Collector
from limpet.reconciler.snapshot import Snapshot
from limpet.reconciler.verify_rows import decode_outcome
from limpet.warc import Member, RecordHeader, Reference, WarcError, reference_of
from limpet.warc.members import peek
from limpet.warc.parse import HEADER_BYTES_MAX, header_end, parse_header

START_BYTES: Final = 65_536
"""Of a record, compressed: enough for any header, however long the record is."""

OwnerOf = Callable[[str], Snapshot | None]
"""URL -> the shard that has its row."""


class RevisitCheck:
    """Checks one revisit at a time; `owner_of` finds the shard of a URL."""

    def __init__(self, archive: Archive, facts: Facts, owner_of: OwnerOf, out: Collector) -> None:
        self._archive = archive
        self._identity = facts.identity
        self._fingerprinter = Fingerprinter(facts.hash_seed)
        self._owner_of = owner_of
        self._out = out

    def check(self, member: Member, at: str) -> None:
        """A revisit record that was read at `at`. One that says too little was found with its fields."""
        self._out.checked["revisits"] += 1
        try:
            reference = reference_of(member.header)
        except WarcError:
            return
        fault = self._fault(reference, member.header.get("WARC-Payload-Digest"))
        if fault:
            self._out.find(Kind.DANGLING_REVISIT, at, f"{member.header.uri} revisits {reference.url}: {fault}")

    def _fault(self, reference: Reference, digest: str) -> str:
        outcome = self._outcome(reference)
        if outcome is None or outcome.location is None:
            return f"no outcome of {reference.date_us} has a record"
        header = next(self._headers(outcome), None)
        if header is None:
            return "its record cannot be read"
        if header.type != "response":
            return f"a {header.type} record is there"
        if header.id != reference.record_id or header.uri != reference.url or header.date_us != reference.date_us:
            return f"{header.id} of {header.uri} is there"
        if header.get("WARC-Payload-Digest") != digest:
            return f"its payload is {header.get('WARC-Payload-Digest')}, not {digest}"
        return ""

    def _outcome(self, reference: Reference) -> Outcome | None:
        shard = self._owner_of(reference.url)
        if shard is None:
            return None
        fp = self._fingerprinter.fingerprint(identity_key(reference.url, self._identity))
        try:
            row = shard.one("outcome_of", (fp, reference.date_us))
            return decode_outcome(row[0]) if row is not None else None
        except (sqlite3.Error, msgspec.MsgspecError):
            return None  # what is wrong with the shard was found with the rows

    def _headers(self, outcome: Outcome) -> Iterator[RecordHeader]:
        """The record's header from every copy that has it. Whether the rest is intact is asked of each record once."""
        assert outcome.location is not None
        place = outcome.location
        with contextlib.suppress(OSError):
            for start in self._archive.copies(place.segment, place.offset, min(place.length, START_BYTES)):
                with contextlib.suppress(WarcError):
                    content = peek(start, 1, HEADER_BYTES_MAX)
                    yield parse_header(content[: max(0, header_end(content))])

"""The records of one segment: intact, complete, in their order, and the ones that the rows speak of.

A capture is three records in this order: response, request, metadata; each segment begins with its warcinfo.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from limpet.model.outcome import Outcome
from limpet.reconciler.archive_walk import Read
from limpet.reconciler.kinds import VerifyKind as Kind
from limpet.reconciler.places import Place
from limpet.reconciler.report import Collector
from limpet.warc import Member, WarcError, parse_fields, parse_record, sha1_b32
from limpet.warc.verify import Expected, Finding, check_long_response, check_response

BLOCK_BYTES_MAX: Final = 1_100_000_000
IN_MEMORY_BYTES_MAX: Final = 16_777_216
SLICE_BYTES: Final = 1_048_576
ROBOTS: Final = "robots"
_RESPONSES: Final = frozenset({"response", "revisit"})
_TYPES: Final = {
    "warcinfo": "application/warc-fields",
    "response": "application/http;msgtype=response",
    "revisit": "application/http;msgtype=response",
    "request": "application/http;msgtype=request",
    "metadata": "application/warc-fields",
}
_NEEDS: Final = {
    "warcinfo": ("WARC-Filename", "WARC-Block-Digest"),
    "response": ("WARC-Target-URI", "WARC-Block-Digest", "WARC-Payload-Digest"),
    "revisit": ("WARC-Target-URI", "WARC-Block-Digest", "WARC-Payload-Digest", "WARC-Profile"),
    "request": ("WARC-Target-URI", "WARC-Block-Digest", "WARC-Concurrent-To"),
    "metadata": ("WARC-Target-URI", "WARC-Block-Digest", "WARC-Concurrent-To"),
}
_ROW_KINDS: Final = {
    "wrong_url": Kind.WRONG_RECORD,
    "wrong_date": Kind.WRONG_RECORD,
    "row_digest": Kind.WRONG_RECORD,
    "block_digest": Kind.WRONG_DIGEST,
    "payload_digest": Kind.WRONG_DIGEST,
    "gzip_header": Kind.GZIP_HEADER,
    "unreadable": Kind.DAMAGED,
    "not_a_response": Kind.WRONG_RECORD,
    "bad_revisit": Kind.BAD_RECORD,
}


class Claimed(msgspec.Struct, frozen=True):
    """A place that an outcome names, with that outcome; None when its row cannot be read."""

    place: Place
    outcome: Outcome | None


class Whole(msgspec.Struct, frozen=True):
    """A capture that was read whole. `claim` is the outcome that names it, if one does."""

    response: Member
    fields: dict[str, str]  # of the metadata record
    claim: Claimed | None


class RecordCheck:
    """Takes the members of one copy of a segment in file order. `label` names the copy in findings."""

    def __init__(self, segment: str, read: Read, out: Collector, label: str = "") -> None:
        self._segment = segment
        self._label = label or segment
        self._read = read
        self._out = out
        self._response: Member | None = None
        self._claim: Claimed | None = None
        self._request_seen = False

    def take(self, member: Member, claim: Claimed | None) -> Whole | None:
        """Check one member; `claim` is what an outcome says of it. The capture that it completes, if it does."""
        self._out.checked["records"] += 1
        kind = member.header.type
        if kind not in _NEEDS:
            self._bad(member, f"a record of type {kind!r}, which is none of ours")
            return None
        self._fields(member)
        self._bytes(member, claim)
        if kind == "warcinfo":
            self._warcinfo(member)
        elif kind in _RESPONSES:
            self.interrupt()
            self._response, self._claim, self._request_seen = member, claim, False
        elif self._belongs(member):
            return self._part(member, kind)
        return None

    def interrupt(self, *, forgive: bool = False) -> None:
        """No more records belong to the open capture: another begins, the segment ends or is damaged (`forgive`)."""
        if self._response is not None and not forgive:
            detail = f"the metadata record of {self._response.header.uri} is not behind it"
            self._out.find(Kind.INCOMPLETE_CAPTURE, self._at(self._response), detail)
        self._response = self._claim = None

    @property
    def open_offset(self) -> int | None:
        """Where the capture begins whose records have not all been read."""
        return self._response.offset if self._response is not None else None

    def _part(self, member: Member, kind: str) -> Whole | None:
        assert self._response is not None
        if kind == "request":
            self._request_seen = True
            return None
        if not self._request_seen:
            self._bad(member, "the request record is not before it")
        whole = Whole(self._response, parse_fields(self._block(member)), self._claim)
        self._response = self._claim = None
        return whole

    # -- one record ----------------------------------------------------------------------------------------------------
    def _fields(self, member: Member) -> None:
        kind, header = member.header.type, member.header
        missing = [name for name in _NEEDS.get(kind, ()) if not header.get(name)]
        if missing:
            self._bad(member, f"a {kind} record without {', '.join(missing)}")
        content_type = _TYPES.get(kind)
        if content_type is not None and header.get("Content-Type").replace(" ", "") != content_type:
            self._bad(member, f"a {kind} record of Content-Type {header.get('Content-Type')!r}")
        try:
            _ = header.date_us
        except WarcError as error:
            self._bad(member, str(error))

    def _bytes(self, member: Member, claim: Claimed | None) -> None:
        """Digests of the record itself; of a response also what the outcome says of it."""
        if member.header.type in _RESPONSES:
            self._response_bytes(member, claim)
            return
        if not member.pristine:
            self._out.find(Kind.GZIP_HEADER, self._at(member), "the gzip header, which no checksum covers, was changed")
        stated, actual = member.header.get("WARC-Block-Digest"), f"sha1:{sha1_b32(self._block(member))}"
        if stated not in {"", actual}:
            self._out.find(Kind.WRONG_DIGEST, self._at(member), f"the record says {stated}, its bytes give {actual}")

    def _response_bytes(self, member: Member, claim: Claimed | None) -> None:
        outcome = claim.outcome if claim is not None else None
        expected = Expected() if outcome is None else _expected(outcome)
        for fault in self._faults(member, expected):
            self._out.find(_ROW_KINDS[fault.kind], self._at(member), f"{member.header.uri}: {fault.detail}")
        if claim is not None and outcome is not None:
            for detail in _against_row(member, claim.place, outcome):
                self._out.find(Kind.WRONG_RECORD, self._at(member), f"{member.header.uri}: {detail}")

    def _faults(self, member: Member, expected: Expected) -> list[Finding]:
        """A long record is read slice by slice."""
        if member.header.block_bytes <= IN_MEMORY_BYTES_MAX:
            data = self._read(member.offset, member.length)
            return check_response(data, expected, block_bytes_max=BLOCK_BYTES_MAX)
        starts = range(member.offset, member.end, SLICE_BYTES)
        return check_long_response((self._read(at, min(SLICE_BYTES, member.end - at)) for at in starts), expected)

    def _warcinfo(self, member: Member) -> None:
        if member.offset:
            self._bad(member, "a warcinfo record that does not begin the segment")
        if member.header.get("WARC-Filename") != self._segment:
            self._bad(member, f"WARC-Filename is {member.header.get('WARC-Filename')!r}")

    def _belongs(self, member: Member) -> bool:
        """Whether a request or metadata record is of the capture before it, and says so in every way."""
        response = self._response
        if response is None:
            self._bad(member, f"a {member.header.type} record without a response before it")
            return False
        for name, true in (
            ("WARC-Concurrent-To", response.header.id),
            ("WARC-Date", response.header.get("WARC-Date")),
            ("WARC-Target-URI", response.header.get("WARC-Target-URI")),
        ):
            if member.header.get(name) != true:
                self._bad(member, f"{name} is {member.header.get(name)!r}, of the response before it {true!r}")
        return True

    def _block(self, member: Member) -> bytes:
        """The block; it is at hand unless it holds an empty line with something behind it."""
        if len(member.block_start) == member.header.block_bytes:
            return member.block_start
        return parse_record(self._read(member.offset, member.length), block_bytes_max=BLOCK_BYTES_MAX).block

    def _bad(self, member: Member, detail: str) -> None:
        self._out.find(Kind.BAD_RECORD, self._at(member), detail)

    def _at(self, member: Member) -> str:
        return f"{self._label}+{member.offset}"


def check_metadata(whole: Whole, outcome: Outcome) -> Iterator[str]:
    """What the metadata record says otherwise than the outcome, which adoption would have rebuilt from it."""
    pairs = (
        ("limpet-fp", outcome.fp.hex()),
        ("robots-digest", outcome.robots_digest),
        ("limpet-gap-us", str(outcome.gap_us)),
        ("limpet-duration-us", str(outcome.duration_us)),
        *((("limpet-payload-sha256", outcome.payload_sha256),) if whole.response.header.type == "revisit" else ()),
    )
    for name, true in pairs:
        said = whole.fields.get(name, "")
        if said != true:
            yield f"{name} is {said!r}, the outcome has {true!r}"


def _expected(outcome: Outcome) -> Expected:
    return Expected(
        url=outcome.url,
        date_us=outcome.fetched_us,
        payload_sha1_b32=outcome.payload_sha1,
        payload_sha256_hex=outcome.payload_sha256,
    )


def _against_row(member: Member, place: Place, outcome: Outcome) -> Iterator[str]:
    """What `check_response` does not compare."""
    if place.length != member.length:
        yield f"its length is {member.length}, the outcome has {place.length}"
    if not outcome.payload_sha256:
        yield "the outcome has no digest"
    if member.header.type == "revisit":
        return  # its block leaves out, on purpose, what came over the wire
    if outcome.wire_bytes != member.header.block_bytes:
        yield f"its block has {member.header.block_bytes} bytes, the outcome has {outcome.wire_bytes}"
    if outcome.truncated != member.header.get("WARC-Truncated"):
        yield f"WARC-Truncated is {member.header.get('WARC-Truncated')!r}, the outcome has {outcome.truncated!r}"

"""From the archive to the evidence: every request that was sent, by the records alone.

Only requests that no HTTP answer came for have no record; of those the outcomes tell.
"""

from collections.abc import Callable, Mapping
from functools import partial

from limpet.config import Facts
from limpet.fetch.port import Head
from limpet.fetch.redirects import redirect_target
from limpet.model.outcome import Outcome
from limpet.model.urls import InvalidUrl, SplitUrl, canonicalize, split
from limpet.reconciler.archive_walk import Archive, Damage, Read, Segment, Walk
from limpet.reconciler.audit_answers import Answer, decoded_body, meaning_of, wait_until_us
from limpet.reconciler.audit_evidence import Evidence, Exchange, ExchangeKind
from limpet.reconciler.audit_requests import RequestCheck
from limpet.reconciler.kinds import AuditKind as Kind
from limpet.reconciler.report import Collector
from limpet.reconciler.verify_index import indexed_offsets
from limpet.reconciler.verify_records import BLOCK_BYTES_MAX, ROBOTS
from limpet.robots import digest
from limpet.warc import Member, WarcError, parse_fields, parse_record, parse_segment_name
from limpet.warc.http_block import head_of, split_response

NOT_SENT = frozenset({"gate", "dns", "proxy"})
"""Failures after which nothing reached the site."""

_COUNTED = {ExchangeKind.ROBOTS: "robots", ExchangeKind.PAGE: "pages", ExchangeKind.CONTACT: "incomplete"}
_NO_HEAD = Head(status=0, headers=())


class ArchiveReader:
    """Reads segments into `evidence`, judging each request on the way."""

    def __init__(self, archive: Archive, facts: Facts, evidence: Evidence, out: Collector) -> None:
        self._archive = archive
        self._evidence = evidence
        self._requests = RequestCheck(facts)
        self._out = out
        self._incarnations: dict[str, int] = {}

    def read(self, segment: Segment) -> None:
        """Every capture of a segment, from whichever copy has it whole. Raises OSError when none can be read."""
        reads = [self._archive.reader(segment, replica) for replica in segment.replicas]
        size_bytes = max(replica.size_bytes for replica in segment.replicas)
        captures = _Captures(self, segment, reads)
        for item in Walk(reads, size_bytes, self._next_known(segment)):
            if isinstance(item, Damage):
                captures.end()
                self._unreadable(segment, item)
            else:
                captures.take(item)
        captures.end()
        self._out.checked["segments"] += 1

    def outcome(self, outcome: Outcome) -> None:
        """An outcome: of an answer, whose record has to be found; of a failure, which counts if something was sent."""
        if outcome.location is not None:
            self._evidence.expect(outcome.url, outcome.fetched_us, outcome.location.segment, outcome.status)
            return
        if not outcome.failure or outcome.failure in NOT_SENT:
            return
        parts = self.parts(outcome.url, "outcome")
        if parts is not None:
            exchange = Exchange(
                parts.host,
                outcome.fetched_us,
                outcome.fetched_us + outcome.duration_us,
                ExchangeKind.FAILURE,
                parts.authority,
                outcome.url,
                outcome.robots_digest,
                outcome.gap_us,
                address=outcome.remote_ip,
                failure=outcome.failure,
            )
            self._evidence.add(exchange)
            self._out.checked["failures"] += 1

    def request(self, member: Member, block: bytes, at: str) -> None:
        """A request record."""
        self._out.checked["requests"] += 1
        for kind, detail in self._requests.faults(block, member.header.uri):
            self._out.find(kind, member.header.uri, f"{detail} ({at})")

    def exchange(self, response: Member, fields: Mapping[str, str], incarnation: int, at: str) -> SplitUrl | None:
        """A capture, or with empty `fields` a response without metadata. The parts of its URL, if it has any."""
        url, start_us = response.header.uri, response.header.date_us
        parts = self.parts(url, at)
        if parts is None:
            return None
        head = head_in(response.block_start)
        kind = ExchangeKind.ROBOTS if fields.get("limpet-kind") == ROBOTS else ExchangeKind.PAGE
        exchange = Exchange(
            parts.host,
            start_us,
            start_us + number(fields.get("limpet-duration-us", "")),
            kind if fields else ExchangeKind.CONTACT,
            parts.authority,
            url,
            fields.get("robots-digest", ""),
            number(fields.get("limpet-gap-us", "")),
            wait_until_us(head.status, _values(head, b"retry-after"), start_us, _values(head, b"date")),
            incarnation,
            at,
            response.header.get("WARC-IP-Address"),
            number(fields.get("limpet-connect-us", "")),
            head.status,
        )
        self._evidence.add(exchange)
        self._out.checked[_COUNTED[exchange.kind]] += 1
        return parts

    def answer(self, response: Member, end_us: int, read: Callable[[], bytes], at: str) -> None:
        """What a request for robots.txt brought."""
        try:
            record = parse_record(read(), block_bytes_max=BLOCK_BYTES_MAX)
            http = split_response(record.block)
        except WarcError as error:
            self.unreadable(at, f"{response.header.uri}: {error}")
            return
        status, header = http.head.status, response.header
        coding, truncated = http.head.get(b"content-encoding"), header.get("WARC-Truncated")
        body = decoded_body(http.payload, coding, truncated)
        meaning, name = meaning_of(status, body)
        answer = Answer(
            url=header.uri,
            start_us=header.date_us,
            end_us=end_us,
            status=status,
            meaning=meaning,
            digest=name,
            body_digest=digest(http.payload if body is None else body),
            target=target_of(header.uri, http.head) if meaning == "redirect" else "",
        )
        self._evidence.add_answer(answer, body if meaning == "rules" else None)

    def parts(self, url: str, at: str) -> SplitUrl | None:
        """The parts of a URL; None, and a finding, if it cannot be one of ours."""
        try:
            return split(url)
        except InvalidUrl:
            self.unreadable(at, f"not a URL: {url[:200]}")
            return None

    def incarnation(self, segment: str) -> int:
        """A small number for the process that wrote a segment, 0 for none."""
        name = parse_segment_name(segment)
        return 0 if name is None else self._incarnations.setdefault(name.incarnation, len(self._incarnations) + 1)

    def unreadable(self, at: str, detail: str) -> None:
        """Something that cannot be judged."""
        self._out.find(Kind.UNREADABLE, at, detail)

    def incomplete(self, at: str, url: str) -> None:
        """A response whose metadata record was never written."""
        self._out.note(Kind.INCOMPLETE, at, f"{url} has no metadata record")

    def _unreadable(self, segment: Segment, damage: Damage) -> None:
        """Of a segment that is not sealed, the end may be torn: nothing there was acknowledged."""
        if segment.sealed or damage.resumed is not None:
            self.unreadable(f"{segment.name}+{damage.offset}", damage.reason)

    def _next_known(self, segment: Segment) -> Callable[[int], int | None]:
        def find(offset: int) -> int | None:
            indexes = (self._archive.index(segment, replica) for replica in segment.replicas)
            known = (at for index in indexes for at in indexed_offsets(index or b"") if at > offset)
            return min(known, default=None)

        return find


class _Captures:
    """Groups the members of one segment, given in file order."""

    def __init__(self, reader: ArchiveReader, segment: Segment, reads: list[Read]) -> None:
        self._reader = reader
        self._segment = segment.name
        self._reads = reads
        self._incarnation = reader.incarnation(segment.name)
        self._response: Member | None = None

    def take(self, member: Member) -> None:
        kind, at = member.header.type, self._at(member)
        try:
            _ = member.header.date_us
        except WarcError as error:
            self._reader.unreadable(at, str(error))
            return
        if kind in {"response", "revisit"}:
            self.end()
            self._response = member
        elif kind == "request":
            self._reader.request(member, member.block_start, at)
        elif kind == "metadata":
            self._metadata(member)

    def end(self) -> None:
        """No metadata record can come any more for the response at hand."""
        response, self._response = self._response, None
        if response is not None:
            self._reader.exchange(response, {}, self._incarnation, self._at(response))
            self._reader.incomplete(self._at(response), response.header.uri)

    def _metadata(self, member: Member) -> None:
        response = self._response
        if response is None or member.header.get("WARC-Concurrent-To") != response.header.id:
            self._reader.unreadable(self._at(member), "a metadata record without its response before it")
            return
        self._response = None
        fields, at = parse_fields(member.block_start), self._at(response)
        parts = self._reader.exchange(response, fields, self._incarnation, at)
        if parts is not None and fields.get("limpet-kind") == ROBOTS:
            end_us = response.header.date_us + number(fields.get("limpet-duration-us", ""))
            self._reader.answer(response, end_us, partial(self._bytes, response), at)

    def _bytes(self, member: Member) -> bytes:
        """A member again, from the first copy that still gives that many bytes."""
        data = b""
        for read in self._reads:
            data = read(member.offset, member.length)
            if len(data) == member.length:
                break
        return data

    def _at(self, member: Member) -> str:
        return f"{self._segment}+{member.offset}"


def head_in(block_start: bytes) -> Head:
    """Status and fields of a response, empty ones if it has none."""
    try:
        return head_of(block_start)[0]
    except WarcError:
        return _NO_HEAD


def _values(head: Head, field: bytes) -> list[bytes]:
    return [value for name, value in head.headers if name.lower() == field]


def target_of(url: str, head: Head) -> str:
    """Where a redirect of robots.txt leads, canonical; "" if nowhere. Status 300 counts here (RFC 9309 §2.3.1.2)."""
    moved = Head(status=302, headers=head.headers)
    try:
        return canonicalize(redirect_target(url, moved) or "")
    except InvalidUrl:
        return ""


def number(text: str) -> int:
    """A field that holds a number of microseconds; 0 if it does not."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0

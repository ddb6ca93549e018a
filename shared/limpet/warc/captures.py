"""Records put together again as captures, so that an orphan's outcome can be rebuilt from the file alone."""

import hashlib
from collections.abc import Iterable

import msgspec

from limpet.warc.errors import WarcError
from limpet.warc.fields import clean_uri, date_us, sha1_b32
from limpet.warc.http_block import split_response
from limpet.warc.parse import Record, RecordHeader, parse_fields
from limpet.warc.scan import Member
from limpet.warc.streamed import RecordStream


class CaptureSpan(msgspec.Struct, frozen=True, kw_only=True):
    """Where the records of one whole capture lie."""

    response: Member
    metadata: Member

    @property
    def end(self) -> int:
        """Where the next capture starts."""
        return self.metadata.end


class CaptureGrouper:
    """Groups the members of a segment, given in file order.

    `whole_bytes` is the end of the last warcinfo or whole capture: where a dead writer's segment is cut. A response
    whose metadata record did not make it was never acknowledged, and could not be adopted.
    """

    def __init__(self, start: int = 0) -> None:
        self.whole_bytes = start
        self._response: Member | None = None

    def add(self, member: Member) -> CaptureSpan | None:
        """The capture that `member` completes, if it does."""
        kind = member.header.type
        if kind == "warcinfo":
            self.whole_bytes = member.end
        elif kind in {"response", "revisit"}:
            self._response = member
        elif kind == "metadata" and self._response is not None:
            response, self._response = self._response, None
            if member.header.get("WARC-Concurrent-To") == response.header.id:
                self.whole_bytes = member.end
                return CaptureSpan(response=response, metadata=member)
        return None


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """The response record that a revisit record refers to, and why (its profile)."""

    record_id: str
    url: str
    date_us: int
    profile: str


class CaptureView(msgspec.Struct, frozen=True, kw_only=True):
    """A capture as its records tell it."""

    url: str
    date_us: int
    status: int
    headers: tuple[tuple[bytes, bytes], ...]  # as `limpet.fetch.Head` has them
    payload: bytes
    block_bytes: int
    truncated: str
    ip: str
    response_id: str
    payload_sha1_b32: str  # recomputed, as is the next
    payload_sha256_hex: str
    fields: dict[str, str]  # of the metadata record: via, hopsFromSeed, limpet-fp, limpet-gap-us, …
    revisits: Reference | None = None  # of a revisit: where the payload is; `payload` is then empty, its digests stated


def long_capture_of(stream: RecordStream, metadata: Record) -> CaptureView:
    """The same from a response record that was read to its end as a stream: `payload` is its beginning.

    Raises WarcError when it was not, or the two do not belong together.
    """
    header, head = stream.header, stream.head
    if header is None or head is None or not stream.done:
        raise WarcError("the response record is not whole")
    if metadata.header.get("WARC-Concurrent-To") != header.id:
        raise WarcError("the metadata record is of another capture")
    return CaptureView(
        url=header.uri,
        date_us=header.date_us,
        status=head.status,
        headers=head.headers,
        payload=bytes(stream.payload),
        block_bytes=header.block_bytes,
        truncated=header.get("WARC-Truncated"),
        ip=header.get("WARC-IP-Address"),
        response_id=header.id,
        payload_sha1_b32=stream.payload_sha1_b32,
        payload_sha256_hex=stream.payload_sha256_hex,
        fields=parse_fields(metadata.block),
    )


def capture_of(records: Iterable[Record]) -> CaptureView:
    """The capture that a response or revisit record and its metadata record describe (a request may be among them).

    Raises WarcError when one of the two is missing, they do not belong together, or the response is not HTTP.
    """
    by_type = {record.type: record for record in records}
    response, metadata = by_type.get("response") or by_type.get("revisit"), by_type.get("metadata")
    if response is None or metadata is None:
        raise WarcError("a capture takes a response or revisit and a metadata record")
    if metadata.header.get("WARC-Concurrent-To") != response.header.id:
        raise WarcError("the metadata record is of another capture")
    http, fields = split_response(response.block), parse_fields(metadata.block)
    revisits = reference_of(response.header) if response.type == "revisit" else None
    payload = http.payload if revisits is None else b""
    sha1, sha256 = sha1_b32(payload), hashlib.sha256(payload).hexdigest()
    if revisits is not None:
        sha1, sha256 = response.header.payload_sha1_b32, fields.get("limpet-payload-sha256", "")
    return CaptureView(
        url=response.header.uri,
        date_us=response.header.date_us,
        status=http.head.status,
        headers=http.head.headers,
        payload=payload,
        block_bytes=len(response.block),
        truncated=response.header.get("WARC-Truncated"),
        ip=response.header.get("WARC-IP-Address"),
        response_id=response.header.id,
        payload_sha1_b32=sha1,
        payload_sha256_hex=sha256,
        fields=fields,
        revisits=revisits,
    )


def reference_of(header: RecordHeader) -> Reference:
    """What a revisit record refers to. Raises WarcError if it does not say so in full."""
    found = Reference(
        record_id=header.get("WARC-Refers-To"),
        url=clean_uri(header.get("WARC-Refers-To-Target-URI")),
        date_us=date_us(header.get("WARC-Refers-To-Date")),
        profile=header.get("WARC-Profile"),
    )
    if not (found.record_id and found.url and found.profile):
        raise WarcError("a revisit record that does not say what it revisits")
    return found

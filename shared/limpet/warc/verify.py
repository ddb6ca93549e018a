"""Is a stored response what its row says it is? Pure: bytes in, findings out."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final, Literal

import msgspec

from limpet.warc.captures import reference_of
from limpet.warc.errors import WarcError
from limpet.warc.fields import safe_uri, sha1_b32
from limpet.warc.http_block import payload_of
from limpet.warc.members import GZIP_HEADER
from limpet.warc.parse import Record, RecordHeader, parse_record
from limpet.warc.revisits import PROFILES
from limpet.warc.streamed import RecordStream

BLOCK_BYTES_MAX: Final = 268_435_456

FindingKind = Literal[
    "unreadable",
    "not_a_response",
    "wrong_url",
    "wrong_date",
    "block_digest",
    "payload_digest",
    "row_digest",
    "gzip_header",
    "bad_revisit",
]


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What the row says of a response. Empty values (0 for the date) are not compared."""

    url: str = ""
    date_us: int = 0
    payload_sha1_b32: str = ""
    payload_sha256_hex: str = ""


class Finding(msgspec.Struct, frozen=True):
    """One thing that is not as it should be, in words for a person."""

    kind: FindingKind
    detail: str


def check_response(member: bytes, expected: Expected, *, block_bytes_max: int = BLOCK_BYTES_MAX) -> list[Finding]:
    """Everything wrong with one response or revisit member: with itself, and against the row. [] if nothing is.

    Whether what a revisit refers to exists is not asked here. Never raises.
    """
    try:
        record = parse_record(member, block_bytes_max=block_bytes_max)
    except WarcError as error:
        return [Finding("unreadable", str(error))]
    if record.type == "revisit":
        findings = [*_revisit(record), *_revisit_against_row(record, expected)]
    elif record.type == "response":
        payload = payload_of(record.block)
        payload_sha1 = sha1_b32(payload)
        findings = [*_digests(record, payload_sha1), *_against_row(record, payload, payload_sha1, expected)]
    else:
        return [Finding("not_a_response", f"a record of type {record.type!r}")]
    if not member.startswith(GZIP_HEADER):
        findings.append(Finding("gzip_header", "the gzip header, which no checksum covers, was changed"))
    return findings


def check_long_response(pieces: Iterable[bytes], expected: Expected) -> list[Finding]:
    """The same for a response too large for memory, whose member comes in pieces. Raises what `pieces` raises."""
    stream, start = RecordStream(0), b""
    try:
        for piece in pieces:
            start += piece[: len(GZIP_HEADER) - len(start)]
            stream.feed(piece)
    except WarcError as error:
        return [Finding("unreadable", str(error))]
    if stream.header is None or not stream.done:
        return [Finding("unreadable", "the record does not end where its member does")]
    if stream.header.type != "response":
        return [Finding("not_a_response", f"a long record of type {stream.header.type!r}")]
    findings = list(_stated(stream.header, stream.block_sha1_b32, stream.payload_sha1_b32))
    findings += _place_in_row(Record(stream.header, b""), expected)
    findings += _payload_in_row(stream.payload_sha1_b32, stream.payload_sha256_hex, expected)
    if start != GZIP_HEADER:
        findings.append(Finding("gzip_header", "the gzip header, which no checksum covers, was changed"))
    return findings


def _digests(record: Record, payload_sha1: str) -> Iterator[Finding]:
    yield from _stated(record.header, sha1_b32(record.block), payload_sha1)


def _stated(header: RecordHeader, block_sha1: str, payload_sha1: str) -> Iterator[Finding]:
    pairs: tuple[tuple[FindingKind, str, str], ...] = (
        ("block_digest", "WARC-Block-Digest", block_sha1),
        ("payload_digest", "WARC-Payload-Digest", payload_sha1),
    )
    for kind, name, actual in pairs:
        stated = header.get(name)
        if stated != f"sha1:{actual}":
            yield Finding(kind, f"the record says {stated or 'nothing'}, its bytes give sha1:{actual}")


def _revisit(record: Record) -> Iterator[Finding]:
    """WARC 1.1 §6.7: a revisit says what it repeats; its block is a head, or a whole answer without content."""
    header, actual = record.header, f"sha1:{sha1_b32(record.block)}"
    if header.get("WARC-Block-Digest") != actual:
        stated = header.get("WARC-Block-Digest") or "nothing"
        yield Finding("block_digest", f"the record says {stated}, its bytes give {actual}")
    try:
        profile = reference_of(header).profile
    except WarcError as error:
        yield Finding("bad_revisit", str(error))
        return
    if profile not in PROFILES:
        yield Finding("bad_revisit", f"a profile that is none of ours: {profile[:100]}")
    if not header.payload_sha1_b32:
        yield Finding("bad_revisit", "it names no payload digest")
    if payload_of(record.block):
        yield Finding("bad_revisit", "its block holds content")


def _revisit_against_row(record: Record, expected: Expected) -> Iterator[Finding]:
    yield from _place_in_row(record, expected)
    stated = record.header.payload_sha1_b32
    if expected.payload_sha1_b32 not in {"", stated}:
        yield Finding("row_digest", f"the row says sha1:{expected.payload_sha1_b32}, the record sha1:{stated}")


def _against_row(record: Record, payload: bytes, payload_sha1: str, expected: Expected) -> Iterator[Finding]:
    yield from _place_in_row(record, expected)
    yield from _payload_in_row(payload_sha1, hashlib.sha256(payload).hexdigest(), expected)


def _payload_in_row(sha1: str, sha256: str, expected: Expected) -> Iterator[Finding]:
    if expected.payload_sha1_b32 not in {"", sha1}:
        yield Finding("row_digest", f"the row says sha1:{expected.payload_sha1_b32}, the payload gives {sha1}")
    if expected.payload_sha256_hex not in {"", sha256}:
        yield Finding("row_digest", f"the row says sha256:{expected.payload_sha256_hex}, the payload gives {sha256}")


def _place_in_row(record: Record, expected: Expected) -> Iterator[Finding]:
    if expected.url and record.header.uri != safe_uri(expected.url):
        yield Finding("wrong_url", f"the record is of {record.header.uri}")
    if expected.date_us and _date(record) != expected.date_us:
        yield Finding("wrong_date", f"the record is of {record.header.get('WARC-Date')}")


def _date(record: Record) -> int:
    try:
        return record.header.date_us
    except WarcError:
        return -1

"""Revisit records: what may be written as one, and what is wrong with one."""

import gzip
import io
from collections.abc import Callable

import pytest
from msgspec import structs
from warcio.archiveiterator import ArchiveIterator

from limpet.fetch.port import Capture, NetFailure
from limpet.testing.captures import wire_capture
from limpet.warc import CaptureMeta, Expected, Original, capture_members, check_response, revisit_members
from limpet.warc.members import compress

IDS = bytes(range(48))
PAGE = wire_capture()
FIRST = capture_members(PAGE, CaptureMeta(), "", IDS)
ORIGINAL = Original(
    record_id=FIRST.response_id,
    url=PAGE.url,
    date_us=PAGE.started_us,
    payload_sha1_b32=FIRST.payload_sha1_b32,
    payload_sha256_hex=FIRST.payload_sha256_hex,
)
UNCHANGED = wire_capture(wire=b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n', started_us=PAGE.started_us + 10**6)
GOLDEN = (
    b"WARC/1.1\r\n"
    b"WARC-Type: revisit\r\n"
    b"WARC-Record-ID: <urn:uuid:00010203-0405-4607-8809-0a0b0c0d0e0f>\r\n"
    b"WARC-Date: 2027-01-15T08:00:01.123456Z\r\n"
    b"WARC-Target-URI: http://example.com/\r\n"
    b"WARC-Profile: http://netpreserve.org/warc/1.1/revisit/server-not-modified\r\n"
    b"WARC-Refers-To: <urn:uuid:00010203-0405-4607-8809-0a0b0c0d0e0f>\r\n"
    b"WARC-Refers-To-Target-URI: http://example.com/\r\n"
    b"WARC-Refers-To-Date: 2027-01-15T08:00:00.123456Z\r\n"
    b"WARC-Payload-Digest: sha1:DBIUZ3S4HVA5AZOSPVVXR5LCBZRUD2QM\r\n"
    b"WARC-Block-Digest: sha1:MCRK35U42DTUP337BDXCXJZJWUE42ZDS\r\n"
    b"WARC-IP-Address: 192.0.2.1\r\n"
    b"WARC-Protocol: http/1.1\r\n"
    b"Content-Type: application/http;msgtype=response\r\n"
    b"Content-Length: 40\r\n"
    b"\r\n"
    b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n'
    b"\r\n\r\n"
)


def revisit(capture: Capture, original: Original = ORIGINAL) -> bytes:
    """The revisit record of a capture."""
    return revisit_members(capture, CaptureMeta(), original, "", IDS).members[0]


def test_golden_revisit() -> None:
    """A 304 with pinned ids and times gives exactly this record."""
    assert gzip.decompress(revisit(UNCHANGED)) == GOLDEN


def test_the_members_of_a_revisit_are_a_capture() -> None:
    """Request and metadata behind it, as behind a response; the digest that the outcome needs is in the metadata."""
    records = revisit_members(UNCHANGED, CaptureMeta(kind="page"), ORIGINAL, "", IDS)
    kinds = [gzip.decompress(member).split(b"\r\n")[1] for member in records.members]
    assert kinds == [b"WARC-Type: revisit", b"WARC-Type: request", b"WARC-Type: metadata"]
    assert f"limpet-payload-sha256: {ORIGINAL.payload_sha256_hex}".encode() in gzip.decompress(records.members[2])
    assert (records.payload_sha1_b32, records.payload_sha256_hex) == (
        FIRST.payload_sha1_b32,
        FIRST.payload_sha256_hex,
    )


@pytest.mark.parametrize(
    ("capture", "why"),
    [
        (Capture(url="http://example.com/", failure=NetFailure(kind="dns", detail="x")), "whole answer"),
        (wire_capture(wire=b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n<!DOCTYPE"), "whole answer"),
        (wire_capture(wire=b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother"), "not that of the original"),
    ],
)
def test_what_repeats_nothing_is_no_revisit(capture: Capture, why: str) -> None:
    """Failures, cut answers and other content."""
    with pytest.raises(ValueError, match=why):
        revisit(capture)


def test_too_few_random_bytes_are_refused() -> None:
    """As for any capture."""
    with pytest.raises(ValueError, match="48 bytes"):
        revisit_members(PAGE, CaptureMeta(), ORIGINAL, "", bytes(16))


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda text: text.replace(b"server-not-modified", b"other"), "bad_revisit"),
        (lambda text: text.replace(b"WARC-Profile", b"X-Profile"), "bad_revisit"),
        (lambda text: text.replace(b"WARC-Refers-To:", b"X-Refers-To:"), "bad_revisit"),
        (lambda text: text.replace(b"WARC-Refers-To-Date", b"X-Refers-To-Date"), "bad_revisit"),
        (lambda text: text.replace(b"WARC-Refers-To-Target-URI", b"X-URI"), "bad_revisit"),
        (lambda text: text.replace(b"WARC-Payload-Digest", b"X-Digest"), "bad_revisit"),
        (lambda text: text.replace(b"304 Not", b"304 not"), "block_digest"),
    ],
)
def test_what_is_wrong_with_a_revisit_is_found(change: Callable[[bytes], bytes], kind: str) -> None:
    """A field that is missing, a profile that nobody knows, a block that is not what was written."""
    assert [finding.kind for finding in check_response(compress(change(GOLDEN)), Expected())] == [kind]


def test_a_revisit_with_content_is_found() -> None:
    """Whose digest would it be?"""
    capture = structs.replace(UNCHANGED, response_bytes=UNCHANGED.response_bytes + b"content")
    assert [finding.kind for finding in check_response(revisit(capture), Expected())] == ["bad_revisit"]


def test_warcio_reads_a_revisit_and_finds_nothing_wrong() -> None:
    """The field's reference reader: type, profile, digests."""
    repeated = wire_capture(started_us=PAGE.started_us + 1)
    for member in (revisit(UNCHANGED), revisit(repeated)):
        (record,) = ArchiveIterator(io.BytesIO(member), check_digests="raise")
        assert record.rec_type == "revisit"
        record.content_stream().read()
        assert record.digest_checker.passed is not False

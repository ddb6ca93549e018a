"""The check of one stored response against itself and its row."""

import gzip

import pytest

from limpet.testing.captures import wire_capture
from limpet.warc import CaptureMeta, Expected, capture_members, check_long_response, check_response

CAPTURE = wire_capture()
RECORDS = capture_members(CAPTURE, CaptureMeta(), "", bytes(range(48)))
MEMBER = RECORDS.members[0]
ROW = Expected(
    url=CAPTURE.url,
    date_us=CAPTURE.started_us,
    payload_sha1_b32=RECORDS.payload_sha1_b32,
    payload_sha256_hex=RECORDS.payload_sha256_hex,
)


def _kinds(member: bytes, expected: Expected = ROW) -> list[str]:
    return [finding.kind for finding in check_response(member, expected)]


def _rewritten(old: bytes, new: bytes) -> bytes:
    member = gzip.compress(gzip.decompress(MEMBER).replace(old, new), mtime=0)
    return MEMBER[:10] + member[10:]


def test_a_good_record_has_no_findings() -> None:
    """Nothing is found where nothing is wrong, with or without a row."""
    assert check_response(MEMBER, ROW) == []
    assert check_response(MEMBER, Expected()) == []


@pytest.mark.parametrize(
    ("member", "kinds"),
    [
        (b"", ["unreadable"]),
        (MEMBER[:-1], ["unreadable"]),
        (MEMBER + b"x", ["unreadable"]),
        (MEMBER[:200] + bytes([MEMBER[200] ^ 1]) + MEMBER[201:], ["unreadable"]),
        (RECORDS.members[1], ["not_a_response"]),
        (MEMBER[:4] + b"\x01" + MEMBER[5:], ["gzip_header"]),
        (_rewritten(b"hello", b"hallo"), ["block_digest", "payload_digest", "row_digest", "row_digest"]),
        (_rewritten(b"200 OK", b"200 KO"), ["block_digest"]),
        (_rewritten(b"WARC-Payload-Digest", b"X-Payload-Digest"), ["payload_digest"]),
        (_rewritten(b"WARC-Target-URI: http://example.com/", b"WARC-Target-URI: http://example.org/"), ["wrong_url"]),
        (_rewritten(b".123456Z", b".123457Z"), ["wrong_date"]),
        (_rewritten(b"T08:00:00.123456Z", b"?"), ["wrong_date"]),
    ],
)
def test_each_fault_is_found_and_named(member: bytes, kinds: list[str]) -> None:
    """Damage, a wrong record, wrong digests, another URL or time: each has its own kind."""
    assert _kinds(member) == kinds


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (Expected(url="http://example.com/other"), "wrong_url"),
        (Expected(date_us=1), "wrong_date"),
        (Expected(payload_sha1_b32="A" * 32), "row_digest"),
        (Expected(payload_sha256_hex="0" * 64), "row_digest"),
    ],
)
def test_a_row_that_says_otherwise_is_found(row: Expected, kind: str) -> None:
    """The record is in order; the row is not about it."""
    assert _kinds(MEMBER, row) == [kind]


def test_chunked_and_truncated_records_are_good() -> None:
    """G21, G03: the payload digest over the entity is the right one, and a marked cut is no damage."""
    for wire in (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n<p>he\r\n7\r\nllo</p>\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n<p>hel",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n<p>hello</p>",
    ):
        capture = wire_capture(wire=wire)
        records = capture_members(capture, CaptureMeta(), "", bytes(48))
        row = Expected(payload_sha1_b32=records.payload_sha1_b32, payload_sha256_hex=records.payload_sha256_hex)
        assert check_response(records.members[0], row) == []


def test_a_row_with_a_url_as_found_is_no_finding() -> None:
    """The row may hold the URL raw; it is compared in the form it is written in."""
    member = capture_members(wire_capture("http://example.com/a b"), CaptureMeta(), "", bytes(48)).members[0]
    assert check_response(member, Expected(url="http://example.com/a b")) == []


@pytest.mark.parametrize("piece_bytes", [1, 7, 100_000])
@pytest.mark.parametrize(
    "wire",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>plain</p>",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;x=y\r\n wo\r\n0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
    ],
)
def test_a_long_response_is_judged_like_a_short_one(wire: bytes, piece_bytes: int) -> None:
    """In pieces of any size: nothing wrong with what is right, and the same words for what is not."""
    records = capture_members(wire_capture(wire=wire), CaptureMeta(), "", bytes(range(48)))
    member = records.members[0]
    wrong = Expected(url="http://other.test/", date_us=7, payload_sha1_b32="A" * 32, payload_sha256_hex="0" * 64)

    def pieces(data: bytes) -> list[bytes]:
        return [data[at : at + piece_bytes] for at in range(0, len(data), piece_bytes)]

    for expected in (Expected(), wrong):
        assert check_long_response(pieces(member), expected) == check_response(member, expected)
    for damaged in (member[:-1], member[:40] + b"\xff" + member[41:], member + member, b""):
        assert [finding.kind for finding in check_long_response(pieces(damaged), Expected())] == ["unreadable"]
    changed = b"\x1f\x8b\x08\x00\x01" + member[5:]
    assert [finding.kind for finding in check_long_response(pieces(changed), Expected())] == ["gzip_header"]

"""Records as they are read: other writers' habits, strict bounds, captures put together again."""

import gzip

import pytest

from limpet.testing.captures import wire_capture
from limpet.warc import (
    CaptureGrouper,
    CaptureMeta,
    CrawlInfo,
    Member,
    Record,
    WarcError,
    capture_members,
    capture_of,
    date_us,
    members,
    parse_record,
    payload_of,
    split_response,
    warc_date,
    warcinfo_member,
)

IDS = bytes(range(48))
BASE = (
    b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:1>\r\nWARC-Date: 2020-01-02T03:04:05Z\r\n"
    b"WARC-Target-URI: %b\r\nContent-Length: 5\r\n\r\nblock\r\n\r\n"
)


def _capture(number: int = 0) -> list[bytes]:
    ids = bytes([number]) * 48
    return list(capture_members(wire_capture(f"http://example.com/{number}"), CaptureMeta(), "", ids).members)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b"<http://127.0.0.1/x>", "http://127.0.0.1/x"),
        (b"http://127.0.0.1/a b.jpg", "http://127.0.0.1/a%20b.jpg"),
        (b" <http://127.0.0.1/a b> ", "http://127.0.0.1/a%20b"),
        (b"http://127.0.0.1/\xe2\x80\x93", "http://127.0.0.1/%E2%80%93"),
        (b"http://127.0.0.1/\xff", "http://127.0.0.1/%EF%BF%BD"),
        (b"http://127.0.0.1/plain", "http://127.0.0.1/plain"),
    ],
)
def test_target_uris_of_other_writers(written: bytes, read: str) -> None:
    """G23: brackets, spaces and raw bytes in old files read back as a clean URL."""
    record = parse_record(gzip.compress(BASE % written), block_bytes_max=100)
    assert record.header.uri == read
    assert record.block == b"block"
    assert record.type == "response"


def test_folds_bare_line_feeds_and_odd_names_are_read() -> None:
    """Old writers fold lines, end them with LF alone and mind no case; fields keep their order."""
    content = (
        b"WARC/0.18\nwarc-type: Response\nWARC-RECORD-ID: <urn:uuid:1>\nWARC-Date: 2020-01-02T03:04:05Z\n"
        b"X-Folded: one\n two\n\tthree\ncontent-length: 0\n\n\r\n\r\n"
    )
    record = parse_record(gzip.compress(content), block_bytes_max=0)
    assert record.header.get("x-folded") == "one two three"
    assert record.type == "response"
    assert [name for name, _ in record.headers][-1] == "content-length"


GOOD = BASE % b"http://x/"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no end of the record header"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "not a WARC record"),
        (GOOD.replace(b"Content-Length: 5\r\n", b""), "no Content-Length"),
        (GOOD.replace(b"WARC-Type: response\r\n", b""), "no WARC-Type"),
        (GOOD.replace(b"WARC-Record-ID: <urn:uuid:1>\r\n", b""), "no WARC-Record-ID"),
        (GOOD.replace(b"WARC-Date: 2020-01-02T03:04:05Z\r\n", b""), "no WARC-Date"),
        (GOOD.replace(b"Length: 5", b"Length: -5"), "bad Content-Length"),
        (GOOD.replace(b"Length: 5", b"Length: \xd9\xa5"), "bad Content-Length"),
        (GOOD.replace(b"Length: 5", b"Length: " + b"9" * 5_000), "bad Content-Length"),
        (GOOD.replace(b"Length: 5", b"Length: 4"), "does not end"),
        (GOOD.replace(b"Length: 5", b"Length: 6"), "does not end"),
        (GOOD.replace(b"Length: 5", b"Length: 500"), "block larger"),
        (GOOD[:-1], "does not end"),
        (GOOD + b"x", "does not end"),
        (GOOD + GOOD, "record larger|does not end"),
        (GOOD.replace(b"WARC-Type", b"no colon here\r\nWARC-Type"), "without a colon"),
        (b"WARC/1.1\r\n" + b"X: y\r\n" * 10_923 + b"\r\n", "no end of the record header"),
    ],
)
def test_malformed_records_are_refused(content: bytes, reason: str) -> None:
    """One whole record with its mandatory fields, or a WarcError that says what is missing."""
    with pytest.raises(WarcError, match=reason):
        parse_record(gzip.compress(content), block_bytes_max=100)


def test_members_must_be_single_and_whole() -> None:
    """A member cut short, doubled, followed by anything, or no gzip at all is refused."""
    member = gzip.compress(GOOD)
    for bad in (b"", b"x", member[:-1], member[:20], member + b"\0", member + member, GOOD):
        with pytest.raises(WarcError):
            parse_record(bad, block_bytes_max=100)


def test_bombs_are_refused_before_they_unfold() -> None:
    """A member that inflates beyond the bound is given up at the bound."""
    bomb = gzip.compress(GOOD.replace(b"Length: 5", b"Length: 50000000") + bytes(50_000_000))
    with pytest.raises(WarcError, match="larger than"):
        parse_record(bomb, block_bytes_max=1_000)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2027-01-15T08:00:00.123456Z", 1_800_000_000_123_456),
        ("2027-01-15T08:00:00.123456789Z", 1_800_000_000_123_456),
        ("2027-01-15T08:00:00.5Z", 1_800_000_000_500_000),
        ("2027-01-15T08:00:00Z", 1_800_000_000_000_000),
    ],
)
def test_dates_are_read_with_any_precision(text: str, moment: int) -> None:
    """WARC 1.0 has seconds, 1.1 up to nine decimals."""
    assert date_us(text) == moment


@pytest.mark.parametrize(
    "text", ["", "now", "2027-13-15T08:00:00Z", "2027-01-15 08:00:00Z", "2027-01-15T08:00:00", "٢٠٢٧"]
)
def test_other_dates_are_refused(text: str) -> None:
    """What is no WARC-Date is a WarcError, never another exception."""
    with pytest.raises(WarcError, match="not a WARC-Date"):
        date_us(text)


def test_dates_keep_their_microseconds() -> None:
    """The date is the key of an outcome: it must come back to the microsecond."""
    for moment in (0, 1, 999_999, 1_800_000_000_000_000, 1_800_000_000_999_999, 253_402_300_799_999_999):
        assert date_us(warc_date(moment)) == moment
        assert len(warc_date(moment)) == 27


@pytest.mark.parametrize(
    ("block", "payload"),
    [
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n<p>he\r\n7\r\nllo</p>\r\n0\r\n\r\n",
            b"<p>hello</p>",
        ),
        (b"HTTP/1.1 200 OK\nTransfer-Encoding: Chunked\n\nc\n<p>hello</p>\n0\n\n", b"<p>hello</p>"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n<p>hel", b"<p>hel"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n<p>\r\nnonsense", b"<p>"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n5\r\nab", b"5\r\nab"),
        (b"http/1.1 200\r\n\r\nbody", b"body"),
        (b"HTTP 200 Document follows\r\n\r\nbody", b"body"),
        (b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", b""),
        (b"no HTTP at all", b"no HTTP at all"),
        (b"", b""),
    ],
)
def test_payload_of_a_block(block: bytes, payload: bytes) -> None:
    """The entity without its transfer coding; of a cut body what arrived; of a block that is not HTTP the block."""
    assert payload_of(block) == payload


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"HTTP/1.1 200", 200),
        (b"http/1.1 200 OK", 200),
        (b"HTTP 200 Document follows", 200),
        (b"HTTP/1.1 302 ", 302),
        (b"HTTP/1.1 404 Art\xc3\xadculo no encontrado", 404),
    ],
)
def test_odd_status_lines_survive(line: bytes, status: int) -> None:
    """G01, G02: status line and header bytes are in the block as received, and the status can be read out again."""
    wire = line + b"\r\nSet-Cookie: \xb3\xd2\xda\xcd=1; path=/\r\nX-A: a\x01b\r\nContent-Length: 12\r\n\r\n<p>hello</p>"
    taken = capture_members(wire_capture(wire=wire), CaptureMeta(), "", IDS).members
    response = parse_record(taken[0], block_bytes_max=10**6)
    assert response.block == wire
    view = capture_of([response, parse_record(taken[2], block_bytes_max=10**6)])
    assert view.status == status
    assert (b"Set-Cookie", b"\xb3\xd2\xda\xcd=1; path=/") in view.headers
    assert view.payload == b"<p>hello</p>"


def test_interim_responses_are_not_the_record() -> None:
    """G04: the record's status is that of the final response."""
    wire = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
    block = parse_record(
        capture_members(wire_capture(wire=wire), CaptureMeta(), "", IDS).members[0], block_bytes_max=10**6
    ).block
    assert split_response(block).head.status == 200
    assert payload_of(block) == b"hi"


def test_an_outcome_can_be_rebuilt_from_the_records() -> None:
    """All that an outcome needs is in the response and metadata records of a capture."""
    wire = b'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: "x"\r\nContent-Length: 100\r\n\r\nhi'
    meta = CaptureMeta(
        fp=bytes(range(16)),
        via="http://example.com/v",
        hops="LR",
        kind="page",
        robots_digest="d",
        robots_rule="Allow: /",
        gap_us=7,
    )
    capture = wire_capture("http://example.com/p", wire, started_us=1_800_000_000_000_001, duration_us=4_321)
    records = capture_members(capture, meta, "", IDS)
    view = capture_of(parse_record(member, block_bytes_max=10**6) for member in records.members)
    assert (view.url, view.date_us, view.status) == ("http://example.com/p", 1_800_000_000_000_001, 200)
    assert (view.truncated, view.ip, view.block_bytes) == ("disconnect", "192.0.2.1", len(wire))
    assert view.payload_sha256_hex == records.payload_sha256_hex
    assert view.payload_sha1_b32 == records.payload_sha1_b32
    assert view.response_id == records.response_id
    assert capture.head is not None
    assert view.headers == capture.head.headers
    assert view.fields == {
        "via": "http://example.com/v",
        "hopsFromSeed": "LR",
        "fetchTimeMs": "4",
        "limpet-kind": "page",
        "limpet-fp": bytes(range(16)).hex(),
        "limpet-duration-us": "4321",
        "limpet-gap-us": "7",
        "robots-digest": "d",
        "robots-rule": "Allow: /",
    }


def test_a_capture_takes_records_that_belong_together() -> None:
    """A missing or a stranger's metadata record makes no capture."""
    first = [parse_record(member, block_bytes_max=10**6) for member in _capture(1)]
    other = [parse_record(member, block_bytes_max=10**6) for member in _capture(2)]
    with pytest.raises(WarcError, match="takes a response or revisit and a metadata"):
        capture_of(first[:2])
    with pytest.raises(WarcError, match="takes a response or revisit and a metadata"):
        capture_of([])
    with pytest.raises(WarcError, match="another capture"):
        capture_of([first[0], other[2]])
    with pytest.raises(WarcError, match="no HTTP head"):
        capture_of([Record(first[0].header, b"garbage"), first[2]])


def test_grouping_ends_with_the_last_whole_capture() -> None:
    """A segment is cut after its warcinfo or last whole capture, not inside one, though the records there be whole."""
    head = warcinfo_member(CrawlInfo(software="s", user_agent="u", crawl="c"), filename="f", at_us=0, token=bytes(16))
    pieces = [head, *_capture(1), *_capture(2)]
    for count, wanted in ((0, 0), (1, 1), (2, 1), (3, 1), (4, 4), (5, 4), (6, 4), (7, 7)):
        data = b"".join(pieces[:count])
        grouper = CaptureGrouper()
        spans = [span for member in _scan(data) if (span := grouper.add(member)) is not None]
        assert grouper.whole_bytes == len(b"".join(pieces[:wanted]))
        assert [span.end for span in spans] == [len(b"".join(pieces[:end])) for end in (4, 7) if end <= count]
        assert all(span.response.header.type == "response" for span in spans)


def test_grouping_passes_over_strangers() -> None:
    """A metadata record without its response, or of another response, makes no capture."""
    grouper = CaptureGrouper()
    mixed = [_capture(1)[2], _capture(1)[0], _capture(2)[2], *_capture(3)]
    spans = [span for member in _scan(b"".join(mixed)) if (span := grouper.add(member)) is not None]
    assert [span.response.header.uri for span in spans] == ["http://example.com/3"]


def _scan(data: bytes) -> list[Member]:
    return list(members(lambda offset, size: data[offset : offset + size], len(data)))

"""Answers as real servers send them: the wire is kept, the page is read, or one failure says why.

The letters name public bug reports of other crawlers (status lines, header bytes, short bodies, bodyless answers,
HTTP/0.9, folds, Location), each tested as a kind and not only by its smallest input.
"""

import gzip
from collections.abc import Callable

import pytest

from limpet.fetch import Capture, FetchLimits, redirect_target
from limpet.testing.web import Pause

FetchRaw = Callable[..., Capture]

B = b"<p>hello</p>"
LENGTH = b"Content-Length: 12\r\n\r\n"


def whole(wire: bytes, capture: Capture) -> bool:
    """Complete, and the block is `wire` to the byte."""
    return capture.failure is None and capture.truncated is None and capture.response_bytes == wire


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"HTTP/1.1 200\r\n", 200),
        (b"HTTP/1.1 200 \r\n", 200),
        (b"http/1.1 200 OK\r\n", 200),
        (b"HTTP 200 Document follows\r\n", 200),
        (b"HTTP/1.1 302 \r\n", 302),
        (b"HTTP/1.0 200 OK\r\n", 200),
        (b"HTTP/2 200\r\n", 200),
        (b"HTTP/2.0 200 OK\r\n", 200),
        (b"HTTP/1.1  404   Not Found\r\n", 404),
        (b"HTTP/1.1 200OK\r\n", 200),
        (b"HTTP/1.1 404 Art\xc3\xadculo no encontrado\r\n", 404),
        (b"HTTP/1.1 999 Request denied\r\n", 999),
        (b"HTTP/1.1 200 OK\n", 200),
    ],
)
def test_odd_status_lines_are_read_and_kept(fetch_raw: FetchRaw, line: bytes, status: int) -> None:
    """G01: no reason, lower case, no version, odd blanks: the status is read, the line is in the block as sent."""
    wire = line + LENGTH + B
    capture = fetch_raw([wire])
    assert whole(wire, capture)
    assert capture.head is not None
    assert capture.head.status == status
    assert capture.payload == B


@pytest.mark.parametrize(
    "line",
    [b"HTTP/1.1 abc OK", b"HTTP/1.1 20 OK", b"HTTP/1.1 2000 OK", b"HTTP/1.1", b"HTTPS/1.1 200 OK", b"HTTP/1.1 099 x"],
)
def test_a_status_line_without_a_status_is_one_protocol_failure(fetch_raw: FetchRaw, line: bytes) -> None:
    """G01: what cannot be read as a status is a recorded failure, not an exception."""
    capture = fetch_raw([line + b"\r\n" + LENGTH + B])
    assert capture.failure is not None
    assert (capture.failure.kind, capture.head, capture.response_bytes) == ("protocol", None, b"")
    assert capture.failure.received_bytes == len(line) + 2 + len(LENGTH) + len(B)


@pytest.mark.parametrize(
    ("field", "name", "value"),
    [
        (b"Set-Cookie: a=b\x01c", b"set-cookie", b"a=b\x01c"),
        (b"X-A: a\x00b", b"x-a", b"a b"),
        (b"X-A: a\rb", b"x-a", b"a b"),
        (
            b"Content-Disposition: attachment; filename=\xcf\xc2\xd4\xd8.txt",
            b"content-disposition",
            b"attachment; filename=\xcf\xc2\xd4\xd8.txt",
        ),
        (b"Set-Cookie: \xb3\xd2\xda\xcd=1; path=/", b"set-cookie", b"\xb3\xd2\xda\xcd=1; path=/"),
        (b"X-A : spaced", b"x-a", b"spaced"),
        (b"X-A:", b"x-a", b""),
    ],
)
def test_control_and_foreign_bytes_in_a_field_cost_nothing(
    fetch_raw: FetchRaw, field: bytes, name: bytes, value: bytes
) -> None:
    """G02: the page is fetched, NUL and stray CR count as blanks, the block keeps every byte."""
    wire = b"HTTP/1.1 200 OK\r\n" + field + b"\r\n" + LENGTH + B
    capture = fetch_raw([wire])
    assert whole(wire, capture)
    assert capture.head is not None
    assert capture.head.get(name) == value
    assert capture.payload == B


def test_lines_without_a_colon_are_passed_over(fetch_raw: FetchRaw) -> None:
    """G02: junk among the fields does not hide the fields around it."""
    wire = b"HTTP/1.1 200 OK\r\njunk\r\nX-A: 1\r\n: nameless\r\n" + LENGTH + B
    capture = fetch_raw([wire])
    assert whole(wire, capture)
    assert capture.head is not None
    assert capture.head.get(b"x-a") == b"1"
    assert capture.payload == B


@pytest.mark.parametrize("ending", ["close", "reset"])
def test_a_body_shorter_than_its_length_is_kept_and_marked(fetch_raw: FetchRaw, ending: str) -> None:
    """G03 a, c: the bytes that came are the block, the mark says disconnect, the wrong length stays in the header."""
    wire = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + B
    capture = fetch_raw([wire, ending])
    assert (capture.failure, capture.truncated) == (None, "disconnect")
    assert capture.response_bytes == wire
    assert capture.payload == B


@pytest.mark.parametrize(
    "body",
    [
        b"c\r\n" + B + b"\r\n",  # no last chunk
        b"c\r\n" + B,  # no line end after the chunk
        b"20\r\n" + B,  # cut inside a chunk
        b"c\r\n" + B + b"\r\nzz\r\nmore",  # no size
        b"c\r\n" + B + b"xx\r\n0\r\n\r\n",  # data longer than its size
        b"c\r\n" + B + b"x\n0\r\n\r\n",
        b"c\r\n" + B + b"\r\n" + b"1" * 20_000,  # a size line without end
        b"c\r\n" + B + b"\r\n-1\r\nmore",
        b"c\r\n" + B + b"\r\nffffffffffffffffff\r\nmore",
    ],
)
def test_broken_chunking_keeps_what_arrived(fetch_raw: FetchRaw, body: bytes) -> None:
    """G03 b: whole chunks are the payload, the block is the wire, the mark says disconnect."""
    wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body
    capture = fetch_raw([wire])
    assert (capture.failure, capture.truncated) == (None, "disconnect")
    assert capture.response_bytes == wire
    assert capture.payload == B


@pytest.mark.parametrize("ending", ["close", "stall"])
def test_a_body_that_only_claims_to_be_chunked_is_kept(fetch_raw: FetchRaw, ending: str) -> None:
    """Not one chunk: no payload can be told, every byte is in the block, and nobody waits for long."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    capture = fetch_raw([head + b"<p>hel\r\n", Pause(0.05), b"lo</p>", ending], limits=FetchLimits())
    assert (capture.failure, capture.truncated) == (None, "disconnect")
    assert (capture.response_bytes, capture.payload) == (head + b"<p>hel\r\nlo</p>", b"")
    assert capture.duration_us < 10_000_000


@pytest.mark.parametrize(
    "body",
    [
        b"c\r\n" + B + b"\r\n0\r\n\r\n",
        b"6\r\n<p>hel\r\n6\r\nlo</p>\r\n0\r\n\r\n",
        b"c\n" + B + b"\n0\n\n",
        b'  0C  ;name=value;q="x"\r\n' + B + b"\r\n000\r\nX-Trailer: 1\r\nX-Other: 2\r\n\r\n",
        b"c\r\n" + B + b"\r\n0\r\n",  # the last chunk came, only the final empty line did not
    ],
)
def test_tolerable_chunking_is_complete(fetch_raw: FetchRaw, body: bytes) -> None:
    """G03: extensions, trailers, blanks, bare LF: complete; the framing stays in the block and out of the payload."""
    wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body
    capture = fetch_raw([wire])
    assert whole(wire, capture)
    assert capture.payload == B


def test_transfer_encoding_beats_content_length(fetch_raw: FetchRaw) -> None:
    """RFC 9112 §6.3: with both, the chunks decide."""
    wire = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n" + B + b"\r\n0\r\n\r\n"
    capture = fetch_raw([wire])
    assert whole(wire, capture)
    assert capture.payload == B


@pytest.mark.parametrize("lengths", [b"12\r\nContent-Length: 13", b"12, 13"])
def test_two_different_lengths_are_a_protocol_failure(fetch_raw: FetchRaw, lengths: bytes) -> None:
    """RFC 9112 §6.3: the message cannot be delimited; nothing of it is taken for a page."""
    capture = fetch_raw([b"HTTP/1.1 200 OK\r\nContent-Length: " + lengths + b"\r\n\r\n" + B])
    assert capture.failure is not None
    assert (capture.failure.kind, capture.failure.detail) == ("protocol", "conflicting Content-Length")


@pytest.mark.parametrize("length", [b"12, 12", b"12\r\ncontent-length: 012", b"abc", b"", b"-1", b"12 bytes"])
def test_repeated_or_unreadable_lengths_lose_nothing(fetch_raw: FetchRaw, length: bytes) -> None:
    """RFC 9112 §6.3: equal lengths are one length; one that is no number is none, and the connection's end decides."""
    wire = b"HTTP/1.1 200 OK\r\nContent-Length: " + length + b"\r\n\r\n" + B
    capture = fetch_raw([wire])
    assert whole(wire, capture)
    assert capture.payload == B


def test_a_body_without_framing_ends_with_the_connection(fetch_raw: FetchRaw) -> None:
    """RFC 9112 §6.3 rule 8: complete at an orderly end, `disconnect` after a reset."""
    wire = b"HTTP/1.0 200 OK\r\n\r\n" + B
    assert whole(wire, fetch_raw([wire]))
    assert fetch_raw([wire, "reset"]).truncated == "disconnect"


@pytest.mark.parametrize(
    "interim",
    [
        b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n\r\n",
    ],
)
def test_interim_answers_are_not_the_answer(fetch_raw: FetchRaw, interim: bytes) -> None:
    """G04 a: 1xx answers are skipped and are no part of the record."""
    wire = b"HTTP/1.1 200 OK\r\n" + LENGTH + B
    capture = fetch_raw([interim + wire])
    assert whole(wire, capture)


def test_interim_answers_without_end_are_a_protocol_failure(fetch_raw: FetchRaw) -> None:
    """G04 a: their number is bounded; switching protocols unasked ends the exchange too."""
    endless = fetch_raw([b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100, "stall"])
    switched = fetch_raw([b"HTTP/1.1 101 Switching Protocols\r\n\r\nxyz", "stall"])
    for capture in (endless, switched):
        assert capture.failure is not None
        assert capture.failure.kind == "protocol"


@pytest.mark.parametrize(
    ("head", "stray"),
    [
        (b"HTTP/1.1 304 Not Modified\r\nConnection: keep-alive\r\n\r\n", b"test"),
        (
            b"HTTP/1.1 204 No Content\r\nContent-Length: 42\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL",
        ),
        (b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", b"4\r\nEVIL\r\n0\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"EVIL"),
    ],
)
def test_bytes_after_the_end_belong_to_nobody(fetch_raw: FetchRaw, head: bytes, stray: bytes) -> None:
    """G04 b, c: the answer ends where its framing says, at once, and the connection is never used again."""
    capture = fetch_raw([head + stray, "stall"])
    assert whole(head, capture)
    assert capture.payload == b""
    assert capture.duration_us < 1_000_000


def test_bytes_after_a_length_are_cut_off(fetch_raw: FetchRaw) -> None:
    """G04: a body longer than its Content-Length is the length's worth of it."""
    wire = b"HTTP/1.1 200 OK\r\n" + LENGTH + B
    assert whole(wire, fetch_raw([wire + b"and more", "stall"]))


@pytest.mark.parametrize("junk", [B, b"moom\n", b"m", b"HT", b"\x16\x03\x01\x02\x00", b"ICY 200 OK\r\n\r\nnoise"])
def test_an_answer_that_is_not_http_is_counted(fetch_raw: FetchRaw, junk: bytes) -> None:
    """G05: one failure of kind protocol with the number of bytes, however few."""
    capture = fetch_raw([junk])
    assert capture.failure is not None
    count = f"{len(junk)} byte" + ("s" if len(junk) > 1 else "")
    assert (capture.failure.kind, capture.failure.detail) == ("protocol", f"not HTTP, {count} received")
    assert capture.failure.received_bytes == len(junk)


def test_a_server_that_says_nothing_is_told_apart(fetch_raw: FetchRaw) -> None:
    """G05: no bytes at all, and an end inside the header, are resets, not "not HTTP"."""
    silent, cut = fetch_raw([]), fetch_raw([b"HTTP/1.1 200 OK\r\nContent-"])
    assert silent.failure is not None
    assert cut.failure is not None
    assert (silent.failure.kind, silent.failure.received_bytes) == ("reset", 0)
    assert (cut.failure.kind, cut.failure.received_bytes) == ("reset", 25)


def test_folds_are_joined_and_kept(fetch_raw: FetchRaw) -> None:
    """G06 a: a folded value reads as one line, the fields after it are seen, the block is as sent."""
    fold = b"Content-Security-Policy: default-src 'self';\r\n  img-src *;\r\n\tfont-src *\r\nX-After: 1\r\n"
    wire = b"HTTP/1.1 200 OK\r\n" + fold + LENGTH + B
    capture = fetch_raw([wire])
    assert whole(wire, capture)
    assert capture.head is not None
    assert capture.head.get(b"content-security-policy") == b"default-src 'self'; img-src *; font-src *"
    assert capture.head.get(b"x-after") == b"1"


def test_a_fold_on_the_first_line_is_a_field(fetch_raw: FetchRaw) -> None:
    """G06 b: browsers take it, so do we."""
    wire = b"HTTP/1.1 200 OK\r\n X-A: 1\r\n" + LENGTH + B
    capture = fetch_raw([wire])
    assert whole(wire, capture)
    assert capture.head is not None
    assert capture.head.get(b"x-a") == b"1"


@pytest.mark.parametrize("size_bytes", [9_000, 70_000, 200_000])
def test_long_fields_are_fine(fetch_raw: FetchRaw, size_bytes: int) -> None:
    """G06 c, d: the default limit is on the whole header, 256 KiB."""
    wire = b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * size_bytes + b"\r\n" + LENGTH + B
    assert whole(wire, fetch_raw([wire]))


@pytest.mark.parametrize("start", [b"X-Endless: ", b"", b"X-A: 1\r\n" * 6_000])
def test_a_header_without_end_stops_at_the_limit(fetch_raw: FetchRaw, start: bytes) -> None:
    """G06 e: "header too large", by bytes or by number of fields, at once and not at a time limit."""
    capture = fetch_raw([b"HTTP/1.1 200 OK\r\n" + start + b"a" * 300_000, b"\r\n\r\n", "stall"])
    assert capture.failure is not None
    assert (capture.failure.kind, capture.failure.detail) == ("protocol", "header too large")
    assert capture.duration_us < 10_000_000


def test_a_content_coding_is_not_the_transports_business(fetch_raw: FetchRaw) -> None:
    """G07, G08: a coding that lies or is damaged is kept as it came; payload and block hold the coded bytes."""
    lie = b"HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Encoding: gzip\r\n" + LENGTH + B
    capture = fetch_raw([lie])
    assert whole(lie, capture)
    assert capture.payload == B
    cut = gzip.compress(B * 50, mtime=0)[:-12]
    damaged = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n" + cut
    capture = fetch_raw([damaged])
    assert whole(damaged, capture)
    assert capture.payload == cut


@pytest.mark.parametrize(
    ("location", "line"),
    [
        (b"/fa/\xd8\xa7\xd8\xb9", b"GET /fa/%D8%A7%D8%B9 HTTP/1.1"),
        (b"/caf\xe9", b"GET /caf%E9 HTTP/1.1"),
        (b"/a b?c=d e", b"GET /a%20b?c=d%20e HTTP/1.1"),
        (b"/x?q=\xe9#\xe9", b"GET /x?q=%E9 HTTP/1.1"),
        (b" /padded ", b"GET /padded HTTP/1.1"),
        (b"/split\tup", b"GET /splitup HTTP/1.1"),
    ],
)
def test_location_bytes_become_the_next_request_line(fetch_raw: FetchRaw, location: bytes, line: bytes) -> None:
    """G12: raw bytes are percent-encoded as they are, and what goes out is what they say."""
    wire = b"HTTP/1.1 301 Moved Permanently\r\nLocation: " + location + b"\r\nContent-Length: 0\r\n\r\n"
    first = fetch_raw([wire])
    assert whole(wire, first)
    assert first.head is not None
    target = redirect_target(first.url, first.head)
    assert target is not None
    second = fetch_raw([b"HTTP/1.1 200 OK\r\n" + LENGTH + B], path="/" + target.split("/", 3)[3])
    assert second.request_bytes.split(b"\r\n")[0] == line

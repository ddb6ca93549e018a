"""The response parser as a pure function of bytes: any split, any bytes, linear time, bounded memory."""

import re
import time
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from limpet.fetch import FetchLimits, Head
from limpet.fetch.chunked import ChunkedBody
from limpet.fetch.head import find_head_end, framing_of, parse_head
from limpet.fetch.http1 import Phase, ResponseParser

LIMITS = FetchLimits(header_bytes_max=2000, body_bytes_max=3000)

PIECES = st.sampled_from(
    [
        *(
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 103 Hints\r\n",
            b"http/1.0 404\n",
            b"HTTP 200 x\r\n",
            b"HTTP/1.1 204 N\r\n",
        ),
        *(
            b"Content-Length: 5\r\n",
            b"Content-Length: 0\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b" fold\r\n",
            b"X: y\n",
        ),
        *(b"\r\n", b"\n", b"\r", b"5\r\nhello\r\n", b"0\r\n\r\n", b"0;x=y\r\nT: 1\r\n\r\n", b"hello", b"zz\r\n", b"\0"),
        *(b"a" * 700, b"1\r\na\r\n" * 100),
    ],
)
STREAMS = st.lists(PIECES | st.binary(max_size=20), max_size=12).map(b"".join)


def result_of(parser: ResponseParser) -> tuple[object, ...]:
    """All that a capture takes from a parser; a count of bytes goes with the piece that ended it."""
    block = parser.block()
    kind = parser.failure.kind if parser.failure is not None else None
    detail = re.sub(r"\d+ bytes", "some bytes", parser.failure.detail) if parser.failure is not None else None
    return parser.head, block, parser.payload(block), parser.truncated, kind, detail


def parse(pieces: list[bytes], *, reset: bool = False, limits: FetchLimits = LIMITS) -> ResponseParser:
    """Feed `pieces`, then the end; stops feeding when done, as the engine does."""
    parser = ResponseParser(limits)
    for piece in pieces:
        if parser.phase is Phase.DONE:
            break
        parser.feed(piece)
    parser.end_of_stream(reset=reset)
    return parser


@given(STREAMS, st.lists(st.integers(0, 3000), max_size=8), st.booleans())
@example(b"HTTP/1.1 200 OK\nContent-Length: 7\n\n\r\nhello", [35], False)  # the body begins with an empty line
def test_the_split_of_the_stream_does_not_matter(stream: bytes, cuts: list[int], reset: bool) -> None:
    """However the network cuts the bytes, the capture is the same."""
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[a:b] for a, b in pairwise(edges)]
    whole = result_of(parse([stream], reset=reset))
    assert result_of(parse(pieces, reset=reset)) == whole
    assert result_of(parse([bytes([byte]) for byte in stream], reset=reset)) == whole


@given(st.binary(max_size=400) | STREAMS, st.sampled_from(["end", "reset", "time"]))
def test_any_bytes_end_in_a_head_or_a_failure(stream: bytes, how: str) -> None:
    """Never both, never neither, never an exception; what is kept was received, and within the limits."""
    parser = ResponseParser(LIMITS)
    parser.feed(stream)
    if how == "time":
        parser.give_up("test")
    parser.end_of_stream(reset=how == "reset")
    assert parser.phase is Phase.DONE
    assert (parser.head is None) != (parser.failure is None)
    block = parser.block()
    assert block in stream
    assert len(block) - parser.body_offset <= LIMITS.body_bytes_max
    assert len(parser.payload(block)) <= len(block)
    assert parser.received_bytes == len(stream)


@given(st.binary(max_size=2000), st.integers(1, 50), st.sampled_from([b"", b";ext=1", b" "]))
def test_chunking_is_undone(body: bytes, size_bytes: int, extension: bytes) -> None:
    """Whatever the chunk sizes, the payload is the body and the block is the wire."""
    parts = [body[start : start + size_bytes] for start in range(0, len(body), size_bytes)]
    framed = b"".join(b"%X%b\r\n%b\r\n" % (len(part), extension, part) for part in parts) + b"0\r\n\r\n"
    wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + framed
    parser = parse([wire, b"stray"], limits=FetchLimits())
    assert (parser.truncated, parser.block(), parser.payload(wire)) == (None, wire, body)


@pytest.mark.parametrize(
    ("headers", "framing"),
    [
        (b"", "close"),
        (b"Content-Length: 7\n", 7),
        (b"Content-Length: 007\nContent-Length: 7\n", 7),
        (b"Content-Length: 7\nContent-Length: 8\n", "conflict"),
        (b"Content-Length: 7, x\n", "close"),
        (b"Content-Length: " + b"9" * 5000 + b"\n", 10**18),
        (b"Content-Length: 5\nTransfer-Encoding: chunked\n", "chunked"),
        (b"Content-Length: 5\nContent-Length: 6\nTransfer-Encoding: CHUNKED\n", "chunked"),
        (b"Transfer-Encoding: gzip, chunked\n", "chunked"),
        (b"Transfer-Encoding: gzip\nTransfer-Encoding: chunked;q=1\n", "chunked"),
        (b"Transfer-Encoding: chunked, gzip\n", "close"),
        (b"Transfer-Encoding: identity\nContent-Length: 5\n", 5),
        (b"Transfer-Encoding: \nContent-Length: 5\n", 5),
    ],
)
def test_framing(headers: bytes, framing: object) -> None:
    """RFC 9112 §6.3, with the tolerance the module describes."""
    head = parse_head(b"HTTP/1.1 200 OK\n" + headers + b"\n")
    assert isinstance(head, Head)
    assert framing_of(head) == framing
    bodyless = parse_head(b"HTTP/1.1 304 x\n" + headers + b"\n")
    assert isinstance(bodyless, Head)
    assert framing_of(bodyless) == 0


@pytest.mark.parametrize(
    ("buffer", "end"),
    [
        (b"a\r\n\r\nb", 5),
        (b"a\n\nb", 3),
        (b"a\r\n\nb", 4),
        (b"a\n\r\nb", 4),
        (b"a\n\n\r\nb", 3),
        (b"a\n\r\n\nb", 4),
        (b"a\r\n\r", -1),
        (b"a\r\r", -1),
        (b"", -1),
    ],
)
def test_the_end_of_a_head(buffer: bytes, end: int) -> None:
    """An empty line, with LF or CR LF on either line."""
    assert find_head_end(bytearray(buffer), 0, 1000) == end


def test_repeated_fields_keep_their_order() -> None:
    """Set-Cookie and Link come more than once; `get` gives the first, in any case of the name."""
    head = parse_head(b"HTTP/1.1 200 OK\r\nLink: a\r\nX: 1\r\nLINK: b\r\n\r\n")
    assert isinstance(head, Head)
    assert head.headers == ((b"Link", b"a"), (b"X", b"1"), (b"LINK", b"b"))
    assert head.get(b"link") == b"a"


@pytest.mark.parametrize(
    "pieces",
    [
        [b"HTTP/1.1 200 OK\r\nX: "] + [b"a"] * 200_000,
        [b"HTTP/1.1 200 OK\r\n"] + [b"\r"] * 200_000,
        [b"HTTP/1.1 200 OK\r\nX: 1\r\n"] + [b" f\r\n"] * 4_000 + [b"\r\n"],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"] + [b"1\r\na\r\n"] * 100_000,
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"] + [b"1;" + b"x" * 10_000 + b"\r\na\r\n"] * 100,
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"] + [b"T: 1\r\n"] * 40_000,
        [b"\r\n"] * 200_000,
        [b"x"] * 200_000,
    ],
    ids=["field", "cr", "folds", "chunks", "extensions", "trailers", "blank", "noise"],
)
def test_hostile_streams_cost_linear_time_and_bounded_memory(pieces: list[bytes]) -> None:
    """Byte by byte, line by line: many seconds would mean a quadratic scan, megabytes a buffer that nobody bounds."""
    limits = FetchLimits(body_bytes_max=1_000_000)
    began = time.process_time()
    parse(pieces, limits=limits)
    assert time.process_time() - began < 5.0
    tracemalloc.start()
    parse(pieces[:100_000], limits=limits)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 5_000_000


def test_interim_answers_share_the_header_limit() -> None:
    """Fifteen 1xx answers of the limit's size each do not make fifteen limits."""
    one = b"HTTP/1.1 103 Hints\r\nX: " + b"a" * 900 + b"\r\n\r\n"
    parser = ResponseParser(LIMITS)
    parser.feed(one * 5)
    assert parser.failure is not None
    assert parser.failure.detail == "header too large"


def test_trailers_are_bounded() -> None:
    """Trailers that never end are read up to the header limit; the body is complete without the rest."""
    chunks = ChunkedBody(0, 100)
    buffer = bytearray(b"1\r\na\r\n0\r\n")
    for _ in range(100):
        buffer += b"T: 1\r\n"
        chunks.advance(buffer)
    assert (chunks.complete, chunks.broken) == (True, False)
    assert bytes(chunks.payload) == b"a"
    assert chunks.end <= len(b"1\r\na\r\n0\r\n") + 100 + 25  # the LF of each line is not counted


@pytest.mark.parametrize(
    "trailers", [b"T: " + b"x" * 3_000, b"T: 1\r\n" * 600, b"T: 1\r\nU: " + b"x" * 3_000 + b"\r\n\r\n"]
)
@pytest.mark.parametrize("step", [1, 7, 5_000])
def test_a_body_is_complete_without_trailers_beyond_the_limit(trailers: bytes, step: int) -> None:
    """No mark of truncation, nothing to ask again for; what is kept does not hang on how the bytes came in."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    wire = head + b"5\r\nhello\r\n0\r\n" + trailers
    parser = parse(
        [wire[at : at + step] for at in range(0, len(wire), step)], limits=FetchLimits(header_bytes_max=2_000)
    )
    assert (parser.phase, parser.truncated, parser.failure) == (Phase.DONE, None, None)
    block = parser.block()
    assert parser.payload(block) == b"hello"
    assert wire.startswith(block)
    assert block.endswith(b"\n")

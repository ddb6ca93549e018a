"""Records read as streams: what a whole reading gives, in memory that is bounded by what is kept."""

import tracemalloc

import pytest

from limpet.testing.captures import wire_capture
from limpet.warc import (
    CaptureMeta,
    MemberStream,
    RecordStream,
    WarcError,
    capture_members,
    capture_of,
    long_capture_of,
    parse_record,
    split_response,
)
from limpet.warc.members import compress, inflate

WIRES = [
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + b"<p>x</p>" * 5_000,
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"400;a=b\r\n" + b"z" * 1024 + b"\r\n" + b"0\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nX-Long: " + b"a" * 100_000 + b"\r\n\r\n",
]


def stream_of(member: bytes, piece_bytes: int, *, kept_bytes: int = 10**9, until_full: bool = False) -> RecordStream:
    stream = RecordStream(kept_bytes)
    for at in range(0, len(member), piece_bytes):
        stream.feed(member[at : at + piece_bytes], until_full=until_full)
    return stream


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("piece_bytes", [1, 61, 1_000_000])
def test_pieces_give_what_the_whole_gives(wire: bytes, piece_bytes: int) -> None:
    """Head, payload, digests, and the capture that recovery adopts."""
    records = capture_members(wire_capture(wire=wire), CaptureMeta(fp=b"f" * 16, via="http://a.test/"), "", bytes(48))
    stream = stream_of(records.members[0], piece_bytes)
    response, metadata = (parse_record(records.members[index], block_bytes_max=10**7) for index in (0, 2))
    http = split_response(response.block)
    assert stream.done
    assert (stream.head, bytes(stream.payload)) == (http.head, http.payload)
    assert stream.payload_sha1_b32 == records.payload_sha1_b32
    assert stream.payload_sha256_hex == records.payload_sha256_hex
    assert stream.block_sha1_b32 == records.block_sha1_b32
    assert long_capture_of(stream, metadata) == capture_of([response, metadata])


def test_no_more_is_read_than_is_kept() -> None:
    """A bomb of a member: 200 MB of zeros in 200 KB cost the reader what it asked for."""
    size_bytes = 200_000_000

    def parts() -> list[bytes]:
        head = b"HTTP/1.1 200 OK\r\n\r\n"
        header = b"WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:x>\r\nWARC-Date: 2026-11-01T00:00:00Z\r\n"
        header += b"Content-Length: %d\r\n\r\n" % (len(head) + size_bytes)
        return [header + head, *[bytes(1_000_000)] * (size_bytes // 1_000_000), b"\r\n\r\n"]

    member = b"".join(MemberStream(parts, size_bytes).pieces())
    tracemalloc.start()
    try:
        stream = stream_of(member, len(member), kept_bytes=1_000_000, until_full=True)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(stream.payload) == 1_000_000
    assert (stream.full, stream.done) == (True, False)
    assert stream.payload_bytes < 2_000_000
    assert peak_bytes < 8_000_000
    assert stream.take() == bytes(1_000_000)


@pytest.mark.parametrize("content", [b"", b"no record", b"WARC/1.1\r\n" + b"X: y\r\n" * 20_000])
def test_what_is_no_record_is_an_error_or_never_done(content: bytes) -> None:
    """Bounded, and never taken for a response."""
    member = compress(content)
    try:
        stream = stream_of(member, 100)
    except WarcError:
        return
    assert not stream.done


def test_a_streamed_member_is_the_same_content() -> None:
    """Whatever the slices are, also none at all, it is one member of ours."""
    for parts in ([], [b""], [b"a"], [b"a" * 300_000, b"", b"b" * 7], [bytes([n]) for n in range(256)]):
        member = b"".join(MemberStream(lambda parts=parts: parts, sum(map(len, parts))).pieces())  # type: ignore[misc]
        assert member[:10] == compress(b"x")[:10]
        assert inflate(member, 1_000_000) == b"".join(parts)

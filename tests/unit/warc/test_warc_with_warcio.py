"""Another implementation reads what we write, byte for byte."""

import gzip
import io

import pytest
from warcio.archiveiterator import ArchiveIterator

from limpet.testing.captures import wire_capture
from limpet.warc import CaptureMeta, CrawlInfo, capture_members, parse_record, warcinfo_member

CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n5\r\n<p>he\r\n7\r\nllo</p>\r\n0\r\n\r\n"
PLAIN = b"Content-Length: 12\r\n\r\n<p>hello</p>"

WIRES = {
    "plain": b"HTTP/1.1 200 OK\r\n" + PLAIN,
    "no reason phrase": b"HTTP/1.1 200\r\n" + PLAIN,
    "lower-case protocol": b"http/1.1 200 OK\r\n" + PLAIN,
    "no version": b"HTTP 200 Document follows\r\n" + PLAIN,
    "trailing space": b"HTTP/1.1 302 \r\nLocation: /x\r\n" + PLAIN,
    "control byte": b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\x01c\r\n" + PLAIN,
    "NUL": b"HTTP/1.1 200 OK\r\nX-A: a\x00b\r\n" + PLAIN,
    "GBK file name": b"HTTP/1.1 200 OK\r\nContent-Disposition: attachment; filename=\xcf\xc2\xd4\xd8.txt\r\n" + PLAIN,
    "raw bytes": b"HTTP/1.1 404 Art\xc3\xadculo no encontrado\r\nSet-Cookie: \xb3\xd2\xda\xcd=1; path=/\r\n" + PLAIN,
    "folded header": b"HTTP/1.1 200 OK\r\nX-A: one\r\n two\r\n" + PLAIN,
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: 12\n\n<p>hello</p>",
    "chunked": b"HTTP/1.1 200 OK\r\n" + CHUNKED,
    "chunked, cut": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n<p>hello</p>\r\n",
    "short body": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n<p>hello</p>",
    "bodyless": b"HTTP/1.1 304 Not Modified\r\n\r\n",
    "empty": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "gzip": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"<p>hello</p>", mtime=0),
    "WARC inside": b"HTTP/1.1 200 OK\r\n\r\nWARC/1.1\r\nWARC-Type: warcinfo\r\nContent-Length: 0\r\n\r\n\r\n\r\n",
}


def _file(wire: bytes) -> list[bytes]:
    info = CrawlInfo(software="limpet/0", user_agent="limpet/0", crawl="c")
    capture = wire_capture("http://example.com/p?q=1", wire, tls="TLSv1.3")
    records = capture_members(capture, CaptureMeta(fp=bytes(16), hops="L"), "", bytes(range(48)))
    return [warcinfo_member(info, filename="f", at_us=0, token=bytes(16)), *records.members]


@pytest.mark.parametrize("kind", WIRES)
def test_warcio_reads_the_same_records(kind: str) -> None:
    """Every header field and every byte of every block, odd responses included; the response block is the wire."""
    members = _file(WIRES[kind])
    read = [
        (list(record.rec_headers.headers), record.raw_stream.read())
        for record in ArchiveIterator(io.BytesIO(b"".join(members)), no_record_parse=True)
    ]
    records = [parse_record(member, block_bytes_max=10**6) for member in members]
    assert read == [(list(record.headers), record.block) for record in records]
    assert read[1][1] == WIRES[kind]


@pytest.mark.parametrize("kind", sorted(WIRES.keys() - {"chunked", "chunked, cut"}))
def test_warcio_agrees_with_the_digests(kind: str) -> None:
    """Block and payload digests hold by another hand's count.

    Not for chunked responses, where warcio takes the payload digest over the framing (G21).
    """
    for record in ArchiveIterator(io.BytesIO(b"".join(_file(WIRES[kind]))), check_digests="raise"):
        record.raw_stream.read()
        assert record.digest_checker.passed is not False, record.digest_checker.problems


def test_warcio_finds_each_member_where_we_say() -> None:
    """Each record is a gzip member of its own: offsets and lengths are those that we index."""
    members = _file(WIRES["plain"])
    iterator = ArchiveIterator(io.BytesIO(b"".join(members)))
    places = []
    for record in iterator:
        record.raw_stream.read()
        places.append((iterator.get_record_offset(), iterator.get_record_length()))
    offsets = [sum(map(len, members[:index])) for index in range(len(members))]
    assert places == list(zip(offsets, map(len, members), strict=True))

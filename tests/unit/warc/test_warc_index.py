"""SURT keys, CDXJ lines, segment names and payload types."""

import gzip
import json
import os
import random
from pathlib import Path

import pytest

from limpet.testing.captures import wire_capture
from limpet.warc import (
    CaptureMeta,
    SegmentName,
    WarcError,
    capture_members,
    index_line,
    index_of,
    line_of,
    members,
    parse_segment_name,
    segment_name,
    surt,
)

CASES = Path(os.environ.get("LIMPET_CASES", "../shared/cases")) / "urls.json"


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://example.com/", "com,example)/"),
        ("https://www.example.co.uk/a/b/?q=1", "uk,co,example)/a/b?q=1"),
        ("http://www2.example.com/", "com,example)/"),
        ("http://example.com:8080/", "com,example:8080)/"),
        ("http://example.com:80/", "com,example)/"),
        ("https://example.com:443/", "com,example)/"),
        ("https://example.com:80/", "com,example:80)/"),
        ("http://user:secret@example.com/", "com,example)/"),
        ("http://127.0.0.1:8000/x", "1,0,0,127:8000)/x"),
        ("http://[::1]:8000/x", "::1:8000)/x"),
        ("http://example.com/A/B.HTML?Q=R", "com,example)/a/b.html?q=r"),
        ("http://example.com/?b=2&a=1", "com,example)/?a=1&b=2"),
        ("http://example.com/?b=&b", "com,example)/?b&b="),
        ("http://example.com/?", "com,example)/"),
        ("http://example.com/a%20b", "com,example)/a%20b"),
        ("http://example.com/%7Euser", "com,example)/~user"),
        ("http://example.com/%25252541", "com,example)/a"),
        ("http://example.com/%C3%BC", "com,example)/%c3%bc"),
        ("http://example.com/a//b/", "com,example)/a/b"),
        ("http://example.com/a/../b/./c", "com,example)/b/c"),
        ("http://example.com/x?jsessionid=" + "a1" * 16 + "&y=1", "com,example)/x?y=1"),
        ("http://example.com/x?y=1&PHPSESSID=" + "0" * 32, "com,example)/x?&y=1"),
        ("http://example.com/(S(" + "a" * 24 + "))/page.aspx?x=1", "com,example)/page.aspx?x=1"),
        ("http://example.com/x#fragment", "com,example)/x"),
        ("http://example.com/?q=a b", "com,example)/?q=a%20b"),
        ("dns:example.com", "dns:example.com"),
        ("filedesc://foo.arc.gz", "filedesc://foo.arc.gz"),
        ("http:///x", "http:///x"),
        ("", "-"),
    ],
)
def test_surt_keys(url: str, key: str) -> None:
    """The key is what a replay tool computes from the URL that it is asked for."""
    assert surt(url) == key


def test_surt_of_the_collected_cases() -> None:
    """A URL and its canonical form, as the Internet Archive's own tests have them, share one key."""
    if not CASES.is_file():
        pytest.skip(f"the conformance cases are not there: {CASES}")
    wanted = {"surt:Canonicalizer.DefaultIA", "surt:Canonicalizer.IA", "surt:defaultIASurt"}
    cases = [case for case in json.loads(CASES.read_text("utf-8"))["cases"] if case["set"] in wanted]
    assert len(cases) > 8
    for case in cases:
        assert surt(case["input"]) == surt(case["href"]), case


def test_surt_keys_are_bounded_work() -> None:
    """A URL of nothing but escapes of escapes is undone in one pass."""
    assert surt("http://example.com/" + "%25" * 20_000) == "com,example)/" + "%25" * 20_000
    assert surt("http://example.com/%" + "25" * 20_000) == "com,example)/%25"


def _response(wire: bytes, url: str = "http://example.com/p") -> bytes:
    return capture_members(wire_capture(url, wire), CaptureMeta(), "", bytes(range(48))).members[0]


def test_a_line_of_the_index() -> None:
    """Key, fourteen digits, and JSON with the fields that replay needs, numbers as text."""
    wire = b"HTTP/1.1 404 No\r\ncontent-type: Text/HTML; charset=x\r\nContent-Length: 12\r\n\r\n<p>hello</p>"
    member = _response(wire)
    line = index_line(member, "limpet-x.warc.gz", 4_096)
    assert line == (
        b"com,example)/p 20270115080000 "
        b'{"url":"http://example.com/p","mime":"text/html","status":"404",'
        b'"digest":"sha1:EH2SPSI2J7IA53E7X7MLVOIBNGZPXYIP",'
        b'"length":"%d","offset":"4096","filename":"limpet-x.warc.gz"}\n' % len(member)
    )


def test_written_and_scanned_lines_agree() -> None:
    """The index a writer keeps as it goes is the index that recovery makes from the file."""
    taken = [
        capture_members(
            wire_capture(f"http://example.com/{number}", wire), CaptureMeta(), "", bytes([number]) * 48
        ).members
        for number, wire in enumerate(
            [
                b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n" + os.urandom(50_000),
                b"HTTP/1.1 200 OK\r\nX: %b\r\nContent-Type: text/css\r\n\r\nx" % (b"y" * 100_000),
                b"HTTP 200 Document follows\nContent-Type: text/html\n\n" + b"<p>" * 50_000,
                b"HTTP/1.1 304 Not Modified\r\n\r\n",
            ]
        )
    ]
    data = b"".join(b"".join(capture) for capture in taken)
    scanned = [line_of(member, "f") for member in members(lambda at, size: data[at : at + size], len(data))]
    written = []
    offset = 0
    for member in (member for capture in taken for member in capture):
        written.append(index_line(member, "f", offset))
        offset += len(member)
    assert written == scanned
    assert [line is not None for line in written] == [True, False, False] * 4
    mimes = [json.loads(line.split(b" ", 2)[2])["mime"] for line in written if line is not None]
    assert mimes == ["image/png", "text/css", "text/html", "unk"]


@pytest.mark.parametrize(
    ("content_type", "mime"),
    [
        (b"text/html", "text/html"),
        (b"TEXT/HTML;charset=utf-8", "text/html"),
        (b"", "unk"),
        (b"nonsense", "unk"),
        (b"text/html \x01", "unk"),
        (b'te xt/"ht{ml', "unk"),
        ("täxt/html".encode(), "unk"),
        (b"application/vnd.ms-excel.sheet+xml", "application/vnd.ms-excel.sheet+xml"),
        (b"a" * 300 + b"/b", "unk"),
    ],
)
def test_nothing_a_site_sends_adds_a_column(content_type: bytes, mime: str) -> None:
    """G23: a line has three columns, whatever the URL and the Content-Type."""
    wire = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n\r\nx" % content_type
    line = index_line(_response(wire, 'http://example.com/a b"{}\r\n<ü>'), "f", 0)
    assert line is not None
    assert line.count(b" ") == 2
    assert line.count(b"\n") == 1
    entry = json.loads(line.split(b" ", 2)[2])
    assert entry["mime"] == mime
    assert entry["url"] == "http://example.com/a%20b%22{}%0D%0A%3C%C3%BC%3E"


def test_other_records_have_no_line() -> None:
    """Requests, metadata and warcinfo are not what a replay asks for; what is no record is an error."""
    taken = capture_members(wire_capture(), CaptureMeta(), "", bytes(48)).members
    assert [index_line(member, "f", 0) is None for member in taken] == [False, True, True]
    for bad in (b"", b"garbage", gzip.compress(b"no record")):
        with pytest.raises(WarcError):
            index_line(bad, "f", 0)


def test_every_response_has_a_line_however_it_packs() -> None:
    """The first bytes of a member may hold little but Huffman tables: no response may be taken for something else."""
    bodies = [random.Random(size).randbytes(size) for size in range(0, 3_000, 7)]
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    responses = [_response(head % len(body) + body, "http://example.com/") for body in bodies]
    assert [number for number, member in enumerate(responses) if index_line(member, "f", 0) is None] == []


def test_revisits_have_a_line() -> None:
    """A revisit is indexed as such, with the digest that it repeats."""
    content = (
        b"WARC/1.1\r\nWARC-Type: revisit\r\nWARC-Record-ID: <urn:uuid:1>\r\nWARC-Date: 2027-01-15T08:00:00Z\r\n"
        b"WARC-Target-URI: http://example.com/\r\nWARC-Payload-Digest: sha1:ABC\r\n"
        b"Content-Length: 29\r\n\r\nHTTP/1.1 304 Not Modified\r\n\r\n\r\n\r\n"
    )
    line = index_line(gzip.compress(content), "f", 0)
    assert line is not None
    entry = json.loads(line.split(b" ", 2)[2])
    assert (entry["mime"], entry["status"], entry["digest"]) == ("warc/revisit", "304", "sha1:ABC")


def test_an_index_is_in_byte_order() -> None:
    """Pywb searches by bisection over bytes."""
    assert index_of([b"b 1\n", b"a 2\n", b"a 1\n", b"B 1\n"]) == b"B 1\na 1\na 2\nb 1\n"


def test_segment_names() -> None:
    """A name says when, in which order and by which incarnation, and comes apart again."""
    name = segment_name("my-crawl", 1_800_000_000_123_456, 7, "0123456789abcdef")
    assert name == "my-crawl-20270115080000123-00007-0123456789abcdef.warc.gz"
    assert parse_segment_name(name) == SegmentName(
        prefix="my-crawl", opened="20270115080000123", serial=7, incarnation="0123456789abcdef"
    )
    names = [segment_name("p", moment, serial, "a") for moment, serial in ((0, 0), (0, 1), (1_000, 2), (10**15, 3))]
    assert names == sorted(names)


@pytest.mark.parametrize(
    ("prefix", "serial", "incarnation"),
    [
        ("", 0, "a"),
        ("../x", 0, "a"),
        ("a/b", 0, "a"),
        ("a b", 0, "a"),
        ("p", -1, "a"),
        ("p", 0, ""),
        ("p", 0, "a-b"),
        ("ü", 0, "a"),
    ],
)
def test_names_that_could_be_misread_are_refused(prefix: str, serial: int, incarnation: str) -> None:
    """No separator, path or blank gets into a name."""
    with pytest.raises(ValueError, match="not a"):
        segment_name(prefix, 0, serial, incarnation)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "limpet-20270115080000123-00007-a.warc.gz.open",
        "limpet-20270115080000123-00007-a.warc.gz.cdxj",
        "limpet-2027-00007-a.warc.gz",
        "x.warc.gz",
        "limpet-20270115080000123-00007-a.warc.gz\n",
        "../limpet-20270115080000123-00007-a.warc.gz",
    ],
)
def test_other_files_are_not_segments(name: str) -> None:
    """What else lies in a directory is left alone."""
    assert parse_segment_name(name) is None

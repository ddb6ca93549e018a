"""From one record to what is published: the record that the event names, and nothing else."""

import hashlib

import pytest

from limpet.fetch import Capture
from limpet.model.events import DocumentFetched
from limpet.model.links import LinkKind
from limpet.parser.decode import DecodeLimits
from limpet.parser.page import Parsed, ParseError, parse_member
from limpet.segments import Location
from limpet.testing.captures import wire_capture
from limpet.warc import CaptureMeta, capture_members

URL = "http://site.test/dir/page"


def _member(wire: bytes) -> tuple[bytes, Capture]:
    capture = wire_capture(URL, wire)
    records = capture_members(capture, CaptureMeta(), "", bytes(48))
    return records.members[records.response_index], capture


def _parse(wire: bytes, *, links_max: int = 100, sha256: str | None = None) -> Parsed:
    member, capture = _member(wire)
    event = DocumentFetched(
        crawl="c",
        fp=bytes(16),
        url=URL,
        fetched_us=1,
        status=200,
        location=Location("s", 0, len(member)),
        payload_sha256=sha256 or hashlib.sha256(capture.payload).hexdigest(),
        depth=0,
        hops="",
    )
    return parse_member(member, event, links_max=links_max, limits=DecodeLimits())


def _html(body: bytes, *fields: bytes) -> bytes:
    head = [b"HTTP/1.1 200 OK", b"Content-Type: text/html", b"Content-Length: %d" % len(body), *fields]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def test_links_of_a_page_are_absolute_and_canonical() -> None:
    """What is published can be fetched as it is."""
    parsed = _parse(_html(b'<a href="../a">a</a><a href="b#c" rel=nofollow>b</a>'))
    assert [(link.url, link.nofollow) for link in parsed.links] == [
        ("http://site.test/a", False),
        ("http://site.test/dir/b", True),
    ]


def test_a_redirect_is_one_link_whatever_its_body_says() -> None:
    """Nobody needs the body of a redirect."""
    wire = b"HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 18\r\n\r\n<a href=/trap>x</a>"
    assert [(link.url, link.kind) for link in _parse(wire).links] == [("http://site.test/next", LinkKind.REDIRECT)]


def test_a_redirect_to_nowhere_is_flagged() -> None:
    """Visible, not silent."""
    assert _parse(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n").flags == ("no_location",)


def test_a_record_with_other_bytes_is_refused() -> None:
    """A parse of other bytes would be a fact about something that was never fetched."""
    with pytest.raises(ParseError, match="digest"):
        _parse(_html(b"<a href=/x>x</a>"), sha256="0" * 64)


def test_a_damaged_record_is_refused() -> None:
    """A flipped bit is an error of the record, not of the page."""
    member, _ = _member(_html(b"<a href=/x>x</a>"))
    damaged = member[:40] + bytes([member[40] ^ 1]) + member[41:]
    event = DocumentFetched(
        crawl="c",
        fp=bytes(16),
        url=URL,
        fetched_us=1,
        status=200,
        location=Location("s", 0, len(member)),
        payload_sha256="0" * 64,
        depth=0,
        hops="",
    )
    with pytest.raises(ParseError):
        parse_member(damaged, event, links_max=10, limits=DecodeLimits())


def test_links_beyond_the_bound_are_counted() -> None:
    """A page may have as many links as it likes; we take a bounded number and say how many we left."""
    body = b"".join(b"<a href=/p%d>x</a>" % number for number in range(130))
    parsed = _parse(_html(body), links_max=100)
    assert len(parsed.links) == 100
    assert parsed.left_out == (("links_per_page", 30),)


def test_page_wide_nofollow_covers_every_link() -> None:
    """Meta robots nofollow is the page's own wish."""
    parsed = _parse(_html(b"<meta name=robots content='noindex, nofollow'><a href=/x>x</a>"))
    assert [link.nofollow for link in parsed.links] == [True]
    assert parsed.flags == ("signal:nofollow", "signal:noindex")

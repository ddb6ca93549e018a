"""What an operator is told of files that are no robots.txt; what the crawl does with them is none of it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.robots import (
    BODY_BYTES_MAX,
    ODDITIES,
    HttpAnswer,
    Oddity,
    RobotsState,
    Settled,
    advance,
    next_step,
    oddity_of,
    parse,
    stored_oddity,
)

RULES = b"User-agent: *\nDisallow: /a\n"


def stored(body: bytes) -> bytes:
    """What a row remembers of an answer with this body."""
    settled = next_step(0, HttpAnswer(200, body=body))
    assert isinstance(settled, Settled)
    return msgspec.msgpack.encode(advance(RobotsState(), settled, 10**15, 0.0))


@pytest.mark.parametrize(
    ("body", "oddity"),
    [
        (RULES, None),
        (b"", None),
        (b"# nothing to say\r\r\n", None),
        (b"Sitemap: http://a.test/map.xml", None),
        (b"\xef\xbb\xbfDisalow: /a", None),
        (b"<!DOCTYPE html><title>Not found</title>", "html"),
        (b"\xef\xbb\xbf\r\n  <html>\nDisallow: /a\n", "html"),
        (b"User-agent: *\nDisallow: /\0", "binary"),
        ("User-agent: *".encode("utf-16"), "binary"),
        (b"Not Found", "no_rules"),
        (b'{"error": 404}', "no_rules"),
        (RULES * (BODY_BYTES_MAX // len(RULES) + 1), "too_large"),
        (b"<p>\n" + b"x" * BODY_BYTES_MAX, "html"),
        (b"x" * (BODY_BYTES_MAX + 1), "too_large"),
    ],
)
def test_what_is_wrong_with_a_file(body: bytes, oddity: Oddity | None) -> None:
    """HTML, binary, no line that says anything, too long to be read whole; ordinary and empty files are neither."""
    assert stored_oddity(stored(body)) == oddity
    assert oddity is None or oddity in ODDITIES


def test_nothing_asked_for_is_nothing_odd() -> None:
    """An authority that was never asked, one that cannot be had, and one without a file."""
    assert stored_oddity(b"") is None
    for status in (404, 500):
        settled = next_step(0, HttpAnswer(status, body=b"<html>"))
        assert isinstance(settled, Settled)
        assert stored_oddity(msgspec.msgpack.encode(advance(RobotsState(), settled, 10**15, 0.0))) is None


@given(body=st.binary(max_size=200))
def test_rules_that_are_read_are_never_called_none(body: bytes) -> None:
    """Any bytes will do; whoever forbids us something has said something."""
    if oddity_of(body) == "no_rules":
        assert parse(body).allows("limpet", "http://a.test/x")
        assert not parse(body).sitemaps

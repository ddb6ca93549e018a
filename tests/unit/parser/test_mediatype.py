"""Which media type is in force: malformed, wildcard, unknown and repeated Content-Type fields."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.parser.mediatype import declared, essence
from unit.parser.pages import NOTHING_MORE, links, parsed

UNDEFINED = [
    "text/html charset=utf-8",
    "text/html:charset=utf-8",
    '"text/html"',
    "html",
    "text",
    "none",
    "x",
    "/",
    "text/",
    "/html",
    "content-type: text/html",
    "text/html\xa0",
    "text\\html",
    "text//html",
    ";charset=utf-8",
    "",
    "*/*",
    "*/*; charset=utf-8",
    "unknown/unknown",
    "application/unknown",
    "Application/Unknown; x=y",
]


@pytest.mark.parametrize("content_type", UNDEFINED)
def test_an_undefined_type_is_found_out(content_type: str) -> None:
    """WHATWG MIME Sniffing §4.4 and §7: what does not parse or says "unknown" hides no link of a page."""
    found = parsed("<!DOCTYPE html><a href=/x>", content_type=content_type, wants=NOTHING_MORE)
    assert [url for url, _ in links(found)] == ["/x"]


@pytest.mark.parametrize("content_type", UNDEFINED)
def test_an_undefined_type_makes_no_page_of_anything(content_type: str) -> None:
    """Text that does not begin like HTML stays text."""
    assert links(parsed("see <a href=/x>", content_type=content_type, wants=NOTHING_MORE)) == []


@pytest.mark.parametrize("content_type", ["text/plain", "*/html", "text/*", "application/octet-stream", "x/y;z"])
def test_a_type_that_parses_is_believed(content_type: str) -> None:
    """Only what the standard calls undefined is found out."""
    assert links(parsed("<!DOCTYPE html><a href=/x>", content_type=content_type, wants=NOTHING_MORE)) == []


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ([], None),
        ([b"text/plain", b"text/html"], b"text/html"),
        ([b"text/html", b"text/plain"], b"text/plain"),
        ([b"text/html", b"nonsense"], b"text/html"),
        ([b"text/html", b"*/*"], b"text/html"),
        ([b"text/html", b""], b"text/html"),
        ([b"text/plain, text/html"], b"text/html"),
        ([b'text/html;a="x,image/png"'], b'text/html;a="x,image/png"'),
        ([b"text/html;charset=big5", b"text/html"], b"text/html;charset=big5"),
        ([b"text/html;charset=big5", b"text/html;charset=koi8-r"], b"text/html;charset=koi8-r"),
        ([b"text/html;charset=big5", b"text/plain", b"text/html"], b"text/html"),
        ([b"html; charset=big5"], b"html; charset=big5"),
    ],
)
def test_the_last_valid_value_counts(fields: list[bytes], value: bytes | None) -> None:
    """Fetch, "extract a MIME type": wildcards and nonsense are passed over, a charset is kept within one type."""
    found = declared(fields)
    assert (found and found.strip()) == value


def test_of_two_fields_the_last_decides_what_is_read() -> None:
    """The rule holds where a response is parsed, too."""
    fields = ("<p><a href=/x>", "Content-Type: image/png")
    assert links(parsed(*fields, content_type="text/html", wants=NOTHING_MORE)) != []
    fields = ("<p><a href=/x>", "Content-Type: text/html")
    assert links(parsed(*fields, content_type="image/png", wants=NOTHING_MORE)) == []


def test_a_charset_is_read_out_of_a_type_that_is_none() -> None:
    """The missing semicolon does not hide what follows it."""
    body = "<p><a href='/?\xe9'>".encode("cp1252")
    found = parsed(body, content_type="text/html charset=windows-1251", wants=NOTHING_MORE)
    assert links(found)[0][0] == "/?%E9"


@given(st.lists(st.binary(max_size=60) | st.sampled_from([b"text/html", b'"', b"\\", b",", b";charset=x"]), max_size=5))
def test_any_fields_will_do(fields: list[bytes]) -> None:
    """Never raises, and what is in force stays in force when it is read again."""
    value = declared(fields)
    assert essence(value) == essence(declared([value] if value is not None else []))


def test_long_values_cost_linear_time() -> None:
    """A quarter of a megabyte of quotes, commas or blanks is read in no time."""
    began = time.process_time()
    for pattern in (b'"', b'"\\', b",", b" ", b"a/b,", b"a/b;charset=x,", b"\\", b'a"'):
        essence(declared([pattern * (250_000 // len(pattern))]))
    assert time.process_time() - began < 3.0

"""The Link fields of a response."""

import time

import pytest

from limpet.model.links import LinkKind
from limpet.parser.linkheader import LINKS_MAX, linked
from limpet.parser.page import Parsed
from unit.parser.pages import links, parsed


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b"<a>; rel=next", [(b"a", {b"rel": b"next"})]),
        (b'<a>;rel="next prev" , <b>; REL=x', [(b"a", {b"rel": b"next prev"}), (b"b", {b"rel": b"x"})]),
        (b"<a>; rel=first; rel=second", [(b"a", {b"rel": b"first"})]),
        (b'<a>; title="x, <no>; rel=no"; rel=next', [(b"a", {b"title": b"x, <no>; rel=no", b"rel": b"next"})]),
        (b'<a>; title="\\"x\\\\"; rel=next', [(b"a", {b"title": b'"x\\', b"rel": b"next"})]),
        (b"<a>", [(b"a", {})]),
        (b"<a>; crossorigin; rel=preload", [(b"a", {b"crossorigin": b"", b"rel": b"preload"})]),
        (b"<a>; ; rel = next", [(b"a", {b"rel": b"next"})]),
        (b"<>; rel=next", [(b"", {b"rel": b"next"})]),
        (b"<a>; rel=next; anchor='#x'", []),
        (b"nonsense, <b>; rel=next", [(b"b", {b"rel": b"next"})]),
        (b"<a", []),
        (b'<a>; rel="next', [(b"a", {b"rel": b""})]),
        (b",,, <a>; rel=x,,", [(b"a", {b"rel": b"x"})]),
        (b"", []),
    ],
)
def test_parsing(value: bytes, found: list[tuple[bytes, dict[bytes, bytes]]]) -> None:
    """RFC 8288 §3: quoted parameters hide commas, the first of a name counts, a foreign anchor is not ours."""
    assert list(linked([value])) == found


def _announced(*fields: str) -> Parsed:
    return parsed("<base href='/elsewhere/'><a href=p>", *fields)


def test_targets_are_relative_to_the_url_and_not_to_the_base() -> None:
    """A field speaks before the page does (RFC 8288 §3.2)."""
    assert links(_announced("Link: <s.css>; rel=stylesheet, <?2>; rel=next")) == [
        ("/elsewhere/p", LinkKind.NAVIGATION),
        ("/dir/s.css", LinkKind.REQUISITE),
        ("/dir/page?2", LinkKind.NAVIGATION),
    ]


def test_several_fields_and_what_the_page_names_too() -> None:
    """Fields add up; a link that the page has is not doubled."""
    found = _announced("Link: </elsewhere/p>; rel=next", "Link: </a>; rel=canonical", "link: </a>; rel=canonical")
    assert links(found) == [("/elsewhere/p", LinkKind.NAVIGATION), ("/a", LinkKind.ALTERNATE)]


def test_raw_bytes_go_back_as_they_came() -> None:
    """As in Location: no encoding is assumed."""
    assert links(parsed("", "Link: </caf\xe9>; rel=canonical")) == [("/caf%E9", LinkKind.ALTERNATE)]


def test_an_unendorsed_alternate_is_marked() -> None:
    """rel=nofollow counts here as in a tag."""
    found = parsed("", 'Link: </a>; rel="alternate nofollow", </b>; rel="stylesheet nofollow"')
    assert [(link.kind, link.nofollow) for link in found.links] == [
        (LinkKind.ALTERNATE, True),
        (LinkKind.REQUISITE, False),
    ]


@pytest.mark.parametrize(
    "piece", [b"<", b"<a>,", b"<a>;", b'<a>;a="', b'";', b"\\", b"<a>; a", b" ", b",", b";", b'<a>;a="\\', b"<a>;a=b"]
)
def test_bounds(piece: bytes) -> None:
    """A thousand fields of nonsense are soon read, and at most a hundred links come of them."""
    start = time.process_time()
    assert len(list(linked([piece * 5_000] * 100))) <= LINKS_MAX
    assert time.process_time() - start < 4

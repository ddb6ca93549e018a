"""What pages need, beyond the examples of the registry: order, bounds, encodings, odd markup."""

import time

import pytest

from limpet.model.links import LinkKind
from limpet.parser.links import REFERENCE_BYTES_MAX, extract
from limpet.parser.wants import Wants
from unit.parser.pages import ALL, NOTHING_MORE, REQUISITES, links, parsed

REQUISITE = LinkKind.REQUISITE


def needed(body: str | bytes, *, content_type: str = "text/html", hops: str = "") -> list[str]:
    return [url for url, kind in links(parsed(body, content_type=content_type, hops=hops)) if kind is REQUISITE]


def test_all_candidates_of_a_srcset_and_its_source() -> None:
    """An archive does not know the screen it will be shown on."""
    body = "<picture><source srcset='/a 1x, /b 2x'><img srcset='/c 480w,/d,e 800w' src=/f></picture>"
    assert needed(body) == ["/a", "/b", "/c", "/d,e", "/f"]


def test_links_for_readers_come_first_and_none_is_lost_to_an_image() -> None:
    """At the bound the page's links count before its decoration."""
    body = "<img src=/i><a href=/a><img src=/j><a href=/b>"
    assert links(parsed(body)) == [
        ("/a", LinkKind.NAVIGATION),
        ("/b", LinkKind.NAVIGATION),
        ("/i", REQUISITE),
        ("/j", REQUISITE),
    ]
    found = parsed(body, links_max=3)
    assert [url for url, _ in links(found)] == ["/a", "/b", "/i"]
    assert found.left_out == (("links_per_page", 1),)


def test_the_same_url_as_link_and_as_requisite() -> None:
    """Distinct by kind: admission decides which of them counts."""
    assert links(parsed("<a href=/i><img src=/i></a>")) == [("/i", LinkKind.NAVIGATION), ("/i", REQUISITE)]


def test_a_late_base_counts_for_requisites_too() -> None:
    """Style sheets inside the page included."""
    body = "<img src=i><style>@import 's';</style><p style='background:url(b)'><base href=/x/>"
    assert needed(body) == ["/x/i", "/x/s", "/x/b"]


@pytest.mark.parametrize(
    "style",
    [
        'style="a:url(/x)"',
        "style='a:url(/x)'",
        "STYLE=a:url(/x)",
        'style="a:url&#40;/x)"',
        'style="a:b;c:url(&quot;/x&quot;)"',
        'class="a" style="a:url(/x)" id="b"',
        'style="a:\\75rl(/x)"',
    ],
)
def test_styles_on_any_tag(style: str) -> None:
    """However it is written, and beside whatever."""
    assert needed(f"<p><div {style}><b>") == ["/x"]
    assert needed(f"<a href=/y {style}>") == ["/x"]


@pytest.mark.parametrize(
    "markup",
    ['<p data-style="a:url(/x)">', '<p title="style=a:url(/x)">', "<p styles='a:url(/x)'>", "</p style='a:url(/x)'>"],
)
def test_what_is_no_style(markup: str) -> None:
    """Names and values that only look like it."""
    assert needed(markup) == []


def test_style_sheets_in_the_page() -> None:
    """Text, not markup; several; in SVG; unclosed."""
    assert needed("<style>a{b:url('/x&amp;y')}</style><STYLE media=print>@import '/z'</STYLE >") == ["/x&amp;y", "/z"]
    assert needed("<svg><style/><image href=/i /></svg><style>a{b:url(/x") == ["/i", "/x"]


def test_noscript_is_read() -> None:
    """Where lazy loading keeps its real images."""
    assert needed("<noscript><img src=/x></noscript>") == ["/x"]


def test_a_requisite_in_the_encoding_of_its_page() -> None:
    """Path in UTF-8, query as the page is encoded."""
    assert needed("<meta charset=windows-1252><img src='/é?é'>".encode("cp1252")) == ["/%C3%A9?%E9"]
    assert needed("<meta charset=utf-8><img src='/é?é'>".encode()) == ["/%C3%A9?%C3%A9"]
    assert needed("<img src=/x>".encode("utf-16-le"), content_type="text/html; charset=utf-16le") == ["/x"]


@pytest.mark.parametrize(
    ("body", "content_type", "found"),
    [
        (b"\xef\xbb\xbf@import '/x';", "text/css; charset=koi8-r", ["/x"]),
        ("a{b:url('/?é')}".encode("cp1252"), "text/css; charset=windows-1252", ["/?%E9"]),
        (b'@charset "windows-1252";' + "a{b:url('/?é')}".encode("cp1252"), "text/css", ["/?%E9"]),
        (b'@charset "utf-16";' + "a{b:url('/?é')}".encode(), "text/css", ["/?%C3%A9"]),
        (b' @charset "windows-1252";' + "a{b:url('/?é')}".encode(), "text/css", ["/?%C3%A9"]),
        ("@import '/x';".encode("utf-16-be"), "text/css; charset=utf-16be", ["/x"]),
        ("\ufeff@import '/x';".encode("utf-16-le"), "text/css", ["/x"]),
    ],
)
def test_the_encoding_of_a_style_sheet(body: bytes, content_type: str, found: list[str]) -> None:
    """Mark, header, @charset at the very start, UTF-8 (CSS Syntax §3.2)."""
    assert needed(body, content_type=content_type) == found


def test_style_sheets_have_no_requisites_in_a_crawl_that_wants_none() -> None:
    """Off is off."""
    assert parsed("@import '/x';", content_type="text/css", wants=NOTHING_MORE).links == ()


def test_a_page_fetched_as_a_requisite_needs_nothing() -> None:
    """The error page in the place of an image: its requisites are left alone, its refresh is but a link."""
    body = "<img src=/i><a href=/a><meta http-equiv=refresh content='0;/r'><style>@import '/s';</style>"
    for hops in ("E", "LLE", "LER", "LERR"):
        assert links(parsed(body, hops=hops)) == [("/a", LinkKind.NAVIGATION), ("/r", LinkKind.NAVIGATION)]
    for hops in ("", "L", "LEL", "R"):
        assert ("/r", LinkKind.REDIRECT) in links(parsed(body, hops=hops))
        assert ("/i", REQUISITE) in links(parsed(body, hops=hops))


def test_a_style_sheet_fetched_as_a_requisite_has_requisites() -> None:
    """How far that goes is admission's to judge."""
    assert needed("@import '/x';", content_type="text/css", hops="LE") == ["/x"]


def test_overlong_ones_are_counted_and_data_urls_are_not() -> None:
    """A megabyte of picture inside the page is no lost link."""
    body = f"<img src='/{'x' * REFERENCE_BYTES_MAX}'><img src='data:image/png;base64,{'A' * 100_000}'>"
    assert parsed(body).left_out == (("url_too_long", 1),)
    assert parsed(f"<p style='a:url(/{'x' * REFERENCE_BYTES_MAX})'>").left_out == (("url_too_long", 1),)


def test_off_is_exactly_as_before() -> None:
    """What a crawl without requisites reads is what a crawl with them reads, less the requisites."""
    body = (
        b"<link rel=stylesheet href=/s><a href=/a style='b:url(/c)'>x</a><script src=/j></script><base href=/b/>"
        b"<img src=i><iframe src=f></iframe><table background=t><svg><a xlink:href=g><use href=h /></svg>"
    )
    narrow, wide = (
        extract(body, url="http://site.test/", content_type=b"text/html", wants=wants) for wants in (NOTHING_MORE, ALL)
    )
    assert [link for link in wide.links if link.kind is not REQUISITE] == narrow.links
    assert len(wide.links) == len(narrow.links) + 6


@pytest.mark.parametrize(
    "piece",
    [
        b"<p style='url(",
        b"<style>",
        b'<p style="a:url(x)">',
        b"<img srcset='a, ",
        b"<p style",
        b"<p background=x ",
        b"<img src=x>",
        b"<link rel=stylesheet href=x",
        b"<p style=a(b ",
        b"<style></style>",
        b' style="(',
        b"<input type=image src=x>",
    ],
)
def test_time_is_linear(piece: bytes) -> None:
    """A megabyte of markup that never ends costs what its bytes cost."""
    start = time.process_time()
    for body in (piece * (1_000_000 // len(piece)), b"<p " + piece * (1_000_000 // len(piece))):
        extract(body, url="http://h/", content_type=b"text/html", wants=Wants(requisites=True, extras=True))
    assert time.process_time() - start < 8


def test_requisites_alone_leave_alternates_alone() -> None:
    """The two families are asked for apart."""
    body = "<link rel=canonical href=/c><link rel=icon href=/i>"
    assert links(parsed(body, wants=REQUISITES)) == [("/i", REQUISITE)]

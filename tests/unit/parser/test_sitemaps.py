"""Sitemaps: what is one, what it names, what it costs."""

import gzip
import time
import tracemalloc

import pytest

from limpet.model.links import LinkKind
from limpet.parser import sitemaps
from limpet.parser.xmltags import document_encoding
from unit.parser.pages import EXTRAS, NOTHING_MORE, links, parsed

NAVIGATION, SITEMAP, ALTERNATE = LinkKind.NAVIGATION, LinkKind.SITEMAP, LinkKind.ALTERNATE
XML = "application/xml"


def urlset(*locations: str, declaration: str = '<?xml version="1.0" encoding="UTF-8"?>') -> str:
    inner = "".join(f"<url><loc>{location}</loc><lastmod>2026-01-01</lastmod></url>\n" for location in locations)
    return f'{declaration}<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{inner}</urlset>'


def paths(
    body: str | bytes,
    *fields: str,
    content_type: str | None = XML,
    hops: str = "M",
    url: str = "http://site.test/s.xml",
) -> list[str]:
    found = parsed(body, *fields, content_type=content_type, wants=EXTRAS, hops=hops, url=url)
    return [path for path, _ in links(found)]


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("\n      http://site.test/s.html\n   ", "/s.html"),
        ("http://site.test/?a=1&amp;b=2", "/?a=1&b=2"),
        ("http://site.test/?a=1&b=2", "/?a=1&b=2"),
        ("http://site.test/?a=1&copy=2", "/?a=1&copy=2"),
        ("<![CDATA[http://site.test/?a=1&b=2]]>", "/?a=1&b=2"),
        ("\n<![CDATA[\nhttp://site.test/x\n]]>\n", "/x"),
        ("http://site.test/&#x78;<!-- no -->&#121;", "/xy"),
        ("http://site.test/caf\u00e9", "/caf%C3%A9"),
        ("/relative", "/relative"),
        ("http://u:p@site.test/x#y", "/x"),
    ],
)
def test_locations(location: str, path: str) -> None:
    """White space (report G19), references, CDATA, bare ampersands as sites write them."""
    assert paths(urlset(location)) == [path]


def test_an_index_names_sitemaps() -> None:
    """Their depth is admission's to bound."""
    body = "<sitemapindex><sitemap><loc>/a.xml</loc></sitemap><sitemap><loc>/b.xml.gz</loc></sitemap></sitemapindex>"
    assert links(parsed(body, content_type=XML)) == [("/a.xml", SITEMAP), ("/b.xml.gz", SITEMAP)]


def test_languages_and_other_vocabularies() -> None:
    """xhtml:link is an alternate; a loc of an image is no page; a prefix for the whole is."""
    body = (
        "<s:urlset xmlns:s='x'><s:url><s:loc>/a</s:loc><image:image><image:loc>/i</image:loc></image:image>"
        "<xhtml:link rel='alternate' hreflang='cs' href='/cs?a&amp;b'/><video:content_loc>/v</video:content_loc>"
        "<xhtml:link rel='icon' href='/no'/></s:url></s:urlset>"
    )
    assert links(parsed(body, content_type=XML)) == [("/a", NAVIGATION), ("/cs?a&b", ALTERNATE)]


@pytest.mark.parametrize(
    "body",
    [
        "<urlset><loc>/a</loc>",
        "<urlset><url><loc>/a",
        "<URLSET><LOC>/a</LOC></URLSET>",
        "<urlset><!-- <loc>/no</loc> --><loc>/a</loc></urlset>",
        "<urlset><loc/><loc></loc><loc>/a</loc></urlset>",
        "<urlset><url><loc>/a</loc></wrong></urlset></urlset>",
        "<urlset><loc attr='<'>/no</loc><loc x='>'>/a</loc></urlset>",
        "<!DOCTYPE urlset [<!ENTITY x SYSTEM 'file:///etc/passwd'> ]><urlset><loc>/a</loc></urlset>",
    ],
)
def test_what_is_not_well_formed_costs_its_own_element(body: str) -> None:
    """A cut or careless file gives what it holds."""
    assert paths(body) == ["/a"]


def test_no_entity_is_expanded() -> None:
    """A billion laughs are a few strange letters; an external entity is never asked for."""
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    body = f'<?xml version="1.0"?><!DOCTYPE urlset [<!ENTITY l0 "ha">{laughs}]><urlset><loc>http://site.test/&l9;</loc></urlset>'
    assert paths(body) == ["/&l9;"]


@pytest.mark.parametrize(
    "content_type", ["application/xml", "text/xml; charset=x", "application/octet-stream", "text/plain", None]
)
def test_it_is_one_by_its_root(content_type: str | None) -> None:
    """Servers call them many things."""
    assert paths(urlset("/a"), content_type=content_type, hops="") == ["/a"]


@pytest.mark.parametrize("content_type", ["text/html", "image/svg+xml", "application/pdf", "text/css"])
def test_other_types_are_not_searched(content_type: str) -> None:
    """A page that shows a sitemap is a page."""
    assert paths(urlset("/a"), content_type=content_type) == []


def test_encodings() -> None:
    """Declared, marked, or UTF-8."""
    declared = urlset("/é", declaration='<?xml version="1.0" encoding="iso-8859-1"?>').encode("cp1252")
    assert paths(declared) == ["/%C3%A9"]
    assert paths(("\ufeff" + urlset("/é")).encode("utf-16-le")) == ["/%C3%A9"]
    assert document_encoding(b"<urlset>", None) == "utf-8"


def test_a_plain_list_counts_where_a_sitemap_was_asked_for() -> None:
    """One URL a line; any other line is none; elsewhere text is text."""
    body = "\ufeffhttp://site.test/a\r\n\n  http://site.test/b  \nnonsense\n/c\nftp://site.test/d\rHTTP://site.test/e"
    assert paths(body, content_type="text/plain") == ["/a", "/b", "/e"]
    assert paths(body, content_type="text/plain", hops="MR") == ["/a", "/b", "/e"]
    for hops in ("", "L", "ML"):
        assert paths(body, content_type="text/plain", hops=hops) == []


@pytest.mark.parametrize(
    "content_type", ["application/gzip", "application/x-gzip", "application/xml", "application/octet-stream", None]
)
def test_packed(content_type: str | None) -> None:
    """sitemap.xml.gz, under any of its types; with a content coding around it too."""
    packed = gzip.compress(urlset("/a").encode())
    assert paths(packed, content_type=content_type) == ["/a"]
    assert paths(gzip.compress(packed), "Content-Encoding: gzip", content_type=content_type) == ["/a"]
    assert paths(gzip.compress(b"http://site.test/a\n"), content_type=content_type) == ["/a"]
    assert paths(gzip.compress(b"something else"), content_type=content_type) == []


def test_a_bomb_stops_at_the_limit() -> None:
    """A small file that would become a gigabyte costs a bounded while, and says so (report G10 c)."""
    start = b"<urlset><loc>/a</loc>"
    bomb = gzip.compress(start + b"\0" * 60_000_000, 9)
    found = parsed(bomb, content_type="application/gzip", wants=EXTRAS)
    assert links(found) == [("/a", NAVIGATION)]
    assert "decoded_limit" in found.flags
    other = gzip.compress(b"\0" * 60_000_000, 9)
    tracemalloc.start()
    assert sitemaps.unpacked(other, b"application/gzip", expected=True) is None
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()


def test_fifty_thousand_urls_and_not_one_more() -> None:
    """The protocol's bound, whatever the bound of a page; what is beyond it is counted."""
    found = parsed(
        urlset(*(f"/p{n}" for n in range(sitemaps.URLS_MAX + 7))), content_type=XML, wants=EXTRAS, links_max=100
    )
    assert len(found.links) == sitemaps.URLS_MAX
    assert found.left_out
    assert {"sitemap", "links_truncated"} <= set(found.flags)


def test_longer_than_a_page_may_be() -> None:
    """A content coding over 20 MB decoded is undone to the sitemaps' own limit."""
    body = urlset(*(f"/p{n}" for n in range(10))).replace("</urlset>", " " * 25_000_000 + "<url><loc>/last</loc></url>")
    found = parsed(gzip.compress(body.encode(), 1), "Content-Encoding: gzip", content_type=XML, wants=EXTRAS)
    assert links(found)[-1] == ("/last", NAVIGATION)


def test_off_is_off() -> None:
    """Plain crawls do not read them."""
    found = parsed(urlset("/a"), content_type=XML, wants=NOTHING_MORE, hops="M")
    assert (found.links, found.flags) == ((), ())


@pytest.mark.parametrize(
    "piece",
    ["<loc>", "<loc ", "<loc a='", '<loc a="', "<!--", "<![CDATA[", "<loc><![CDATA[", "<!DOCTYPE [", "<?", "<", "<a:",
     "<loc><!---->", "<loc>/</loc>", "<loc></loc", "&", "<xhtml:link href=", "<" + "a" * 39 + ":", "<!["],
)  # fmt: skip
def test_time_is_linear(piece: str) -> None:
    """A megabyte of whatever does not end costs what its bytes cost."""
    body = ("<urlset>" + piece * (1_000_000 // len(piece))).encode()
    start = time.process_time()
    for _ in sitemaps.entries(body, "utf-8"):
        pass
    assert time.process_time() - start < 4

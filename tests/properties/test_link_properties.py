"""What holds for every document that may hold links: nothing raises, everything is bounded, off is off."""

from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.admission.hops import keeps_depth, run_of, step
from limpet.model.links import LinkKind
from limpet.model.urls import canonicalize
from limpet.parser import css, feeds, sitemaps, srcset
from limpet.parser.collect import WideFound
from limpet.parser.decode import Decoded
from limpet.parser.documents import header_links, read_document
from limpet.parser.html import attributes, link_tags
from limpet.parser.javascript import needs_javascript
from limpet.parser.linkheader import LINKS_MAX, linked
from limpet.parser.links import extract
from limpet.parser.references import Encoding
from limpet.parser.signals import of_headers
from limpet.parser.wants import Wants

BASE = "http://base.example/d/p.html?q"
ALL = Wants(requisites=True, extras=True)

CSS = st.lists(
    st.sampled_from(
        [
            "url(",
            "URL(",
            ")",
            "'",
            '"',
            "\\",
            "\\75 rl(",
            "@import",
            "@namespace",
            "/*",
            "*/",
            "a",
            " ",
            "\n",
            ";",
            "{",
            "}",
            "#x",
            "data:",
            "\r\n",
            "é",
            "(",
            "-",
            ",",
            "0",
            "@",
            "\0",
        ]
    ),
    max_size=40,
).map("".join)
HTML = st.lists(
    st.sampled_from(
        [
            b"<p style=",
            b"<style>",
            b"</style>",
            b"<img srcset=",
            b" src=",
            b"<link rel=",
            b"stylesheet",
            b"preload",
            b" as=image",
            b"canonical",
            b"alternate",
            b" type=application/rss+xml",
            b" href=",
            b"'",
            b'"',
            b">",
            b"url(",
            b")",
            b"x",
            b" ",
            b",",
            b"<svg>",
            b"<use ",
            b"<script ",
            b"</script>",
            b"<template>",
            b"<noscript>",
            b"&#40;",
            b" background=",
            b"<input type=image",
            b"<meta name=robots content=",
            b"none",
            b"\xe9",
            b"\0",
            b"<base href=",
            b"http://o/",
            b"<!--",
            b"-->",
            b"/",
            b"=",
            b"<",
        ]
    ),
    max_size=40,
).map(b"".join)
XML = st.lists(
    st.sampled_from(
        [
            b"<urlset>",
            b"<sitemapindex>",
            b"<loc>",
            b"</loc>",
            b"<rss>",
            b"<feed>",
            b"<item>",
            b"<entry>",
            b"</item>",
            b"<link>",
            b"<link href=",
            b"'/x'",
            b"/>",
            b">",
            b"<![CDATA[",
            b"]]>",
            b"<!--",
            b"-->",
            b"<?xml encoding='utf-16'?>",
            b"<!DOCTYPE [",
            b"&amp;",
            b"&l;",
            b"/x",
            b"http://h/",
            b"\n",
            b"\xff\xfe",
            b"\x1f\x8b",
            b"{",
            b'"version":"https://jsonfeed.org/version/1"',
            b'"items":[',
            b"s:",
            b"<",
            b"\0",
        ]
    ),
    max_size=30,
).map(b"".join)
TYPES = st.sampled_from(
    [
        b"",
        b"text/html",
        b"text/css",
        b"text/xml",
        b"application/xml",
        b"text/plain",
        b"application/json",
        b"application/gzip",
        b"application/rss+xml",
        b"text/css; charset=utf-16",
        b"application/xhtml+xml",
        b"\xff",
    ]
)
FIELD = st.lists(
    st.sampled_from(
        [
            b"<",
            b">",
            b";",
            b",",
            b"rel=",
            b"next",
            b'"',
            b"\\",
            b"=",
            b" ",
            b"\t",
            b"/x",
            b"anchor",
            b"stylesheet",
            b"\xff",
        ]
    ),
    max_size=30,
).map(b"".join)


@settings(max_examples=400)
@given(CSS)
def test_style_sheets_are_total(sheet: str) -> None:
    """Every reference is some text of the sheet; there are no more than there are ways to name one."""
    found = list(css.references(sheet))
    assert all(found)
    assert len(found) <= sheet.lower().count("(") + sheet.count("@")


@given(CSS)
def test_what_stands_before_does_not_hide_what_follows(sheet: str) -> None:
    """A closed rule put in front changes nothing of the rest."""
    assert list(css.references("a{b:url(first)}" + sheet)) == ["first", *css.references(sheet)]


@given(st.text(alphabet="ab,() \t\n123wx", max_size=60))
def test_candidates_are_total_and_bare(text: str) -> None:
    """No candidate holds white space, begins or ends with a comma, or is empty."""
    for reference in srcset.candidates(text):
        assert reference
        assert reference == reference.strip(",")
        assert not set(reference) & set(" \t\n")


@settings(max_examples=500)
@given(st.one_of(HTML, st.binary(max_size=100)), TYPES)
def test_pages_are_total_and_off_is_off(body: bytes, content_type: bytes) -> None:
    """Links are canonical, distinct and bounded; what a plain crawl finds, a crawl that wants more finds too."""
    wide = extract(body, url=BASE, content_type=content_type, wants=ALL)
    narrow = extract(body, url=BASE, content_type=content_type)
    assert {link.kind for link in narrow.links} <= {LinkKind.NAVIGATION, LinkKind.REDIRECT}
    assert {(link.url, link.kind) for link in narrow.links} <= {(link.url, link.kind) for link in wide.links}
    assert len({(link.url, link.kind) for link in wide.links}) == len(wide.links)
    assert all(canonicalize(link.url) == link.url for link in wide.links)
    assert not any(link.nofollow for link in wide.links if link.kind is LinkKind.REQUISITE)
    assert (wide.base, wide.charset, wide.signals) == (narrow.base, narrow.charset, narrow.signals)
    assert len(extract(body, url=BASE, content_type=content_type, links_max=2, wants=ALL).links) <= 2


@given(st.one_of(HTML, st.binary(max_size=100)))
def test_the_wide_tokenizer_sees_what_the_narrow_one_sees(body: bytes) -> None:
    """The same tags in the same order, and more between them."""
    names = {b"a", b"area", b"base", b"frame", b"iframe", b"meta"}
    wide = [(name.lower(), written) for name, written in link_tags(body, wide=True) if name.lower() in names]
    assert wide == [(name.lower(), written) for name, written in link_tags(body)]


@settings(max_examples=500)
@given(XML, TYPES, st.booleans(), st.sampled_from([Wants(), ALL]))
def test_documents_are_total(body: bytes, content_type: bytes, as_sitemap: bool, wants: Wants) -> None:
    """Whatever a document is taken for, its links are canonical and bounded; a plain crawl takes none."""
    found = read_document(
        Decoded(body, frozenset()),
        url=BASE,
        essence=content_type.partition(b";")[0],
        content_type=content_type,
        links_max=5,
        wants=wants,
        as_sitemap=as_sitemap,
    )
    assert wants.wide or found.links.links == []
    assert "sitemap" in found.flags or len(found.links.links) <= 5
    assert all(canonicalize(link.url) == link.url for link in found.links.links)


@given(XML)
def test_sitemaps_and_feeds_are_total(body: bytes) -> None:
    """In whatever encoding."""
    for codec in ("utf-8", "utf-16-le", "iso2022_jp", "ascii"):
        list(sitemaps.entries(body, codec))
        list(sitemaps.lines(body, codec))
        list(feeds.links(body, codec))
    list(feeds.json_links(body))


@settings(max_examples=400)
@given(st.lists(st.one_of(FIELD, st.binary(max_size=40)), max_size=5))
def test_link_fields_are_total(values: list[bytes]) -> None:
    """Bounded; names in lower case; no target holds an angle bracket."""
    found = list(linked(values))
    assert len(found) <= LINKS_MAX
    for target, parameters in found:
        assert not set(target) & set(b"<>")
        assert all(name == name.lower() for name in parameters)
    assert list(header_links(values, Wants())) == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"X-Robots-Tag", b"tdm-reservation", b"Content-Usage", b"x"]), st.binary(max_size=50)
        )
    )
)
def test_signals_are_total(headers: list[tuple[bytes, bytes]]) -> None:
    """Few, short, printable."""
    assert all(signal.isprintable() for signal in of_headers(headers, b"limpet"))


@given(HTML, st.integers(0, 10))
def test_every_page_gets_a_verdict(body: bytes, links: int) -> None:
    """The heuristic is total."""
    assert needs_javascript(body, links) in (True, False)


@given(st.text(alphabet="LREM", max_size=12), st.sampled_from(LinkKind))
def test_a_path_that_keeps_its_depth_ends(hops: str, kind: LinkKind) -> None:
    """No step can be repeated for ever at one depth, redirects and sitemaps aside: these have rules of their own."""
    path = hops
    for _ in range(3):
        path = step(path, kind)
    assert run_of(path, path[-1]) >= 3 or path.endswith("R")
    if kind not in (LinkKind.REDIRECT, LinkKind.SITEMAP):
        assert not keeps_depth(path, kind)


@given(HTML)
def test_attributes_of_whatever_is_yielded_are_read(body: bytes) -> None:
    """Any tag that comes out of the wide tokenizer can be asked for its attributes, style sheets included."""
    for _, written in link_tags(body, wide=True):
        attributes(written, {b"style"})


ANCHOR = st.lists(
    st.sampled_from(
        [
            b' href="/x"',
            b' href="/y#z"',
            b" href=/bare",
            b" href='/single'",
            b' HREF="/upper"',
            b'\nhref="/line"',
            b' xlink:href="/xlink"',
            b' rel="nofollow"',
            b" rel=ugc",
            b' style="background:url(/image)"',
            b' background="/paper"',
            b' class="c href=/no"',
            b' id="i"',
            b' title="&quot;"',
            b' target="_top"',
            b' data-href="/no"',
            b' data-x="1"',
            b' aria-label="l"',
            b" download",
            b' class="c"href="/joined"',
            b" ",
            b"/",
            b' title="open',
        ]
    ),
    max_size=6,
).map(b"".join)


class Slow(WideFound):
    """Takes every anchor the long way."""

    def tag(self, name: bytes, written: bytes) -> None:
        """See `Found.tag`."""
        self._take(name, written)


@settings(max_examples=500)
@given(st.lists(ANCHOR, max_size=3))
def test_plain_anchors_are_read_as_any_others(anchors: list[bytes]) -> None:
    """The short way finds what the long way finds: links, whether they are endorsed, and what styles need."""
    ways = [kind(100, ALL) for kind in (WideFound, Slow)]
    for found in ways:
        for written in anchors:
            found.tag(b"a", written)
    short, long = ([*found.references.items()] for found in ways)
    assert short == long
    assert [*ways[0].requisites.texts(Encoding("utf-8", "utf-8"))] == [
        *ways[1].requisites.texts(Encoding("utf-8", "utf-8"))
    ]

"""The tokenizer: what is a tag, compared with lexbor; and what hostile pages cost."""

import time
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from limpet.parser.html import ATTRIBUTES_MAX, attributes, link_tags
from limpet.parser.references import Encoding, text_of

UTF_8 = Encoding("utf-8", "utf-8")


def hrefs(markup: bytes, *, xml: bool = False) -> list[bytes]:
    found = (attributes(written, {b"href"}) for _, written in link_tags(markup, xml=xml))
    return [tag[b"href"] for tag in found if b"href" in tag]


@pytest.mark.parametrize(
    ("markup", "found"),
    [
        (b"<a href=1>", [b"1"]),
        (b"<A HREF=1>", [b"1"]),
        (b"<a\thref = '1'\n>", [b"1"]),
        (b"<a/href=1/>", [b"1/"]),
        (b"<a href=1 href=2>", [b"1"]),
        (b"<a hreflang=1 data-href=2 href=3>", [b"3"]),
        (b"<a href='a\"b' x>", [b'a"b']),
        (b"<a href=a\"b'c>", [b"a\"b'c"]),
        (b"<a href=a=b>", [b"a=b"]),
        (b"<a title='>' href=1>", [b"1"]),
        (b"<a title=> href=1>", []),
        (b"<a ='x' href=1>", [b"1"]),
        (b"<a href>", [b""]),
        (b"<a href=''>", [b""]),
        (b"<<a href=1>", [b"1"]),
        (b"<p <a href=1>", []),
        (b"<p title='<a href=1>'><a href=2>", [b"2"]),
        (b"</p title='<a href=1>'><a href=2>", [b"2"]),
        (b'<p title="<a href=1>', []),
        (b"<a href=1", []),
        (b"<a href='1>", []),
        (b"<ab href=1><a:b href=2><abbr href=3>", []),
        (b"</a href=1>", []),
        (b"< a href=1>", []),
        (b"a < b <a href=1>", [b"1"]),
    ],
)
def test_tags_and_attributes(markup: bytes, found: list[bytes]) -> None:
    """A tag is what the standard's tokenizer takes for one, with the first attribute of a name."""
    assert hrefs(markup) == found


@pytest.mark.parametrize(
    "hidden",
    [
        b"<!-- {} -->",
        b"<!-- > {} -->",
        b"<!---- {} -->",
        b"<!-- {} --!>",
        b"<!x {}",
        b"<?x {}",
        b"</ {}",
        b"</1 {}",
        b"<script>{}</script>",
        b"<SCRIPT>{}</Script >",
        b"<style>{}</style>",
        b"<title>{}</title>",
        b"<textarea>{}</textarea>",
        b"<xmp>{}</xmp>",
        b"<iframe>{}</iframe>",
        b"<noembed>{}</noembed>",
        b"<noframes>{}</noframes>",
        b"<template>{}</template>",
        b"<template><template></template>{}</template>",
        b"<script><!-- <script> </script> {} --></script>",
        b"<script><!--<script></script>{}</script>",
        b"<script>'</scripty>'{}</script>",
        b"<svg><![CDATA[ > {} ]]></svg>",
        b"<p title='{}'>",
        b'<p x="{}" y>',
    ],
)
def test_what_is_hidden_is_no_tag(hidden: bytes) -> None:
    """Comments, declarations, raw text, attribute values and inert templates hold no links; what follows does."""
    markup = hidden.replace(b"{}", b"<a href=hidden>") + b"<a href=shown>"
    assert hrefs(markup) == [b"shown"]


@pytest.mark.parametrize(
    "shown",
    [
        b"<!-->{}",
        b"<!--->{}",
        b"<!-- -->{}",
        b"<!>{}",
        b"</>{}",
        b"<?>{}",
        b"<!DOCTYPE html>{}",
        b"<![CDATA[>{}",
        b"<noscript>{}</noscript>",
        b"<select>{}</select>",
        b"<svg>{}</svg>",
        b"<svg/><title>x</title>{}",
        b"<svg><script href=x />{}</svg>",
        b"<svg><style/>{}</svg>",
        b"<script><!-- </script>{}",
        b"<script><!--> <script> </script>{}",
        b"<script><!-- <script> --> </script>{}",
        b"<script>a<b</script>{}",
        b"<template></template>{}",
        b"</template>{}",
        b"<template shadowrootmode=open>{}</template>",
        b"<title></title>{}",
        b"<textarea></textarea/>{}",
    ],
)
def test_what_is_shown_is_a_tag(shown: bytes) -> None:
    """Constructs that look as if they hid something and do not."""
    assert hrefs(shown.replace(b"{}", b"<a href=shown>")) == [b"shown"]


@pytest.mark.parametrize(
    "opened", [b"<!--", b"<script>", b"<title>", b"<plaintext>", b"<template>", b"<script><!--<script>"]
)
def test_what_is_never_closed_hides_the_rest(opened: bytes) -> None:
    """As in a browser."""
    assert hrefs(b"<a href=1>" + opened + b"<a href=2>") == [b"1"]


def test_xhtml_closes_empty_elements_and_knows_cdata() -> None:
    """Served as XML, <script/> is over at once; served as HTML it is not."""
    markup = b"<script src='x'/><a href='1'/><![CDATA[<a href='2'>]]><title/><a href='3'/>"
    assert hrefs(markup, xml=True) == [b"1", b"3"]
    assert hrefs(markup) == []


def test_tags_with_very_many_attributes() -> None:
    """Beyond what one match takes, a tag is still a tag; attributes beyond the bound are not looked at."""
    filler = b"".join(b" a%d='>'" % n for n in range(ATTRIBUTES_MAX - 1))
    assert hrefs(b"<a" + filler + b" href=1><a href=2>") == [b"1", b"2"]
    assert hrefs(b"<p" + filler * 40 + b" href=1><a href=2>") == [b"2"]
    assert hrefs(b"</p" + filler * 40 + b"><a href=2>") == [b"2"]
    assert hrefs(b"<a" + filler * 40 + b" href=1><a href=2>") == [b"2"]
    assert hrefs(b"<a" + filler * 40) == []


def test_many_dull_tags_in_a_row() -> None:
    """A run longer than one match skips is skipped in several."""
    assert hrefs(b"<p>x</p>" * 5_000 + b"<a href=1>") == [b"1"]


PIECES = [
    b"<a href=%d>",
    b"<a href='%d'>",
    b'<a class="x" href="%d" rel=y>',
    b"<a href=%d",
    b"<a title='>' href=%d>",
    b"<A\nHREF=%d >",
    b"<p title='<a href=%d>'>",
    b'<p title="',
    b"'",
    b'"',
    b">",
    b"<",
    b"</",
    b"</a>",
    b"</p>",
    b"<p>",
    b"<div class=x>",
    b" ",
    b"text",
    b"=",
    b"/",
    b"<!--",
    b"-->",
    b"--!>",
    b"<!-->",
    b"<!--->",
    b"<!",
    b"<?",
    b"</>",
    b"&amp;",
    b"-",
    b"!",
    b"<script>",
    b"</script>",
    b"</script x>",
    b"<script/>",
    b"<style>",
    b"</style>",
    b"<title>",
    b"</title>",
    b"<textarea>",
    b"</textarea>",
    b"<iframe>",
    b"</iframe>",
    b"<xmp>",
    b"</xmp>",
    b"<b>",
    b"</b>",
    b"<table>",
    b"<td>",
    b"</table>",
    b"<br/>",
    b"<svg><a href=%d></a></svg>",
    b"<svg><style/><path d='<a href=%d>'/></svg>",
    b"<noscript>",
    b"</noscript>",
    b"\0",
    b"<template><a href=%d></a></template>",
    b"<area href=%d>",
    b"<li>",
    b"<h1>",
    b"\xc3\xa9",
    b"\xff",
]


def numbered(pieces: list[bytes]) -> bytes:
    return b"".join(piece.replace(b"%d", b"%d" % number) for number, piece in enumerate(pieces))


def lexbor_hrefs(markup: bytes) -> set[str]:
    tree = LexborHTMLParser(markup)
    found = (node.attributes for name in ("a", "area") for node in tree.tags(name))
    return {tag["href"] or "" for tag in found if "href" in tag}


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map(numbered))
def test_lexbor_finds_the_same_links(markup: bytes) -> None:
    """A tokenizer without a tree sees the links that a full parser sees, on well-formed pages and on soup."""
    assert {text_of(href, UTF_8) for href in hrefs(markup)} == lexbor_hrefs(markup)


SIZE = 150_000
HOSTILE: dict[str, Callable[[int], bytes]] = {
    "nested blocks": lambda n: b"<div>" * n,
    "nested inlines": lambda n: b"<b>" * n,
    "formatting elements to be cloned": lambda n: b"<p>" + b"".join(b"<b i=%d>" % k for k in range(n)) + b"<p>x" * n,
    "unclosed links": lambda n: b"".join(b"<a href=%d><div>" % k for k in range(n)),
    "end tags without start": lambda n: b"<span>" * n + b"</i>" * n,
    "attributes": lambda n: b"<a " + b"".join(b"a%d=1 " % k for k in range(n)) + b">",
    "attributes of a dull tag": lambda n: b"<p " + b"a='>' " * n + b">",
    "attributes without an end": lambda n: b"<p " + b"a=1 " * n,
    "open quotes": lambda n: b"<a href='" * n,
    "alternating quotes": lambda n: b"<a b=\"'\" c='\"'" * n,
    "angle brackets": lambda n: b"<" * n,
    "ends of nothing": lambda n: b"</" * n,
    "declarations": lambda n: b"<!" * n,
    "comments": lambda n: b"<!--" * n,
    "comment ends": lambda n: b"<!--" + b"--!" * n,
    "closed comments": lambda n: b"<!---->" * n,
    "scripts": lambda n: b"<script></script>" * n,
    "nested scripts": lambda n: b"<script><!--" + b"<script></script>" * n,
    "script ends": lambda n: b"<script>" + b"</scrip" * n,
    "titles": lambda n: b"<title>" * n,
    "templates": lambda n: b"<template>" * n,
    "foreign": lambda n: b"<svg>" * n + b"<![CDATA[" * n,
    "spaces": lambda n: b"<a" + b" " * n + b"<a" + b" =" * n,
    "slashes": lambda n: b"<a" + b"/" * n,
}


@pytest.mark.parametrize("shape", list(HOSTILE))
def test_hostile_pages_cost_time_in_proportion(shape: str) -> None:
    """Neither nesting nor anything unclosed makes the work grow faster than the page; quadratic would take minutes."""
    page = HOSTILE[shape](SIZE) + b"<a href=last>"
    start = time.process_time()
    count = sum(1 for _ in link_tags(page))
    assert time.process_time() - start < 3
    assert count <= SIZE + 1


def test_a_page_cannot_grow_in_memory() -> None:
    """35 KB of unclosed formatting elements take gigabytes as a tree, and next to nothing as tokens."""
    page = HOSTILE["formatting elements to be cloned"](2_000)
    tracemalloc.start()
    try:
        assert list(link_tags(page)) == []
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()

"""Links of pages: resolution, kinds, directives, encodings, bounds."""

import time

import pytest

from limpet.model.events import Link
from limpet.model.links import LinkKind
from limpet.parser.links import REFERENCE_BYTES_MAX, URL_BYTES_MAX, Page, extract, redirect_target

URL = "http://127.0.0.1:8080/d/e/page.html"
SITE = "http://127.0.0.1:8080"


def page(
    body: bytes | str, *, content_type: bytes | None = b"text/html", url: str = URL, links_max: int = 10_000
) -> Page:
    return extract(
        body.encode() if isinstance(body, str) else body, url=url, content_type=content_type, links_max=links_max
    )


def urls(body: bytes | str, *, content_type: bytes | None = b"text/html", url: str = URL) -> list[str]:
    return [link.url for link in page(body, content_type=content_type, url=url).links]


def test_base_white_space_refresh_and_foreign_schemes() -> None:
    """A late base counts for all, white space goes, dots stop at the root, other schemes are nothing (report G19)."""
    found = page(
        "<!--" + "x" * 5_000 + '--><base href="/forum/"><meta http-equiv="refresh" content="5; url=r.html">'
        f'<a href="a.html"><a href="\n {SITE}/b.html \n"><a href="../../../c.html"><a href="?q=1">'
        '<a href="//127.0.0.1:8080/d.html"><a href="e\tf.html"><img src="data:image/png;base64,AAAA/BBBB">'
        '<a href="javascript:void(0)"><a href="mailto:x@y"><a href="g.html#frag">'
    )
    assert [link.url.removeprefix(SITE) for link in found.links] == [
        "/forum/r.html",
        "/forum/a.html",
        "/b.html",
        "/c.html",
        "/forum/?q=1",
        "/d.html",
        "/forum/ef.html",
        "/forum/g.html",
    ]
    assert [link.kind for link in found.links] == [LinkKind.REDIRECT] + [LinkKind.NAVIGATION] * 7
    assert found.base == f"{SITE}/forum/"
    assert found.unusable == 2


@pytest.mark.parametrize(
    ("base", "link"),
    [
        ("<base href='/x/'>", "/x/p"),
        ("<base href='x/y'>", "/d/e/x/p"),
        ("<base href='?q'>", "/d/e/p"),
        ("<base target=t><base href='/x/'><base href='/y/'>", "/x/p"),
        ("<base href=' /x/ #frag'>", "/x/p"),
        ("<base href='javascript:1'>", "/d/e/p"),
        ("<base href='data:text/html,x'>", "/d/e/p"),
        ("<base href='http://'>", "/d/e/p"),
        ("<base>", "/d/e/p"),
    ],
)
def test_the_first_usable_base_counts_wherever_it_stands(base: str, link: str) -> None:
    """Relative to the page, less its fragment; a base that is none leaves the page's own URL."""
    assert urls(f"{base}<a href=p>") == [SITE + link]
    assert urls(f"<a href=p>{base}") == [SITE + link]


def test_a_base_of_another_scheme_leaves_only_absolute_links() -> None:
    """The page points elsewhere; inventing http URLs would flood the site with 404s."""
    assert urls("<base href='ftp://o/x/'><a href=p><a href='//o2/p'><a href='http://o3/p'>") == ["http://o3/p"]


def test_kinds_of_reference() -> None:
    """Anchors, areas, SVG links and frames are navigation; images, forms and empty frames are none."""
    body = (
        "<a href=a><area href=b><iframe src=c></iframe><frame src=d><svg><a xlink:href=e /></svg>"
        "<iframe src=''></iframe>"
        "<img src=no><form action=no></form><script src=no></script><link rel=stylesheet href=no><a name=no><a src=no>"
    )
    assert [(link.url.rpartition("/")[2], link.kind.value) for link in page(body).links] == [
        (name, "navigation") for name in "abcde"
    ]


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("5; url=r", "/d/e/r"),
        ("0;URL='r s'", "/d/e/r%20s"),
        ('3,url="r"junk', "/d/e/r"),
        ("5 r", "/d/e/r"),
        (" .5 ; Url = /r", "/r"),
        ("5.9;r", "/d/e/r"),
        ("5;url=r;x", "/d/e/r;x"),
        ("5; uri=r", "/d/e/uri=r"),
        ("5", None),
        ("5;", None),
        ("5; url=", None),
        ("5; url=''", None),
        ("url=r", None),
        ("x; url=r", None),
        ("5x; url=r", None),
        ("", None),
        ("5; url=mailto:x@y", None),
    ],
)
def test_meta_refresh(content: str, target: str | None) -> None:
    """The refresh syntax of the standard, quotes and commas included; a mere reload is no link."""
    content = content.replace('"', "&quot;")
    found = page(f'<meta content="{content}" http-equiv="Refresh">').links
    assert found == ([] if target is None else [Link(SITE + target, LinkKind.REDIRECT)])


@pytest.mark.parametrize(
    ("rel", "nofollow"),
    [
        ("nofollow", True),
        ("NoFollow noopener", True),
        ("x\tUGC", True),
        ("sponsored", True),
        ("noopener", False),
        ("nofollowing", False),
        ("", False),
        ("follow", False),
    ],
)
def test_links_a_page_does_not_endorse(rel: str, nofollow: bool) -> None:
    """rel=nofollow, ugc and sponsored, as words in any case."""
    assert page(f"<a rel='{rel}' href=p>").links == [Link(f"{SITE}/d/e/p", LinkKind.NAVIGATION, nofollow)]


def test_a_link_is_nofollow_only_if_every_mention_is() -> None:
    """One endorsed mention makes a link endorsed, in either order and however it is spelt."""
    for body in ("<a href=p rel=ugc><a href=p>", "<a href=p><a href=p rel=ugc>", "<a href=p rel=ugc><a href='./p'>"):
        assert page(body).links == [Link(f"{SITE}/d/e/p", LinkKind.NAVIGATION, nofollow=False)]
    assert page("<a href=p rel=ugc><a href=./p rel=nofollow>").links[0].nofollow


def test_links_are_distinct_and_in_page_order() -> None:
    """First mention decides the place; fragments and spelling make no other link; a kind does."""
    body = "<a href=b><a href=a#1><a href=a#2><a href=./b><a href='%61'><meta http-equiv=refresh content='0;a'>"
    assert [(link.url, link.kind.value) for link in page(body).links] == [
        (f"{SITE}/d/e/b", "navigation"),
        (f"{SITE}/d/e/a", "navigation"),
        (f"{SITE}/d/e/%61", "navigation"),
        (f"{SITE}/d/e/a", "redirect"),
    ]


@pytest.mark.parametrize(
    ("content", "signals"),
    [
        ("nofollow", {"nofollow"}),
        ("NOINDEX, nofollow", {"noindex", "nofollow"}),
        ("none", {"noindex", "nofollow"}),
        ("noarchive,noindex", {"noarchive", "noindex"}),
        ("index, follow", set()),
        ("noindex nofollow", {"noindex", "nofollow"}),
        ("nosnippet, noai,noimageai", {"nosnippet", "noai", "noimageai"}),
        ("", set()),
    ],
)
def test_meta_robots(content: str, signals: set[str]) -> None:
    """The page's directives, in any case and order; they do not remove links here."""
    found = page(f"<meta name=' Robots ' content='{content}'><a href=p>")
    assert found.signals == signals
    assert len(found.links) == 1


def test_several_meta_robots_add_up() -> None:
    """The strictest reading of two tags; a tag for somebody else says nothing."""
    found = page("<meta name=robots content=noarchive><meta name=robots content=nofollow><meta name=x content=noindex>")
    assert found.signals == {"nofollow", "noarchive"}


CYRILLIC = "/k?q=%D0%9F%D1%80%D0%B8%D0%B2%D0%B5%D1%82"


@pytest.mark.parametrize(
    ("body", "content_type", "target"),
    [
        (b"\xef\xbb\xbf" + "<a href='/k?q=Привет'>".encode(), b"text/html; charset=windows-1251", CYRILLIC),
        (b"<!--" + b"x" * 3_000 + b'--><meta charset="utf-8">' + "<a href='/k?q=Привет'>".encode(), None, CYRILLIC),
        (b'<meta charset="utf-16"><a href="/ok">x</a>', b"text/html", "/ok"),
        (b'<a href="/caf\xe9?q=\xe9">', b"text/html; charset=windows-1252", "/caf%C3%A9?q=%E9"),
        (b'<a href="/caf\xe9?q=\xe9">', b"text/html", "/caf%C3%A9?q=%E9"),
        (b"<meta charset=utf-8><a href='/\xe9?\xe9'>", b"text/html", "/%EF%BF%BD?%EF%BF%BD"),
        ("<a href='/я?я'>".encode("cp1251"), b"text/html; charset=windows-1251", "/%D1%8F?%FF"),
        ("<a href='/表?表'>".encode("cp932"), b"text/html; charset=shift_jis", "/%E8%A1%A8?%95\\"),
        ("<a href='/表?表'>".encode("gb18030"), b"text/html; charset=gb2312", "/%E8%A1%A8?%B1%ED"),
        ("<meta charset=iso-2022-jp><a href='/表?a=表b'>".encode("iso2022_jp"), None, "/%E8%A1%A8?a=%1B$BI=%1B(Bb"),
        ("<a href='/é?é'>".encode("utf-16-le"), b"text/html; charset=utf-16le", "/%C3%A9?%C3%A9"),
        ("\ufeff<a href='/é?é'>".encode("utf-16-be"), b"text/html", "/%C3%A9?%C3%A9"),
        (b"<a href='/?q=&#1103;\xe9'>", b"text/html; charset=windows-1252", "/?q=%26%231103%3B%E9"),
        (b"<a href='/?q=a\xe9#\xe9'>", b"text/html; charset=windows-1252", "/?q=a%E9"),
        (b"<a href='/a&amp;b?c=1&amp;d=2&copy=3'>", b"text/html", "/a&b?c=1&d=2&copy=3"),
        (b"<a href='/a\0b'>", b"text/html", "/a%EF%BF%BDb"),
    ],
)
def test_encodings(body: bytes, content_type: bytes | None, target: str) -> None:
    """Path in UTF-8, query in the page's encoding, as a browser sends them (report G20)."""
    assert urls(body, content_type=content_type) == [SITE + target]


def test_every_encoding_of_the_web_gives_links() -> None:
    """A hostile or rare charset never hides a link and never raises."""
    for label in (
        "utf-8",
        "koi8-r",
        "big5",
        "euc-kr",
        "euc-jp",
        "iso-2022-jp",
        "gb18030",
        "mac",
        "x-user-defined",
    ):
        content_type = b"text/html; charset=" + label.encode()
        assert urls(b"<a href=/ok>\xff\xfe\x80\x1b$B<a href=/ok2>", content_type=content_type)[0] == SITE + "/ok"


@pytest.mark.parametrize(
    "content_type",
    [b"text/html", b"TEXT/HTML;charset=x", b" text/html ; a", b"text/plain, text/html", b"application/xhtml+xml"],
)
def test_html_is_recognised_by_its_header(content_type: bytes) -> None:
    """Case, white space and parameters do not matter."""
    assert urls("<a href=p></a>", content_type=content_type) == [f"{SITE}/d/e/p"]


@pytest.mark.parametrize("content_type", [b"text/plain", b"application/pdf", b"image/svg+xml", b"text/css", b"x/y"])
def test_other_media_types_have_no_links(content_type: bytes) -> None:
    """Text that shows markup is not markup."""
    found = page("<a href=p>", content_type=content_type)
    assert found == Page([], URL)


@pytest.mark.parametrize(
    ("start", "html"),
    [
        (b"<!DOCTYPE html>", True),
        (b"\n\t <HTML>", True),
        (b"\xef\xbb\xbf<p>", True),
        (b"<!-- x -->", True),
        (b"<p>", True),
        (b"<?xml version='1.0'?><html xmlns='x'>", True),
        (b"<?xml version='1.0'?><rss>", False),
        (b"%PDF-1.4", False),
        (b"<pre>", False),
        (b"text ", False),
        (b"", True),
        (b"{", False),
    ],
)
def test_without_a_header_the_first_bytes_decide(start: bytes, html: bool) -> None:
    """The tags by which the sniffing standard knows HTML."""
    for content_type in (None, b"", b" "):
        assert bool(urls(start + b"<a href=p>", content_type=content_type)) is html


def test_the_number_of_links_is_bounded() -> None:
    """The first links_max distinct ones are given, and the page says that there are more."""
    body = "".join(f"<a href={n}><a href={n}#x>" for n in range(50))
    assert not page(body, links_max=50).truncated
    found = page(body, links_max=49)
    assert found.truncated
    assert [link.url.rpartition("/")[2] for link in found.links] == [str(n) for n in range(49)]


def test_a_page_of_nothing_but_links_stays_bounded() -> None:
    """A directive behind a million links is still seen."""
    body = "".join(f"<a href={n}>" for n in range(60_000)) + "<meta name=robots content=nofollow>"
    found = page(body, links_max=10_000)
    assert found.truncated
    assert found.signals == {"nofollow"}
    assert len(found.links) == 10_000


def test_overlong_references_are_counted_not_followed() -> None:
    """Neither a long reference nor a long base makes a message grow."""
    found = page(f"<a href=/{'x' * URL_BYTES_MAX}><a href={'y' * (REFERENCE_BYTES_MAX + 1)}><a href=p>")
    assert [link.url for link in found.links] == [f"{SITE}/d/e/p"]
    assert found.overlong == 2
    long_base = page(f"<base href='/{'x' * URL_BYTES_MAX}/'><a href=p><a href='http://h/'>")
    assert [link.url for link in long_base.links] == ["http://h/"]


def test_userinfo_and_fragment_do_not_leave_the_page() -> None:
    """A link with a password in it is followed without it."""
    assert urls("<a href='http://u:p@h/x#y'>") == ["http://h/x"]


@pytest.mark.parametrize(
    "tag", [b"<div>", b"<b>", b"<a href=x>", b"<table>", b"<svg>", b"<template>", b"<base href=/>"]
)
def test_deep_nesting_is_just_long(tag: bytes) -> None:
    """100,000 nested tags cost what their bytes cost."""
    start = time.process_time()
    page(b"<a href=first>" + tag * 100_000)
    assert time.process_time() - start < 3


@pytest.mark.parametrize(
    ("location", "target"),
    [
        (b"/fa/\xd8\xa7\xd8\xb9", "/fa/%D8%A7%D8%B9"),
        (b"/caf\xe9", "/caf%E9"),
        (b"/a b?c=d e", "/a%20b?c=d%20e"),
        (b"?q=\xe9", "/d/e/page.html?q=%E9"),
        (b" x#f ", "/d/e/x"),
        (b"/a\r\nX: 1", "/aX:%201"),
        (b"", "/d/e/page.html"),
        (b"//127.0.0.1:8080/x", "/x"),
    ],
)
def test_location_bytes_are_not_guessed_at(location: bytes, target: str) -> None:
    """Raw bytes are percent-encoded as they are, blanks as %20 (report G12)."""
    assert redirect_target(location, URL) == SITE + target


@pytest.mark.parametrize("location", [b"mailto:x@y", b"http://", b"//[", b"ftp://h/", b"x" * (REFERENCE_BYTES_MAX + 1)])
def test_locations_that_lead_nowhere(location: bytes) -> None:
    """No http(s) URL, no target."""
    assert redirect_target(location, URL) is None


def test_location_host_in_utf8() -> None:
    """A raw UTF-8 host name is the international name it spells."""
    assert redirect_target("http://bücher.example/".encode(), URL) == "http://xn--bcher-kva.example/"

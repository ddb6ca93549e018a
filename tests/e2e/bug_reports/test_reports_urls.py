"""Reports G18 to G20 and G23: the URL that is asked for, links as browsers resolve them, charsets, target URIs."""

import gzip
import json
from collections.abc import Iterator

import pytest

from e2e.bug_reports.shared_inputs import CONFIG, PATIENCE, B, whole
from e2e.raw_site import RawCrawl, RawSites, Site, answer, ok
from limpet.model.urls import canonicalize
from limpet.warc import index_line, parse_record

PAGE = whole(B)
ASKED = {
    # as a page links to it -> request target
    "/foo%20bar%3a%20%2376%2c#bash": "/foo%20bar%3a%20%2376%2c",
    "/cmp/Dia%25": "/cmp/Dia%25",
    "/a%26b": "/a%26b",
    "/90%+of+My+Mind": "/90%+of+My+Mind",
    "/p%2d1/p%2d2/?q=f": "/p%2d1/p%2d2/?q=f",
    "/u/../../b": "/b",
    "/x/%2e%2E/y": "/y",
    "/c/./d/.": "/c/d/",
    "/a;jsessionid=1": "/a;jsessionid=1",
    "/a;jsessionid=2": "/a;jsessionid=2",
    "?b=2&amp;a=1": "/?b=2&a=1",
    "/q?": "/q?",
    "/q?x": "/q?x",
    "/q?a=%zz": "/q?a=%zz",
    "/two//slashes": "/two//slashes",
    "/back\\slash": "/back/slash",
    "/pipe|?f=A|B": "/pipe|?f=A|B",
    "/%00nul": "/%00nul",
}
SAME = {"/%e3%83%84": "/%E3%83%84", "/k%c3%bc?q=%e9": "/k%C3%BC?q=%E9"}
TRACKED = {"/t?utm_source=x": "/t", "/t2?a=1&amp;gclid=3": "/t2?a=1"}


def links(*targets: str) -> bytes:
    """A page of anchors."""
    return "".join(f'<a href="{target}">x</a>\n' for target in targets).encode()


BASED = (
    b"<!--" + b"x" * 5_000 + b'--><base href="/forum/"><meta http-equiv="refresh" content="5; url=r.html">'
    b'<a href="a.html"><a href="\n http://@AUTHORITY@/b.html \n"><a href="../../../c.html"><a href="?q=1">'
    b'<a href="//@AUTHORITY@/d.html"><a href="e\tf.html"><img src="data:image/png;base64,AAAA/BBBB">'
    b'<a href="javascript:void(0)"><a href="mailto:x@y"><a href="g.html#frag"><a href=" tel:1 "><a href="data:,x/y">'
    b'<a href="#top"><a href="http://"><a href="ftp://@AUTHORITY@/f"><a href="h&#46;html"><a href=i.html>'
    b'<area href="j.html"><a href="\\k.html"><a href="b&amp;c.html"><a href="http:l.html">'
)
BASED_ASKED = [
    "/d/e/page.html", "/forum/r.html", "/forum/a.html", "/b.html", "/c.html", "/forum/?q=1", "/d.html",
    "/forum/ef.html", "/forum/g.html", "/forum/", "/forum/h.html", "/forum/i.html", "/forum/j.html", "/k.html",
    "/forum/b&c.html", "/forum/l.html",
]  # fmt: skip
BASES = {
    "none": (b"", "/in/l"),
    "relative": (b'<base href="sub/">', "/in/sub/l"),
    "second": (b'<base href="/one/"><base href="/two/">', "/one/l"),
    "late": (b"<p>" + b"y" * 9_000 + b'<base href="/late/">', "/late/l"),
    "blank": (b'<base href="  /blank/ ">', "/blank/l"),
    "target-only": (b'<base target="_blank">', "/in/l"),
    "no-url": (b'<base href="http://[">', "/in/l"),
    "data": (b'<base href="data:text/html,">', "/in/l"),
}
SITEMAP = b"<?xml version='1.0'?><urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><url><loc>\n      "
SITEMAP += b"http://@AUTHORITY@/s.html\n   </loc></url></urlset>"
CYRILLIC = "<a href='/k?q=Привет'>Привет</a>".encode()
ENCODED = "/k?q=%D0%9F%D1%80%D0%B8%D0%B2%D0%B5%D1%82"
HTML = b"Content-Type: text/html"
CHARSETS = {
    "mark-over-header": (b"\xef\xbb\xbf" + CYRILLIC, HTML + b"; charset=windows-1251", ENCODED),
    "late-meta": (b"<!--" + b"x" * 3_000 + b'--><meta charset="utf-8">' + CYRILLIC, HTML, ENCODED),
    "impossible-meta": (b'<meta charset="utf-16"><a href="/ok">x</a>', HTML, "/ok"),
    "header-1252": (b'<a href="/caf\xe9?q=\xe9">', HTML + b"; charset=windows-1252", "/caf%C3%A9?q=%E9"),
    "header-over-meta": (b'<meta charset="utf-8"><a href="/h?q=\xe9">', HTML + b"; charset=iso-8859-1", "/h?q=%E9"),
    "quoted-header": (CYRILLIC.decode().encode("koi8-r"), HTML + b'; charset="KOI8-R"', "/k?q=%F0%D2%C9%D7%C5%D4"),
    "http-equiv": (
        b'<meta http-equiv="content-type" content="text/html; charset=windows-1251"><a href="/w?q=\xcf">',
        HTML,
        "/w?q=%CF",
    ),
    "utf-16-mark": ('<a href="/wide?q=é">x</a>'.encode("utf-16"), HTML, "/wide?q=%C3%A9"),
    "shift-jis": ('<a href="/s?q=表">'.encode("cp932"), HTML + b"; charset=Shift_JIS", "/s?q=%95\\"),
    "unknown-label": (b'<a href="/u?q=\xc3\xa9">', HTML + b"; charset=no-such", "/u?q=%C3%A9"),
}  # fmt: skip
TARGETS = {
    "/a b.jpg": "/a%20b.jpg",
    "/ü": "/%C3%BC",
    "/Carisch_(1789–1858).jpg": "/Carisch_(1789%E2%80%931858).jpg",  # noqa: RUF001 - the dash is the case
    "/css?family=A|B": "/css?family=A|B",
    "/x&quot;y<z>": "/x%22y%3Cz%3E",
    "/q?s=a b&quot;c<d>": "/q?s=a%20b%22c%3Cd%3E",
    "/tab&#9;line&#10;": "/tabline",
    "/{curly}^`": "/%7Bcurly%7D%5E%60",
    "/emoji😀": "/emoji%F0%9F%98%80",
}

SITES = {
    "asked": Site({"/": ok(links(*ASKED, *SAME, *SAME.values(), *TRACKED, *TRACKED.values()))}, default=PAGE),
    "based": Site({"/d/e/page.html": ok(BASED)}, ["/d/e/page.html"], default=PAGE),
    "bases": Site(
        {f"/in/{name}": ok(base + b'<a href="l">') for name, (base, _) in BASES.items()},
        [f"/in/{name}" for name in BASES],
    ),
    "sitemap": Site(
        {
            "/robots.txt": answer(b"200 OK", b"Sitemap: http://@AUTHORITY@/sitemap.xml\n", b"Content-Type: text/plain"),
            "/sitemap.xml": ok(SITEMAP, b"Content-Type: application/xml"),
            "/": PAGE,
            "/s.html": PAGE,
        }
    ),
    "charset": Site(
        {f"/page/{name}": answer(b"200 OK", body, kind) for name, (body, kind, _) in CHARSETS.items()},
        [f"/page/{name}" for name in CHARSETS],
    ),
    "targets": Site({"/": answer(b"200 OK", links(*TARGETS), HTML + b"; charset=utf-8")}, default=PAGE),
    "default-port": Site(
        {"/": ok(b'<a href="http://127.0.9.80?a=1"><a href="http://127.0.9.80:80/"><a href="http://127.0.9.80:80/?a=1">')},
        default=PAGE, host="127.0.9.80", port=80,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawCrawl]:
    """One crawl of all of it; port 80 is left out where it cannot be had."""
    try:
        sites = RawSites(SITES).__enter__()
    except OSError:
        sites = RawSites({name: site for name, site in SITES.items() if name != "default-port"}).__enter__()
    try:
        yield RawCrawl(tmp_path_factory.mktemp("urls"), sites, *PATIENCE, "--workers", "2", config=CONFIG)
    finally:
        sites.__exit__()


@pytest.mark.parametrize(("link", "target"), ASKED.items())
def test_g18_the_resource_asked_for_is_the_one_linked_to(crawl: RawCrawl, link: str, target: str) -> None:
    """Escapes, order and case are sent as written, once; the record is filed under the URL that was sent."""
    assert crawl.sites.asked("asked").count(target) == 1, link
    assert crawl.one("asked", target).payload == B or target == "/"
    assert crawl.state("asked", target) == ("fetched", "")


@pytest.mark.parametrize(("one", "other"), SAME.items())
def test_g18_the_case_of_escapes_makes_no_second_fetch(crawl: RawCrawl, one: str, other: str) -> None:
    """One fetch, in one of the two spellings."""
    asked = crawl.sites.asked("asked")
    assert asked.count(one) + asked.count(other) == 1


@pytest.mark.parametrize(("one", "other"), [(link.replace("&amp;", "&"), bare) for link, bare in TRACKED.items()])
def test_g18_the_lossy_key_is_never_sent(crawl: RawCrawl, one: str, other: str) -> None:
    """What counts as one page is fetched once, in a spelling that a page wrote."""
    asked = crawl.sites.asked("asked")
    assert asked.count(one) + asked.count(other) == 1


def test_g18_nothing_else_is_asked_for_and_all_is_stable(crawl: RawCrawl) -> None:
    """No target was made up, and each URL is its own canonical form."""
    known = {"/", *ASKED.values(), *SAME, *SAME.values(), *TRACKED.values(), "/t?utm_source=x", "/t2?a=1&gclid=3"}
    assert set(crawl.sites.asked("asked")) <= known
    assert all(canonicalize(url) == url for url in crawl.rows)


def test_g18_the_default_port_is_no_other_site(crawl: RawCrawl) -> None:
    """`http://h?a=1`, `http://h:80/` and `http://h/` are two resources, each asked for once."""
    if "http://127.0.9.80/" not in crawl.rows:
        pytest.skip("port 80 of 127.0.9.80 cannot be had here")
    assert sorted(crawl.sites.asked("default-port")) == ["/", "/?a=1"]
    assert all(b"\r\nHost: 127.0.9.80\r\n" in head for head in crawl.sites.heads("default-port"))


def test_g19_links_resolve_as_in_a_browser(crawl: RawCrawl) -> None:
    """Base, blanks, tabs, refresh, references above the root; nothing from data:, javascript: and mailto:."""
    assert sorted(crawl.sites.asked("based")) == sorted(BASED_ASKED)


@pytest.mark.parametrize("name", BASES)
def test_g19_the_first_usable_base_counts(crawl: RawCrawl, name: str) -> None:
    """Wherever it stands, and whatever is wrong with it: no false URLs, no lost ones."""
    assert BASES[name][1] in crawl.sites.asked("bases")
    assert set(crawl.sites.asked("bases")) == {f"/in/{name}" for name in BASES} | {link for _, link in BASES.values()}


def test_g19_white_space_in_a_sitemap_is_no_part_of_a_url(crawl: RawCrawl) -> None:
    """The location is fetched, without %0A and %20."""
    assert crawl.sites.asked("sitemap").count("/s.html") == 1


def test_g19_no_blank_ever_becomes_part_of_a_host_or_path(crawl: RawCrawl) -> None:
    """Of all that was asked for, only what pages wrote as a blank inside a path holds one."""
    asked = {target for name in ("based", "bases", "sitemap") for target in crawl.sites.asked(name)}
    assert not [target for target in asked if "%0A" in target or "%20" in target or "%09" in target]


@pytest.mark.parametrize("name", CHARSETS)
def test_g20_links_are_read_in_the_encoding_that_a_browser_uses(crawl: RawCrawl, name: str) -> None:
    """Byte order mark, then header, then meta; the record is never re-encoded."""
    body, _, target = CHARSETS[name]
    assert target in crawl.sites.asked("charset")
    assert crawl.one("charset", f"/page/{name}").payload == body


def test_g20_no_link_was_misread(crawl: RawCrawl) -> None:
    """Nothing but the expected targets was asked for."""
    expected = {f"/page/{name}" for name in CHARSETS} | {target for *_, target in CHARSETS.values()}
    assert set(crawl.sites.asked("charset")) == expected


@pytest.mark.parametrize(("link", "target"), TARGETS.items())
def test_g23_a_target_uri_is_the_url_requested(crawl: RawCrawl, link: str, target: str) -> None:
    """Plain ASCII without bracket, blank or quote, in every record of the capture."""
    assert crawl.sites.asked("targets").count(target) == 1, link
    uri = crawl.one("targets", target).fields["WARC-Target-URI"]
    assert uri == crawl.sites.url("targets", target)
    assert uri.isascii()
    assert not set(uri) & set(' "<>')


def test_g23_index_lines_have_three_columns(crawl: RawCrawl) -> None:
    """Key, time and JSON of every sealed segment, whatever the URL."""
    lines = [line for path in (crawl.folder / "segments").glob("*.cdxj") for line in path.read_text().splitlines()]
    assert len(lines) >= len(crawl.rows)
    for line in lines:
        key, time, entry = line.split(" ", 2)
        assert key.isascii()
        assert len(time) == 14
        assert " " not in entry
        assert json.loads(entry)["url"] in crawl.archive


@pytest.mark.parametrize(
    ("written", "clean"),
    [
        (b"<http://127.0.0.1/x>", "http://127.0.0.1/x"),
        (b"http://127.0.0.1/a b.jpg", "http://127.0.0.1/a%20b.jpg"),
        ("http://127.0.0.1/ü".encode(), "http://127.0.0.1/%C3%BC"),
        (b"< http://127.0.0.1/x >", "http://127.0.0.1/x"),
    ],
)
def test_g23_target_uris_of_other_writers_are_read(written: bytes, clean: str) -> None:
    """Our reader and our index report the clean URL."""
    block = whole(B)
    lines = [
        b"WARC/1.0",
        b"WARC-Type: response",
        b"WARC-Record-ID: <urn:uuid:6d1f9f6a-0d3c-4c58-8f7e-3f1d3f6f2c11>",
        b"WARC-Date: 2016-01-11T23:24:25Z",
        b"WARC-Target-URI: " + written,
        b"Content-Type: application/http; msgtype=response",
        b"Content-Length: %d" % len(block),
    ]
    member = gzip.compress(b"\r\n".join([*lines, b"", block, b"", b""]))
    assert parse_record(member, block_bytes_max=1_000).header.uri == clean
    line = index_line(member, "other.warc.gz", 0)
    assert line is not None
    assert json.loads(line.split(b" ", 2)[2])["url"] == clean


def test_the_archive_of_it_all_is_intact(crawl: RawCrawl) -> None:
    """`verify` and `audit` find nothing."""
    assert crawl.verify() == crawl.audit() == []

"""WHATWG encoding sniffing, one test a rule (https://html.spec.whatwg.org/#determining-the-character-encoding)."""

import pytest

from limpet.parser.charset import encoding_of
from limpet.parser.links import extract
from unit.parser.pages import parsed

HEADER = b"text/html; charset=windows-1251"


def test_a_mark_beats_header_and_page() -> None:
    """Step 1: the byte order mark is the last word."""
    body = b"<meta charset=koi8-r>"
    assert encoding_of(b"\xef\xbb\xbf" + body, HEADER) == "utf-8"
    assert encoding_of(b"\xff\xfe" + body, HEADER) == "utf-16-le"
    assert encoding_of(b"\xfe\xff" + body, HEADER) == "utf-16-be"


def test_a_cut_mark_is_none() -> None:
    """Two of three bytes prove nothing."""
    assert encoding_of(b"\xef\xbb<meta charset=koi8-r>", HEADER) == "cp1251"


def test_the_header_beats_the_page() -> None:
    """Step 4: the transport layer comes before the prescan."""
    assert encoding_of(b"<meta charset=koi8-r>", HEADER) == "cp1251"


def test_a_header_without_a_known_label_is_no_header() -> None:
    """An unknown label is not an encoding: the next rule decides."""
    for header in (b"text/html; charset=klingon", b"text/html; charset=", b"text/html", None):
        assert encoding_of(b"<meta charset=koi8-r>", header) == "koi8_r"


@pytest.mark.parametrize("offset", [0, 500, 1_000])
def test_the_prescan_finds_a_declaration_within_1024_bytes(offset: int) -> None:
    """Step 5, the prescan."""
    assert encoding_of(b"<!--" + b"x" * offset + b"--><meta charset=koi8-r>", None) == "koi8_r"


@pytest.mark.parametrize("offset", [1_024, 4_000, 100_000])
def test_a_late_declaration_counts_too(offset: int) -> None:
    """As in browsers, where the parser changes the encoding while it reads (report G20 b)."""
    assert encoding_of(b"<!--" + b"x" * offset + b"--><meta charset=koi8-r>", None) == "koi8_r"


def test_http_equiv_needs_its_pragma() -> None:
    """A content attribute counts only beside ``http-equiv=content-type``."""
    content = b'content="text/html; charset=koi8-r"'
    assert encoding_of(b"<meta http-equiv=Content-Type " + content + b">", None) == "koi8_r"
    assert encoding_of(b"<meta " + content + b">", None) == "utf-8"


def test_the_first_declaration_that_is_one_counts() -> None:
    """An unknown label does not end the search."""
    assert encoding_of(b"<meta charset=klingon><meta charset=koi8-r><meta charset=big5>", None) == "koi8_r"


@pytest.mark.parametrize("label", [b"utf-16", b"utf-16le", b"UTF-16BE", b"ucs-2", b"iso-10646-ucs-2"])
def test_utf_16_in_a_meta_means_utf_8(label: bytes) -> None:
    """Who could read the tag is not reading UTF-16 (report G20 c)."""
    assert encoding_of(b"<meta charset=" + label + b">", None) == "utf-8"
    page = extract(b"<meta charset=" + label + b"><a href=/ok>", url="http://h/", content_type=None)
    assert [link.url for link in page.links] == ["http://h/ok"]


def test_x_user_defined_in_a_meta_means_windows_1252() -> None:
    """The prescan's own exception."""
    assert encoding_of(b"<meta charset=x-user-defined>", None) == "cp1252"


@pytest.mark.parametrize(
    ("start", "codec"),
    [
        (b'<?xml version="1.0" encoding="koi8-r"?>', "koi8_r"),
        (b"<?xml version='1.0' encoding = 'koi8-r' ?>", "koi8_r"),
        (b'<?xml version="1.0" encoding="utf-16"?>', "utf-8"),
        (b'<?xml version="1.0" encoding="klingon"?>', "utf-8"),
        (b'<?xml version="1.0"?>', "utf-8"),
        (b' <?xml version="1.0" encoding="koi8-r"?>', "utf-8"),
        (b'<?XML version="1.0" encoding="koi8-r"?>', "utf-8"),
        (b'<?xml version="1.0" encoding="koi8-r"?><meta charset=big5>', "big5hkscs"),
    ],
)
def test_an_xml_declaration_counts_when_no_meta_does(start: bytes, codec: str) -> None:
    """At the very start, in lower case, as the standard reads it."""
    assert encoding_of(start + b"<html>", None) == codec


@pytest.mark.parametrize(
    "hidden",
    [
        b"<!-- <meta charset=koi8-r> -->",
        b"<script><meta charset=koi8-r></script>",
        b"<style><meta charset=koi8-r></style>",
        b"<title><meta charset=koi8-r></title>",
        b"<p title='<meta charset=koi8-r>'>",
        b"<metal charset=koi8-r>",
        b"<meta data-charset=koi8-r>",
    ],
)
def test_what_is_no_meta_declares_nothing(hidden: bytes) -> None:
    """Comments, raw text, attribute values, other names."""
    assert encoding_of(hidden, None) == "utf-8"


def test_without_any_word_the_bytes_decide() -> None:
    """UTF-8 when all of them are, windows-1252 otherwise: what the standard leaves to the implementation."""
    assert encoding_of("é".encode(), None) == "utf-8"
    assert encoding_of(b"\xe9", None) == "cp1252"


REFUSED_LABELS = ["csiso2022kr", "hz-gb-2312", "iso-2022-cn", "ISO-2022-CN-ext", "iso-2022-kr", "replacement"]


@pytest.mark.parametrize("label", REFUSED_LABELS)
def test_a_document_in_a_refused_encoding_yields_no_links(label: str) -> None:
    """The replacement encoding, by header or by the document's own word: nothing is smuggled in, and a flag says so."""
    body = "<a href=/a><img src=/i>"
    sitemap = "<urlset><url><loc>/s</loc></url></urlset>"
    refused = [
        parsed(body, content_type=f"text/html; charset={label}"),
        parsed(f"<meta charset={label}>" + body),
        parsed(f'<?xml version="1.0" encoding="{label}"?><html>' + body, content_type="application/xhtml+xml"),
        parsed("p { background: url(/x) }", content_type=f"text/css; charset={label}"),
        parsed(f'@charset "{label}"; p {{ background: url(/x) }}', content_type="text/css"),
        parsed(sitemap, content_type=f"application/xml; charset={label}"),
        parsed(f'<?xml version="1.0" encoding="{label}"?>' + sitemap, content_type="text/xml"),
        parsed("http://site.test/x", content_type=f"text/plain; charset={label}", hops="M"),
    ]
    assert [found.links for found in refused] == [()] * len(refused)
    assert all("charset_refused" in found.flags for found in refused)


def test_a_mark_or_a_known_label_before_it_saves_a_document() -> None:
    """The order in which an encoding is found out holds for the refused one, too."""
    assert len(parsed(b"\xef\xbb\xbf<a href=/a>", content_type="text/html; charset=iso-2022-kr").links) == 1
    assert len(parsed("<meta charset=hz-gb-2312><a href=/a>", content_type="text/html; charset=utf-8").links) == 1
    assert parsed("<meta charset=utf-8><meta charset=hz-gb-2312><a href=/a>").flags == ()


def test_a_refused_page_still_says_what_it_asks_and_what_its_headers_announce() -> None:
    """Signals are recorded, and header fields are in no encoding."""
    body = "<meta charset=iso-2022-kr><meta name=robots content=noarchive><a href=/a>"
    found = parsed(body, "Refresh: 0; url=/r", "Link: </n>; rel=next")
    assert [link.url for link in found.links] == ["http://site.test/r", "http://site.test/n"]
    assert found.flags == ("charset_refused", "signal:noarchive")


def test_wide_crawls_sniff_alike() -> None:
    """Requisites are read in the same encoding as links."""
    from limpet.parser.wants import Wants

    body = b"<meta charset=windows-1252><a href='/?\xe9'><img src='/i?\xe9'>"
    page = extract(body, url="http://h/", content_type=b"text/html", wants=Wants(requisites=True))
    assert [link.url for link in page.links] == ["http://h/?%E9", "http://h/i?%E9"]

"""Which encoding a page is taken to be in."""

import codecs

import pytest

from limpet.parser.charset import encoding_of
from limpet.parser.labels import codec_for

RUSSIAN = "<p>Привет</p>"
LATE_META = b"<!-- " + b"x" * 3000 + b' --><meta charset="windows-1251">'


@pytest.mark.parametrize(
    ("body", "content_type", "codec"),
    [
        (b"\xef\xbb\xbf" + RUSSIAN.encode(), b"text/html; charset=windows-1251", "utf-8"),
        (b"\xff\xfe" + RUSSIAN.encode("utf-16-le"), b"text/html; charset=utf-8", "utf-16-le"),
        (b"\xfe\xff" + RUSSIAN.encode("utf-16-be"), None, "utf-16-be"),
        (b'<meta charset="koi8-r">', b"text/html; charset=windows-1251", "cp1251"),
        (b'<meta charset="koi8-r">', b"text/html; charset=nonsense", "koi8_r"),
        (b'<meta charset="koi8-r">', b"text/html", "koi8_r"),
        (LATE_META, None, "cp1251"),
        (RUSSIAN.encode(), None, "utf-8"),
        (RUSSIAN.encode()[:-6], None, "utf-8"),
        (b"caf\xe9", None, "cp1252"),
        (b"plain", None, "utf-8"),
        (b"", None, "utf-8"),
    ],
)
def test_mark_beats_header_beats_page_beats_guess(body: bytes, content_type: bytes | None, codec: str) -> None:
    """Byte order mark, HTTP charset, meta anywhere, valid UTF-8 (its last character may be cut), windows-1252."""
    assert encoding_of(body, content_type) == codec


@pytest.mark.parametrize("label", [b"utf-16", b"UTF-16LE", b"utf-16be", b"unicode"])
def test_a_readable_utf16_declaration_means_utf8(label: bytes) -> None:
    """A page whose meta could be read as ASCII is not in UTF-16, whoever says so."""
    assert encoding_of(b"<meta charset=" + label + b"><a href=/ok>", None) == "utf-8"
    assert encoding_of(b"<a href=/ok>", b"text/html; charset=" + label) == "utf-8"


def test_a_utf16_header_is_believed_when_the_bytes_can_be_it() -> None:
    """UTF-16 without a mark, announced by the server."""
    assert encoding_of("<a href=/ok>".encode("utf-16-be"), b"text/html; charset=utf-16be") == "utf-16-be"


@pytest.mark.parametrize(
    ("markup", "codec"),
    [
        (b"<meta charset=windows-1251>", "cp1251"),
        (b"<META CHARSET=' Windows-1251 '>", "cp1251"),
        (b'<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">', "cp1251"),
        (b"<meta content='text/html;charset = \"windows-1251\"' http-equiv=content-type>", "cp1251"),
        (b'<meta content="text/html; charset=windows-1251">', "utf-8"),
        (b'<meta name=x content="charset=windows-1251">', "utf-8"),
        (b"<meta charset=no-such><meta charset=windows-1251>", "cp1251"),
        (b"<meta charset=koi8-r><meta charset=windows-1251>", "koi8_r"),
        (b"<!-- <meta charset=windows-1251> -->", "utf-8"),
        (b"<script>'<meta charset=windows-1251>'</script>", "utf-8"),
        (b"<p title='<meta charset=windows-1251>'>", "utf-8"),
        (b'<?xml version="1.0" encoding="windows-1251"?><html>', "cp1251"),
        (b"<?xml version='1.0' encoding='koi8-r'?><meta charset=windows-1251>", "cp1251"),
        (b"<meta charset", "utf-8"),
    ],
)
def test_what_counts_as_a_declaration(markup: bytes, codec: str) -> None:
    """A meta tag that is a tag, the first with a known label; an XML declaration only when there is none."""
    assert encoding_of(markup, None) == codec


@pytest.mark.parametrize(
    "content_type",
    [b'text/html; charset="windows-1251"', b"text/html;charset='windows-1251'", b"text/html; a=b; Charset=CP1251;"],
)
def test_spellings_of_the_header(content_type: bytes) -> None:
    """Quotes, case and further parameters do not matter."""
    assert encoding_of(b"x", content_type) == "cp1251"


@pytest.mark.parametrize(
    ("label", "codec"),
    [
        (b"ISO-8859-1", "cp1252"),
        (b"us-ascii", "cp1252"),
        (b"latin5", "cp1254"),
        (b"gb2312", "gb18030"),
        (b"shift_jis", "cp932"),
        (b"euc-kr", "cp949"),
        (b"big5", "big5hkscs"),
        (b"tis-620", "cp874"),
        (b"x-user-defined", "cp1252"),
        (b"hz-gb-2312", "ascii"),
        (b" UTF8\n", "utf-8"),
    ],
)
def test_labels_mean_what_the_web_means(label: bytes, codec: str) -> None:
    """Old names stand for the supersets that pages use under them."""
    assert codec_for(label) == codec


@pytest.mark.parametrize(
    "label", [b"utf-7", b"base64", b"rot13", b"idna", b"punycode", b"unicode_escape", b"cp037", b"", b"\xff"]
)
def test_a_page_cannot_choose_just_any_codec(label: bytes) -> None:
    """Codecs that are no encodings of the web are not reached from a page."""
    assert codec_for(label) is None


def test_every_codec_named_exists_and_replaces_errors() -> None:
    """Whatever a label leads to can decode any bytes."""
    labels = [b"866", b"l2", b"l3", b"l4", b"cyrillic", b"arabic", b"greek", b"hebrew", b"l6", b"iso-8859-13"]
    labels += [b"iso-8859-14", b"l9", b"iso-8859-16", b"koi", b"koi8-u", b"mac", b"x-mac-cyrillic", b"windows-874"]
    labels += [b"windows-125%d" % n for n in range(9)]
    labels += [b"gbk", b"big5", b"euc-jp", b"iso-2022-jp", b"sjis", b"korean", b"iso-2022-kr", b"utf-16be", b"utf-16"]
    for label in labels:
        codec = codec_for(label)
        assert codec is not None, label
        assert codecs.lookup(codec)
        bytes(range(256)).decode(codec, "replace")

"""Which encoding a page is in: byte order mark, HTTP header, the page's own word, valid UTF-8, windows-1252.

The order is that of https://html.spec.whatwg.org/#determining-the-character-encoding, with
two allowances that real pages need: a declaration counts wherever in the page it stands, not only in
the first 1,024 bytes, and a UTF-16 label is believed only when the bytes can be UTF-16.
"""

import codecs
import re
from collections.abc import Iterable
from typing import Final

from limpet.parser.html import Tag, attributes, link_tags
from limpet.parser.labels import ISO_2022_JP, REPLACEMENT, UTF_8, UTF_16, WINDOWS_1252, codec_for

NOT_ASCII_COMPATIBLE: Final = UTF_16 | {ISO_2022_JP}
"""Codecs whose bytes cannot be tokenized before they are decoded."""

REFUSED: Final = "charset_refused"
"""Flag of an output: the document is labelled with an encoding of which browsers show U+FFFD and nothing else."""

_MARKS: Final = ((b"\xef\xbb\xbf", UTF_8), (b"\xfe\xff", "utf-16-be"), (b"\xff\xfe", "utf-16-le"))
_CHARSET: Final = re.compile(
    rb"""charset[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:"([^"]*+)"|'([^']*+)'|([^\t\n\f\r ;"']++))""", re.IGNORECASE
)
_XML_ENCODING: Final = re.compile(
    rb"""<\?xml[^>]{0,200}?[\t\n\r ]encoding[\t\n\r ]{0,9}=[\t\n\r ]{0,9}["']([\w.:-]+)"""
)
_LOOKED_AT: Final = frozenset({b"charset", b"http-equiv", b"content"})
_PROBE_BYTES: Final = 1024


def encoding_of(body: bytes, content_type: bytes | None) -> str:
    """The name of the Python codec that decodes `body`, an HTML page. Decode with ``errors="replace"``.

    `content_type` is the value of the header, None when there was none. Never raises; linear time.
    """
    outer = encoding_from_outside(body, content_type)
    return outer or declared_encoding(body, link_tags(body)) or fallback_encoding(body)


def encoding_from_outside(body: bytes, content_type: bytes | None) -> str | None:
    """What byte order mark or header say, in this order; None when they say nothing that can be right."""
    for mark, marked in _MARKS:
        if body.startswith(mark):
            return marked
    codec = codec_for(charset_parameter(content_type or b"") or b"")
    return None if codec in UTF_16 and b"\0" not in body[:_PROBE_BYTES] else codec


def is_refused(codec: str) -> bool:
    """Whether `codec` stands for the "replacement" encoding: no link may be read out of what is in it.

    Source: https://encoding.spec.whatwg.org/#replacement
    """
    return codec == REPLACEMENT


def declared_encoding(body: bytes, tags: Iterable[Tag]) -> str | None:
    """What the page says of itself: the first ``meta`` among `tags` with a known label, or its XML declaration."""
    for name, written in tags:
        if name == b"meta" and (codec := encoding_from_meta(written)):
            return codec
    return _believed(_XML_ENCODING.match(body[:_PROBE_BYTES]))


def encoding_from_meta(written: bytes) -> str | None:
    """The codec that one ``meta`` tag declares, given its attributes as written; None when it declares none."""
    found = attributes(written, _LOOKED_AT)
    label = found.get(b"charset")
    if label is None and found.get(b"http-equiv", b"").lower() == b"content-type":
        label = charset_parameter(found.get(b"content", b""))
    return _ascii_compatible(codec_for(label or b""))


def fallback_encoding(body: bytes) -> str:
    """UTF-8 when all of `body` is; otherwise windows-1252. A cut last character passes, if it is not the only proof."""
    if body.isascii():
        return UTF_8
    try:
        _, length = codecs.utf_8_decode(body, "strict", False)
    except UnicodeDecodeError:
        return WINDOWS_1252
    return UTF_8 if length == len(body) or not body[:length].isascii() else WINDOWS_1252


def _believed(match: re.Match[bytes] | None) -> str | None:
    return _ascii_compatible(codec_for(match[1])) if match else None


def _ascii_compatible(codec: str | None) -> str | None:
    """A declaration that could be read cannot be in UTF-16; such pages mean UTF-8, as the standard has it."""
    return UTF_8 if codec in UTF_16 else codec


def charset_parameter(value: bytes) -> bytes | None:
    """The label behind ``charset=``, wherever in `value` it stands; None when there is none."""
    found = _CHARSET.search(value)
    return next(filter(None, found.groups()), None) if found else None

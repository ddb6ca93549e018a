"""Sitemaps (https://www.sitemaps.org/protocol.html): URL sets, indexes and plain lists, gzip'd or not.

A document is one by what it says: its root element, whatever its media type. A plain list says nothing, so text
counts only where it was fetched as a sitemap. Entries are navigation; those of an index are sitemaps, whose depth
admission bounds. Images and videos of an entry are not looked for.
"""

import re
from collections.abc import Iterator
from typing import Final

from limpet.model.links import LinkKind
from limpet.parser.charset import NOT_ASCII_COMPATIBLE
from limpet.parser.decode import Decoded, DecodeLimits, decode_body
from limpet.parser.html import attributes
from limpet.parser.labels import UTF_8
from limpet.parser.references import Encoding, text_of
from limpet.parser.relations import kind_of
from limpet.parser.xmltags import XmlReader

URLS_MAX: Final = 50_000
"""What the protocol allows a file to hold."""
LIMITS: Final = DecodeLimits(decoded_bytes_max=50_000_000, ratio_max=1_000)
"""Lists of URLs repeat themselves more than pages do; the bound on decoded bytes is what holds."""
Entry = tuple[str, LinkKind]
_NAMES: Final = frozenset({b"urlset", b"sitemapindex", b"loc", b"link"})
_LINE: Final = re.compile(rb"[^\r\n]++")
_ROOTS: Final = {b"urlset": LinkKind.NAVIGATION, b"sitemapindex": LinkKind.SITEMAP}
_SNIFFED_BYTES: Final = 4_096
_ROOT: Final = re.compile(rb"<(?:[A-Za-z_][\w.-]{0,40}:)?(?:urlset|sitemapindex)[\t\n\r />]", re.IGNORECASE)
_GZIP_MAGIC: Final = b"\x1f\x8b"
_PACKED_TYPES: Final = frozenset(
    {b"", b"application/gzip", b"application/x-gzip", b"application/octet-stream", b"application/xml", b"text/xml"}
)
_LOOKED_AT: Final = frozenset({b"href", b"rel", b"type"})


def is_sitemap(body: bytes) -> bool:
    """Whether the beginning of `body` holds the root of a sitemap."""
    return _ROOT.search(body[:_SNIFFED_BYTES].replace(b"\0", b"")) is not None


def unpacked(body: bytes, essence: bytes, *, expected: bool) -> Decoded | None:
    """The sitemap inside a gzip'd file; None when there is none.

    Only a beginning is inflated to see what it is, so an archive that is no sitemap costs nothing. `expected`: it was
    fetched as a sitemap, so a plain list counts too.
    """
    if not body.startswith(_GZIP_MAGIC) or essence not in _PACKED_TYPES:
        return None
    start = decode_body(body[:_SNIFFED_BYTES], b"gzip", DecodeLimits(decoded_bytes_max=_SNIFFED_BYTES)).data
    if not is_sitemap(start) and not (expected and start.lstrip().startswith((b"http://", b"https://"))):
        return None
    return decode_body(body, b"gzip", LIMITS)


def entries(body: bytes, codec: str) -> Iterator[Entry]:
    """The references of a sitemap in XML, with their kinds. Never raises; linear time; not bounded in number."""
    reader = XmlReader(body, _NAMES, codec)
    prefix, kind = b"", LinkKind.NAVIGATION
    for tag in reader.tags():
        before, _, local = tag.name.rpartition(b":")
        if tag.end or (local == b"loc" and (before != prefix or tag.empty)):
            continue  # a "loc" of another vocabulary is an image's
        if local in _ROOTS:
            prefix, kind = before, _ROOTS[local]
        elif local == b"loc":
            yield reader.text(), kind
        elif local == b"link":
            yield from _alternate(tag.written, reader.encoding)


def lines(body: bytes, codec: str) -> Iterator[Entry]:
    """The URLs of a plain list, one a line; anything else on a line is none."""
    if codec in NOT_ASCII_COMPATIBLE:
        body, codec = body.decode(codec, "replace").encode(), UTF_8
    for line in _LINE.finditer(body.removeprefix(b"\xef\xbb\xbf")):  # one by one: all at once would take a second
        text = line[0].decode(codec, "replace").strip()
        if text.lower().startswith(("http://", "https://")):
            yield text, LinkKind.NAVIGATION


def _alternate(written: bytes, encoding: Encoding) -> Iterator[Entry]:
    """``xhtml:link``: the same page in another language."""
    found = attributes(written, _LOOKED_AT)
    if b"href" in found and kind_of(found.get(b"rel", b""), found.get(b"type", b""), b"") is LinkKind.ALTERNATE:
        yield text_of(found[b"href"], encoding), LinkKind.ALTERNATE

"""The links of documents that are no pages: style sheets, sitemaps, feeds; and those that headers announce.

Pure and total. Each is recognised by its media type or by what it says of itself, and only in crawls that want it.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from limpet.model.links import LinkKind
from limpet.parser import css, feeds, sitemaps
from limpet.parser.charset import REFUSED, encoding_from_outside, is_refused
from limpet.parser.decode import Decoded
from limpet.parser.labels import UTF_8, UTF_16, codec_for
from limpet.parser.linkheader import linked
from limpet.parser.references import percent_encoded, refresh_url, with_encoded_query
from limpet.parser.relations import is_nofollow, kind_of
from limpet.parser.requisites import loads
from limpet.parser.resolve import REFERENCE_BYTES_MAX, Reference, Resolved, resolve
from limpet.parser.wants import Wants
from limpet.parser.xmltags import document_encoding

SITEMAP: Final = "sitemap"
FEED: Final = "feed"
"""Flags of outputs: what a document was read as."""

_CSS: Final = b"text/css"
_TEXT: Final = b"text/plain"
_JSON_TYPES: Final = frozenset({b"application/json", b"application/feed+json", b"text/json"})
_XML_TYPES: Final = re.compile(
    rb"|(?:text|application)/(?:xml|[\w.-]+\+xml)|text/plain|application/(?:octet-stream|x-gzip|gzip|rss|atom)"
)
_CHARSET_RULE: Final = re.compile(rb'@charset "([^"]{1,60})";')


class Reading(NamedTuple):
    """A document read: its links, and flags that say as what, and what was odd about it."""

    links: Resolved
    flags: frozenset[str]


_NOTHING: Final = Reading(Resolved([], 0, 0, 0), frozenset())


def read_document(
    decoded: Decoded,
    *,
    url: str,
    essence: bytes,
    content_type: bytes | None,
    links_max: int,
    wants: Wants,
    as_sitemap: bool,
) -> Reading:
    """The links of a document of any type but HTML. Never raises.

    `essence` is the media type without parameters, b"" when none is known. `as_sitemap`: the document was fetched as a
    sitemap, so that a plain list of URLs is one. Bounds: those of `decoded`, of sitemaps, and `links_max`.
    """
    body = decoded.data
    if wants.requisites and essence == _CSS:
        codec = _style_encoding(body, content_type)
        if is_refused(codec):
            return Reading(_NOTHING.links, frozenset({REFUSED}))
        return Reading(resolve(style_sheet(body, codec), url, links_max), frozenset())
    if not wants.extras:
        return _NOTHING
    packed = sitemaps.unpacked(body, essence, expected=as_sitemap)
    if packed is not None:
        body, essence = packed.data, b""
    flags = packed.flags if packed is not None else frozenset()
    found = _entries(body, essence, content_type, as_sitemap=as_sitemap)
    if found is None:
        return _NOTHING
    kind, entries = found
    if essence not in _JSON_TYPES and is_refused(document_encoding(body, content_type)):
        return Reading(_NOTHING.links, flags | {kind, REFUSED})
    references = ((text, entry_kind, False) for text, entry_kind in entries)
    bound = max(links_max, sitemaps.URLS_MAX) if kind == SITEMAP else links_max
    return Reading(resolve(_short(references), url, bound), flags | {kind})


def style_sheet(body: bytes, codec: str) -> Iterator[Reference]:
    """What a style sheet loads."""
    for text in filter(loads, css.references(body.decode(codec, "replace").removeprefix("\ufeff"))):
        if len(text) <= REFERENCE_BYTES_MAX:
            yield with_encoded_query(text, codec), LinkKind.REQUISITE, False


def header_links(values: Iterable[bytes], wants: Wants) -> Iterator[Reference]:
    """What the ``Link`` fields of a response announce, as far as the crawl wants it."""
    for target, parameters in linked(values):
        rel = parameters.get(b"rel", b"")
        kind = kind_of(rel, parameters.get(b"type", b""), parameters.get(b"as", b""))
        wanted = wants.requisites if kind is LinkKind.REQUISITE else wants.extras
        text = percent_encoded(target.strip())
        if kind is not None and wanted and len(target) <= REFERENCE_BYTES_MAX and loads(text):
            yield text, kind, kind is not LinkKind.REQUISITE and is_nofollow(rel)


def refreshed(value: bytes) -> Iterator[Reference]:
    """Where a ``Refresh`` field sends the reader of a page: read as a meta refresh, its bytes as they are."""
    text = refresh_url(percent_encoded(value)) if len(value) <= REFERENCE_BYTES_MAX else ""
    if text:
        yield text, LinkKind.REDIRECT, False


def _style_encoding(body: bytes, content_type: bytes | None) -> str:
    """The codec of a style sheet: mark, header, ``@charset``, UTF-8 (CSS Syntax §3.2)."""
    codec = encoding_from_outside(body, content_type)
    if codec is not None:
        return codec
    rule = _CHARSET_RULE.match(body)
    codec = codec_for(rule[1]) if rule else None
    return UTF_8 if codec is None or codec in UTF_16 else codec


def _entries(
    body: bytes, essence: bytes, content_type: bytes | None, *, as_sitemap: bool
) -> tuple[str, Iterable[sitemaps.Entry]] | None:
    """What `body` is, and its entries."""
    if essence in _JSON_TYPES:
        return (FEED, _pages(feeds.json_links(body))) if feeds.is_json_feed(body) else None
    if not _XML_TYPES.fullmatch(essence):
        return None
    if sitemaps.is_sitemap(body):
        return SITEMAP, sitemaps.entries(body, document_encoding(body, content_type))
    if feeds.is_feed(body) and essence != _TEXT:
        return FEED, _pages(feeds.links(body, document_encoding(body, content_type)))
    if as_sitemap and essence in (_TEXT, b""):
        return SITEMAP, sitemaps.lines(body, encoding_from_outside(body, content_type) or UTF_8)
    return None


def _pages(texts: Iterable[str]) -> Iterator[sitemaps.Entry]:
    return ((text, LinkKind.NAVIGATION) for text in texts)


def _short(references: Iterable[Reference]) -> Iterator[Reference]:
    return (reference for reference in references if 0 < len(reference[0]) <= REFERENCE_BYTES_MAX)

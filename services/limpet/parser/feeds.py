"""Feeds: where the items of RSS (0.9x, 1.0, 2.0), Atom (RFC 4287) and JSON Feed lead. Their own pages, not their media.

A document is a feed by what it says: its root element, or the version of a JSON Feed.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from limpet.parser.html import attributes
from limpet.parser.references import text_of
from limpet.parser.xmltags import Tag, XmlReader

_SNIFFED_BYTES: Final = 4_096
_ROOT: Final = re.compile(rb"<(?:rss|feed|(?:[A-Za-z_][\w.-]{0,40}:)?RDF)[\t\n\r >]", re.IGNORECASE)
_JSON_VERSION: Final = re.compile(rb"https?:(?:\\?/){2}jsonfeed\.org(?:\\?/)version(?:\\?/)1")
_ITEMS: Final = frozenset({b"item", b"entry"})
_NAMES: Final = _ITEMS | {b"link"}
_LOOKED_AT: Final = frozenset({b"href", b"rel"})


def is_feed(body: bytes) -> bool:
    """Whether the beginning of `body` holds the root of an XML feed."""
    return _ROOT.search(body[:_SNIFFED_BYTES].replace(b"\0", b"")) is not None


def is_json_feed(body: bytes) -> bool:
    """Whether `body` is an object that calls itself a JSON Feed near its beginning."""
    start = body[:_SNIFFED_BYTES].removeprefix(b"\xef\xbb\xbf").lstrip()
    return start.startswith(b"{") and _JSON_VERSION.search(start) is not None


def links(body: bytes, codec: str) -> Iterator[str]:
    """The reference of each item of an XML feed, in order. Never raises; linear time; not bounded in number."""
    reader = XmlReader(body, _NAMES, codec)
    inside = False
    for tag in reader.tags():
        local = tag.name.rpartition(b":")[2]
        if local in _ITEMS:
            inside = not tag.end and not tag.empty
        elif inside and not tag.end and (text := _link(tag, reader)):
            yield text


def json_links(body: bytes) -> Iterator[str]:
    """The pages that the items of a JSON Feed name; nothing when it is damaged."""
    try:
        feed = _JSON.decode(body.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return
    for item in feed.items:
        yield from (text for text in (item.url, item.external_url) if isinstance(text, str) and text)


class _Item(msgspec.Struct):
    url: object = None
    external_url: object = None


class _Feed(msgspec.Struct):
    items: list[_Item] = []


_JSON: Final = msgspec.json.Decoder(_Feed)


def _link(tag: Tag, reader: XmlReader) -> str:
    """RSS names the page in the text of ``link``, Atom in its ``href``; other relations than alternate are no page."""
    found = attributes(tag.written, _LOOKED_AT)
    if b"href" in found:
        return text_of(found[b"href"], reader.encoding) if found.get(b"rel", b"alternate") == b"alternate" else ""
    return "" if tag.empty or b":" in tag.name else reader.text()

"""What a link relation makes of its target: one rule for ``<link>`` and for the ``Link`` header.

Source: https://html.spec.whatwg.org/#linkTypes and https://www.iana.org/assignments/link-relations/
"""

from typing import Final

from limpet.model.links import LinkKind

FEED_TYPES: Final = frozenset({b"application/rss+xml", b"application/atom+xml", b"application/feed+json"})
REQUISITE_RELATIONS: Final = frozenset(
    {
        b"stylesheet",
        b"icon",
        b"apple-touch-icon",
        b"apple-touch-icon-precomposed",
        b"mask-icon",
        b"manifest",
        b"modulepreload",
    }
)
PRELOADED: Final = frozenset({b"image", b"style", b"script", b"font"})
_PAGE_TYPES: Final = frozenset({b"", b"text/html", b"application/xhtml+xml"})
_SAME_CONTENT: Final = frozenset({b"canonical", b"amphtml"})
_SEQUENCE: Final = frozenset({b"next", b"prev", b"previous"})
_NOT_ENDORSED: Final = frozenset({b"nofollow", b"ugc", b"sponsored"})


def kind_of(rel: bytes, media_type: bytes, destination: bytes) -> LinkKind | None:
    """The kind of a link, given its ``rel``, ``type`` and ``as`` as written; None when it leads nowhere of interest.

    An alternate of another type than a page or a feed (oEmbed, an API's JSON) is none.
    """
    words = frozenset(rel.lower().split())
    media_type = media_type.partition(b";")[0].strip().lower()
    if words & REQUISITE_RELATIONS or (b"preload" in words and destination.strip().lower() in PRELOADED):
        return LinkKind.REQUISITE
    if b"feed" in words or (b"alternate" in words and media_type in FEED_TYPES):
        return LinkKind.FEED
    if b"sitemap" in words:
        return LinkKind.SITEMAP
    if words & _SAME_CONTENT or (b"alternate" in words and media_type in _PAGE_TYPES):
        return LinkKind.ALTERNATE
    return LinkKind.NAVIGATION if words & _SEQUENCE else None


def is_nofollow(rel: bytes) -> bool:
    """Whether a relation says that the page does not stand for its link."""
    return not _NOT_ENDORSED.isdisjoint(rel.lower().split())

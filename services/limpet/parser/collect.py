"""What one pass over the tags of a page collects, still in the page's encoding."""

import re
from typing import Final

from limpet.model.links import LinkKind
from limpet.parser import charset, signals
from limpet.parser.html import LINK_TAGS, attributes
from limpet.parser.relations import is_nofollow, kind_of
from limpet.parser.requisites import Requisites
from limpet.parser.resolve import REFERENCE_BYTES_MAX
from limpet.parser.wants import Wants

_SPACE: Final = b"\t\n\f\r "
_FRAME_TAGS: Final = frozenset({b"frame", b"iframe"})
_LINK_ATTRIBUTES: Final = frozenset({b"href", b"xlink:href", b"src", b"rel"})
_META_ATTRIBUTES: Final = frozenset({b"name", b"http-equiv", b"content"})
_RELATION_ATTRIBUTES: Final = frozenset({b"rel", b"href", b"type", b"as", b"imagesrcset"})
_DULL: Final = rb"""(?:[\t\n\f\r ]++(?:class|id|title|target|data-[a-z-]{1,40}|aria-[a-z-]{1,40})="[^"]*+"){0,20}"""
_PLAIN_ANCHOR: Final = re.compile(_DULL + rb"""[\t\n\f\r ]++href="([^"]*+)\"""" + _DULL + rb"[\t\n\f\r ]*+\Z")
"""The attributes of an anchor that names where it leads, and nothing else that this module looks at."""
_NO_SIGNALS: Final[frozenset[str]] = frozenset()


class Found:
    """Links for readers, base, encoding, signals: what every crawl wants of a page."""

    def __init__(self, references_max: int, wants: Wants) -> None:
        self.references: dict[tuple[bytes, LinkKind], bool] = {}
        self.base: bytes | None = None
        self.codec: str | None = None
        self.signals = _NO_SIGNALS
        self.overlong = 0
        self.truncated = False
        self._agent = wants.agent.lower().encode()
        self._references_max = references_max

    def tag(self, name: bytes, written: bytes) -> None:
        """Take one tag that `link_tags` gives, `wide` as the crawl wants it."""
        if name == b"a" and (plain := _PLAIN_ANCHOR.match(written)):
            self._reference(plain[1], nofollow=False)  # most links of most pages: nothing else can be in such a tag
        else:
            self._take(name, written)

    def _take(self, name: bytes, written: bytes) -> None:
        """Take one of `LINK_TAGS`."""
        if name == b"meta":
            self._meta(written)
        elif name == b"base":
            if self.base is None:
                self.base = attributes(written, _LINK_ATTRIBUTES).get(b"href")
        elif name in _FRAME_TAGS:
            self._reference(attributes(written, _LINK_ATTRIBUTES).get(b"src") or None, nofollow=False)
        else:
            found = attributes(written, _LINK_ATTRIBUTES)
            nofollow = b"rel" in found and is_nofollow(found[b"rel"])
            self._reference(found.get(b"href", found.get(b"xlink:href")), nofollow=nofollow)

    def _meta(self, written: bytes) -> None:
        if self.codec is None:
            self.codec = charset.encoding_from_meta(written)
        found = attributes(written, _META_ATTRIBUTES)
        content = found.get(b"content", b"")
        if found.get(b"http-equiv", b"").lower() == b"refresh":
            self._reference(content, nofollow=False, kind=LinkKind.REDIRECT)
        if b"name" in found:
            self.signals |= signals.of_meta(found[b"name"].strip(_SPACE).lower(), content, self._agent)

    def _reference(self, raw: bytes | None, *, nofollow: bool, kind: LinkKind = LinkKind.NAVIGATION) -> None:
        """Note a reference; a page of nothing but references cannot make this grow beyond its bound."""
        if raw is None:
            return
        if len(raw) > REFERENCE_BYTES_MAX:
            self.overlong += 1
            return
        if b"#" in raw and b"&" not in raw and kind is LinkKind.NAVIGATION:
            raw = raw[: raw.index(b"#")]  # a table of contents is many references to one page
        key = (raw, kind)
        if key in self.references:
            self.references[key] &= nofollow
        elif len(self.references) < self._references_max:
            self.references[key] = nofollow
        else:
            self.truncated = True


class WideFound(Found):
    """The same, and what crawls want that want more: requisites, announced alternates, feeds and sitemaps."""

    def __init__(self, references_max: int, wants: Wants) -> None:
        super().__init__(references_max, wants)
        self.requisites = Requisites(references_max, REFERENCE_BYTES_MAX)
        self._wants = wants

    def _take(self, name: bytes, written: bytes) -> None:
        """Take any tag that `link_tags(..., wide=True)` gives."""
        if name in LINK_TAGS:
            super()._take(name, written)
        elif name == b"link":
            self._relation(written)
        if self._wants.requisites:
            self.requisites.tag(name, written)

    def _relation(self, written: bytes) -> None:
        found = attributes(written, _RELATION_ATTRIBUTES)
        rel = found.get(b"rel", b"")
        kind = kind_of(rel, found.get(b"type", b""), found.get(b"as", b""))
        if kind is LinkKind.REQUISITE:
            if self._wants.requisites:
                self.requisites.link(found)
        elif kind is not None and self._wants.extras:
            self._reference(found.get(b"href") or None, nofollow=is_nofollow(rel), kind=kind)

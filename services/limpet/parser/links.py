"""The links of a page: body bytes in, canonical URLs out. Pure, total, linear in the size of the body.

Links inside comments, scripts and inert templates are none. Every reference is resolved against the page's first
``<base href>``, wherever it stands. Kinds other than `LinkKind.NAVIGATION` and
`LinkKind.REDIRECT` are not looked for yet.
"""

import re
from itertools import islice
from typing import Final

import msgspec
from ada_url import join_url

from limpet.model.events import Link
from limpet.model.links import LinkKind
from limpet.model.urls import InvalidUrl, canonicalize, canonicalize_all
from limpet.parser import charset
from limpet.parser.html import attributes, link_tags
from limpet.parser.labels import UTF_8
from limpet.parser.references import Encoding, percent_encoded, refresh_url, text_of, with_encoded_query

LINKS_MAX: Final = 10_000
REFERENCE_BYTES_MAX: Final = 8_192
"""Longest reference looked at, as written."""
URL_BYTES_MAX: Final = 4_096
"""Longest URL handed on: above the bound of admission, which counts what it rejects; low enough to bound a message."""

_BATCH: Final = 500
_SPACE: Final = b"\t\n\f\r "
_HTML: Final = b"text/html"
_XHTML: Final = b"application/xhtml+xml"
_SNIFFED_BYTES: Final = 512
_DIRECTIVES_BYTES_MAX: Final = 1_024
_HTML_START: Final = re.compile(
    rb"<(?:!--|(?:!DOCTYPE[ ]HTML|HTML|HEAD|SCRIPT|IFRAME|H1|DIV|FONT|TABLE|A|STYLE|TITLE|B|BODY|BR|P|META|LINK)[\s>])",
    re.IGNORECASE,
)
_FRAME_TAGS: Final = frozenset({b"frame", b"iframe"})
_LINK_ATTRIBUTES: Final = frozenset({b"href", b"xlink:href", b"src", b"rel"})
_META_ATTRIBUTES: Final = frozenset({b"name", b"http-equiv", b"content"})
_NOT_ENDORSED: Final = frozenset({b"nofollow", b"ugc", b"sponsored"})
_NO_ROBOTS: Final[frozenset[bytes]] = frozenset()
_NO_BASE: Final = ("data:", "javascript:")


class Page(msgspec.Struct, frozen=True):
    """What a page says about where to go.

    `links` are distinct by (url, kind), in the order of the page; a link is nofollow when every mention of it is.
    `meta_…` are the page's robots directives; they are not applied to `links`. `base` is what references were
    resolved against, `charset` the Python codec used ("" when nothing was read, as in anything but HTML).
    `base` is "" when the page names one beyond `URL_BYTES_MAX`: then only absolute references count.
    `truncated`: the page has more than `links_max` links, at least `surplus` more. `unusable` counts distinct
    references that are no http(s) URL, `overlong` those beyond `REFERENCE_BYTES_MAX` or `URL_BYTES_MAX`.
    """

    links: list[Link]
    meta_nofollow: bool
    meta_noindex: bool
    meta_noarchive: bool
    base: str
    charset: str
    truncated: bool
    unusable: int = 0
    overlong: int = 0
    surplus: int = 0


_Reference = tuple[bytes, LinkKind]


class _Found:
    """What one pass over the tags collects, still in the page's encoding."""

    def __init__(self, references_max: int) -> None:
        self.references: dict[_Reference, bool] = {}
        self.base: bytes | None = None
        self.codec: str | None = None
        self.robots: frozenset[bytes] = _NO_ROBOTS
        self.overlong = 0
        self.truncated = False
        self._references_max = references_max

    def tag(self, name: bytes, written: bytes) -> None:
        if name == b"meta":
            self._meta(written)
        elif name == b"base":
            if self.base is None:
                self.base = attributes(written, _LINK_ATTRIBUTES).get(b"href")
        elif name in _FRAME_TAGS:
            self._reference(attributes(written, _LINK_ATTRIBUTES).get(b"src") or None, nofollow=False)
        else:
            found = attributes(written, _LINK_ATTRIBUTES)
            nofollow = b"rel" in found and not _NOT_ENDORSED.isdisjoint(found[b"rel"].lower().split())
            self._reference(found.get(b"href", found.get(b"xlink:href")), nofollow=nofollow)

    def _meta(self, written: bytes) -> None:
        if self.codec is None:
            self.codec = charset.encoding_from_meta(written)
        found = attributes(written, _META_ATTRIBUTES)
        content = found.get(b"content", b"")
        if found.get(b"http-equiv", b"").lower() == b"refresh":
            self._reference(content, nofollow=False, kind=LinkKind.REDIRECT)
        if found.get(b"name", b"").strip(_SPACE).lower() == b"robots":
            self.robots |= frozenset(content[:_DIRECTIVES_BYTES_MAX].lower().replace(b",", b" ").split())

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


def extract(body: bytes, *, url: str, content_type: bytes | None, links_max: int = LINKS_MAX) -> Page:
    """The links of `body`, the decoded content of the page at the canonical `url`. Never raises.

    `content_type` is the header's value, None when there was none: then HTML is recognised by its first tag.
    Anything that is not HTML or XHTML yields no link. Work and memory are bounded by the body's size and `links_max`.
    """
    essence = _essence(content_type, body)
    if essence not in (_HTML, _XHTML):
        return Page([], False, False, False, url, "", False)
    outer = charset.encoding_from_outside(body, content_type)
    found, encoding = _collect(body, outer, xml=essence == _XHTML, references_max=4 * links_max)
    base = _base(found.base, url, encoding)
    links, unusable, overlong = _resolve(found, base, encoding, links_max)
    robots = found.robots
    return Page(
        links=links[:links_max],
        meta_nofollow=not robots.isdisjoint((b"nofollow", b"none")),
        meta_noindex=not robots.isdisjoint((b"noindex", b"none")),
        meta_noarchive=b"noarchive" in robots,
        base=base,
        charset=encoding.page,
        truncated=found.truncated or len(links) > links_max,
        unusable=unusable,
        overlong=found.overlong + overlong,
        surplus=max(0, len(links) - links_max) + found.truncated,
    )


def redirect_target(location: bytes, base: str) -> str | None:
    """Where a ``Location`` header of the response at `base` leads, or None when it is no http(s) URL.

    Bytes beyond ASCII are percent-encoded as they are, in no assumed encoding: only
    the server knows what it meant, and it gets its own bytes back.
    """
    if len(location) > REFERENCE_BYTES_MAX:
        return None
    try:
        return canonicalize(percent_encoded(location.strip(_SPACE)), base)
    except InvalidUrl:
        return None


def _essence(content_type: bytes | None, body: bytes) -> bytes:
    """The media type without its parameters; without a header, what the first bytes look like."""
    essence = re.split(rb"[;,]", content_type or b"", maxsplit=1)[0].strip(_SPACE).lower()
    if essence:
        return essence
    start = body[:_SNIFFED_BYTES].removeprefix(b"\xef\xbb\xbf").lstrip(_SPACE)
    return _HTML if _HTML_START.match(start) or (start.startswith(b"<?xml") and b"<html" in start) else b""


def _collect(body: bytes, codec: str | None, *, xml: bool, references_max: int) -> tuple[_Found, Encoding]:
    """One pass over the tags, or two when the page itself says that it cannot be read before it is decoded."""
    transcoded = codec in charset.NOT_ASCII_COMPATIBLE
    if codec is not None and transcoded:
        body = body.decode(codec, "replace").encode()
    found = _Found(references_max)
    for name, written in link_tags(body, xml=xml):
        found.tag(name, written)
    if codec is not None:
        return found, Encoding(UTF_8 if transcoded else codec, codec)
    codec = found.codec or charset.declared_encoding(body, ()) or charset.fallback_encoding(body)
    if codec in charset.NOT_ASCII_COMPATIBLE:
        return _collect(body, codec, xml=xml, references_max=references_max)
    return found, Encoding(codec, codec)


def _base(raw: bytes | None, url: str, encoding: Encoding) -> str:
    """The page's base URL: its first ``<base href>`` if that is one, of whatever scheme."""
    if raw is None:
        return url
    if len(raw) > URL_BYTES_MAX:
        return ""
    try:
        base = join_url(url, text_of(raw, encoding))
    except ValueError:
        return url
    return url if base.startswith(_NO_BASE) else base.partition("#")[0]


def _resolve(found: _Found, base: str, encoding: Encoding, links_max: int) -> tuple[list[Link], int, int]:
    """The links in page order, how many references name no web resource, and how many are too long.

    Works in batches and stops after the one that passes `links_max`, so that a long base cannot be multiplied at will.
    """
    flags: dict[tuple[str, LinkKind], bool] = {}
    unusable = overlong = 0
    references = iter(found.references.items())
    while len(flags) <= links_max and (batch := list(islice(references, _BATCH))):
        named = [
            (text, kind, nofollow)
            for (raw, kind), nofollow in batch
            if (text := _target(raw, kind, encoding)) is not None
        ]
        targets = canonicalize_all([text for text, _, _ in named], base)
        for target, (_, kind, nofollow) in zip(targets, named, strict=True):
            if target is None:
                unusable += 1
            elif len(target) > URL_BYTES_MAX:
                overlong += 1
            else:
                flags[target, kind] = nofollow and flags.get((target, kind), True)
    return [Link(*key, nofollow) for key, nofollow in flags.items()], unusable, overlong


def _target(raw: bytes, kind: LinkKind, encoding: Encoding) -> str | None:
    """The URL that a reference writes, still relative; None for a refresh that only reloads."""
    text = text_of(raw, encoding)
    if kind is LinkKind.REDIRECT:
        text = refresh_url(text)
        if not text:
            return None
    return with_encoded_query(text, encoding.page)

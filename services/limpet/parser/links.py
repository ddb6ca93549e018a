"""The links of a page: body bytes in, canonical URLs out. Pure, total, linear in the size of the body.

Links inside comments, scripts and inert templates are none. Every reference is resolved against the page's first
``<base href>``, wherever it stands. Which forms are read, and as what kind, is `limpet.parser.forms`.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec
from ada_url import join_url

from limpet.model.events import Link
from limpet.model.links import LinkKind
from limpet.model.urls import InvalidUrl, canonicalize
from limpet.parser import charset, mediatype
from limpet.parser.collect import Found, WideFound
from limpet.parser.html import link_tags
from limpet.parser.javascript import needs_javascript
from limpet.parser.labels import UTF_8
from limpet.parser.references import Encoding, percent_encoded, refresh_url, text_of, with_encoded_query
from limpet.parser.resolve import REFERENCE_BYTES_MAX, URL_BYTES_MAX, Reference, resolve
from limpet.parser.wants import NAVIGATION_ONLY, Wants

__all__ = ["LINKS_MAX", "REFERENCE_BYTES_MAX", "URL_BYTES_MAX", "Page", "essence_of", "extract", "redirect_target"]

LINKS_MAX: Final = 10_000

_SPACE: Final = b"\t\n\f\r "
_HTML: Final = b"text/html"
_XHTML: Final = b"application/xhtml+xml"
PAGES: Final = frozenset({_HTML, _XHTML})
_SNIFFED_BYTES: Final = 512
_HTML_START: Final = re.compile(
    rb"<(?:!--|(?:!DOCTYPE[ ]HTML|HTML|HEAD|SCRIPT|IFRAME|H1|DIV|FONT|TABLE|A|STYLE|TITLE|B|BODY|BR|P|META|LINK)[\s>])",
    re.IGNORECASE,
)
_NO_BASE: Final = ("data:", "javascript:")
_NO_SIGNALS: Final[frozenset[str]] = frozenset()


class Page(msgspec.Struct, frozen=True):
    """What a page says about where to go.

    `links` are distinct by (url, kind): those for readers in the order of the page, then what the page needs. One is
    nofollow when every mention of it is. `signals` are the names of `limpet.parser.signals`; they are not applied to
    `links`. `base` is what references were resolved against, `charset` the Python codec used ("" when nothing was
    read, as in anything but HTML). `base` is "" when the page names one beyond `URL_BYTES_MAX`: then only absolute
    references count. `truncated`: the page has more than `links_max` links, at least `surplus` more. `unusable`
    counts distinct references that are no http(s) URL, `overlong` those beyond `REFERENCE_BYTES_MAX` or
    `URL_BYTES_MAX`.
    """

    links: list[Link]
    base: str
    charset: str = ""
    truncated: bool = False
    unusable: int = 0
    overlong: int = 0
    surplus: int = 0
    signals: frozenset[str] = _NO_SIGNALS
    needs_javascript: bool = False


def extract(
    body: bytes,
    *,
    url: str,
    content_type: bytes | None,
    links_max: int = LINKS_MAX,
    wants: Wants = NAVIGATION_ONLY,
) -> Page:
    """The links of `body`, the decoded content of the page at the canonical `url`. Never raises.

    `content_type` is the header's value, None when there was none: then, and when it is no media type, HTML is
    recognised by its first tag.
    Anything that is not HTML or XHTML yields no link, nor does what is labelled with a refused encoding. Work and
    memory are bounded by the body's size and `links_max`.
    """
    essence = essence_of(content_type, body)
    if essence not in PAGES:
        return Page([], url)
    outer = charset.encoding_from_outside(body, content_type)
    found, encoding = _collect(body, outer, essence == _XHTML, 4 * links_max, wants)
    if charset.is_refused(encoding.page):
        return Page([], url, encoding.page, signals=found.signals)
    base = _base(found.base, url, encoding)
    reading = resolve(_for_readers(found, encoding), base, links_max)
    links, unusable, overlong, surplus = reading
    links_in_reach = len(links)
    truncated = found.truncated
    if isinstance(found, WideFound) and wants.requisites:
        needed = resolve(_needed(found, encoding), base, links_max - len(links))
        links = links + needed.links
        unusable += needed.unusable
        overlong += needed.overlong + found.requisites.overlong
        surplus += needed.surplus
        truncated = truncated or found.requisites.truncated
    surplus += truncated
    return Page(
        links=links,
        base=base,
        charset=encoding.page,
        truncated=surplus > 0,
        unusable=unusable,
        overlong=found.overlong + overlong,
        surplus=surplus,
        signals=found.signals,
        needs_javascript=needs_javascript(body, links_in_reach),
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


def essence_of(content_type: bytes | None, body: bytes) -> bytes:
    """The media type without its parameters; if it is undefined, ``text/html`` if the body looks like it, else b"".

    Undefined is one that is missing, does not parse, or is a wildcard or "unknown" (WHATWG MIME Sniffing §7).
    """
    essence = mediatype.essence(content_type)
    if essence:
        return essence
    start = body[:_SNIFFED_BYTES].removeprefix(b"\xef\xbb\xbf").lstrip(_SPACE)
    return _HTML if _HTML_START.match(start) or (start.startswith(b"<?xml") and b"<html" in start) else b""


def _collect(body: bytes, codec: str | None, xml: bool, references_max: int, wants: Wants) -> tuple[Found, Encoding]:
    """One pass over the tags, or two when the page itself says that it cannot be read before it is decoded."""
    transcoded = codec in charset.NOT_ASCII_COMPATIBLE
    if codec is not None and transcoded:
        body = body.decode(codec, "replace").encode()
    found = (WideFound if wants.wide else Found)(references_max, wants)
    for name, written in link_tags(body, xml=xml, wide=wants.wide):
        found.tag(name, written)
    if codec is not None:
        return found, Encoding(UTF_8 if transcoded else codec, codec)
    codec = found.codec or charset.declared_encoding(body, ()) or charset.fallback_encoding(body)
    if codec in charset.NOT_ASCII_COMPATIBLE:
        return _collect(body, codec, xml, references_max, wants)
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


def _for_readers(found: Found, encoding: Encoding) -> Iterator[Reference]:
    """The references of all kinds but requisites, as text; a refresh that only reloads is none."""
    for (raw, kind), nofollow in found.references.items():
        text = text_of(raw, encoding)
        if kind is LinkKind.REDIRECT:
            text = refresh_url(text)
            if not text:
                continue
        yield with_encoded_query(text, encoding.page), kind, nofollow


def _needed(found: WideFound, encoding: Encoding) -> Iterator[Reference]:
    """The references of requisites. A page may not endorse where it leads, but what it needs it needs."""
    for text in found.requisites.texts(encoding):
        if len(text) > REFERENCE_BYTES_MAX:
            found.requisites.overlong += 1
        else:
            yield with_encoded_query(text, encoding.page), LinkKind.REQUISITE, False

"""What a page needs to be shown, as its tags name it: collected raw in one pass, turned into references afterwards.

Which tag and attribute, in which syntax, is `ATTRIBUTES`; that and the relations of ``<link>`` is all. Tracking pixels
are images too. Media that a script would put together are not seen; the usual attributes of lazy loading are.
"""

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final

from limpet.parser import css, srcset
from limpet.parser.html import MARKED_ATTRIBUTES, STYLE, attributes
from limpet.parser.references import Encoding, text_of

SRCSET_BYTES_MAX: Final = 65_536
_LOADS_NOTHING: Final = ("#", "data:", "about:", "blob:", "javascript:")
_LEADING: Final = "".join(map(chr, range(0x21)))


class Syntax(Enum):
    """How an attribute names what it needs."""

    URL = "url"
    SRCSET = "srcset"
    STYLE_ATTRIBUTE = "style attribute"
    STYLE_TEXT = "style text"


_URL, _SET = Syntax.URL, Syntax.SRCSET
_GLOBAL: Final[dict[bytes, Syntax]] = {b"style": Syntax.STYLE_ATTRIBUTE, b"background": _URL}
_LAZY: Final[dict[bytes, Syntax]] = {
    b"data-src": _URL,
    b"data-srcset": _SET,
    b"data-original": _URL,
    b"data-lazy-src": _URL,
    b"data-lazy-srcset": _SET,
}
ATTRIBUTES: Final[dict[bytes, dict[bytes, Syntax]]] = {
    b"img": {b"src": _URL, b"srcset": _SET} | _LAZY,
    b"image": {b"href": _URL, b"xlink:href": _URL, b"src": _URL},  # of SVG; in HTML an old spelling of img
    b"source": {b"src": _URL, b"srcset": _SET} | _LAZY,
    b"script": {b"src": _URL},
    b"video": {b"src": _URL, b"poster": _URL, b"data-src": _URL, b"data-poster": _URL},
    b"audio": {b"src": _URL, b"data-src": _URL},
    b"track": {b"src": _URL},
    b"object": {b"data": _URL},
    b"embed": {b"src": _URL},
    b"use": {b"href": _URL, b"xlink:href": _URL},
    b"feimage": {b"href": _URL, b"xlink:href": _URL},
}
"""What a tag needs, besides the attributes of every tag (`style`, `background`), `link` and `input`."""
_WANTED: Final = {tag: forms | _GLOBAL for tag, forms in ATTRIBUTES.items()}
_INPUT: Final = frozenset({b"type", b"src"})
_MARKED: Final = re.compile(b"|".join(MARKED_ATTRIBUTES), re.IGNORECASE)
"""Where it is not found, a tag without attributes of its own has none that matters."""


class Requisites:
    """The requisites of one page, still in its encoding. Bounded: `references_max` distinct attributes."""

    def __init__(self, references_max: int, reference_bytes_max: int) -> None:
        self.overlong = 0
        self.truncated = False
        self._noted: dict[tuple[bytes, Syntax], None] = {}
        self._references_max = references_max
        self._sizes = {
            Syntax.URL: reference_bytes_max,
            Syntax.SRCSET: SRCSET_BYTES_MAX,
        }  # a style is as long as the page lets it be

    def tag(self, name: bytes, written: bytes) -> None:
        """Note what one tag needs."""
        if name == STYLE:
            self._note(written, Syntax.STYLE_TEXT)
            return
        wanted = _WANTED.get(name, _GLOBAL)
        if wanted is not _GLOBAL or _MARKED.search(written):
            for attribute, value in attributes(written, wanted).items():
                self._note(value, wanted[attribute])
        if name == b"input":
            found = attributes(written, _INPUT)
            if found.get(b"type", b"").lower() == b"image":
                self._note(found.get(b"src", b""), Syntax.URL)

    def texts(self, encoding: Encoding) -> Iterator[str]:
        """The references in page order, as text; what loads nothing (fragments, data URLs) is left out."""
        for raw, syntax in self._noted:
            yield from filter(loads, _expanded(raw, syntax, encoding))

    def link(self, found: Mapping[bytes, bytes]) -> None:
        """Note what a ``<link>`` whose relation is one of a requisite names, given its attributes."""
        self._note(found.get(b"href", b""), Syntax.URL)
        self._note(found.get(b"imagesrcset", b""), Syntax.SRCSET)

    def _note(self, raw: bytes, syntax: Syntax) -> None:
        if not raw or (syntax is Syntax.URL and raw[:5].lower() == b"data:"):
            return
        if syntax is Syntax.STYLE_ATTRIBUTE and b"(" not in raw and b"&" not in raw:
            return  # most styles; what stands for "(" in CSS is "(" alone, in HTML a character reference may
        if len(raw) > self._sizes.get(syntax, len(raw)):
            self.overlong += 1
        elif len(self._noted) < self._references_max:
            self._noted[raw, syntax] = None
        elif (raw, syntax) not in self._noted:
            self.truncated = True


def loads(text: str) -> bool:
    """Whether a reference, as text, makes a browser ask some server."""
    start = text[:40].lstrip(_LEADING).lower()
    return bool(start) and not start.startswith(_LOADS_NOTHING)


def _expanded(raw: bytes, syntax: Syntax, encoding: Encoding) -> Iterator[str]:
    match syntax:
        case Syntax.URL:
            yield text_of(raw, encoding)
        case Syntax.SRCSET:
            yield from srcset.candidates(text_of(raw, encoding))
        case Syntax.STYLE_ATTRIBUTE:
            yield from css.references(text_of(raw, encoding))
        case Syntax.STYLE_TEXT:
            yield from css.references(raw.decode(encoding.text, "replace"))

"""A tolerant reader of the few elements that matter in sitemaps and feeds: one linear pass, no entity ever expanded.

There is no XML parser here on purpose: what a document type declares is skipped, so neither an external entity nor a
billion laughs exists; what is not well-formed costs its own element; and a file that was cut gives what it holds.
Input is bytes in an ASCII-compatible encoding.
"""

import re
from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from limpet.parser import charset
from limpet.parser.labels import UTF_8
from limpet.parser.references import Encoding, text_of

_PREFIX: Final = rb"(?:[A-Za-z_][\w.-]{0,40}:)?"
_ATTRIBUTES: Final = rb"""(?:[\t\n\r ](?>(?:[^<>"']++|"[^"<]*+"|'[^'<]*+'){0,200}))?"""
_TEXT_BYTES_MAX: Final = 16_384
_SUBSET: Final = re.compile(rb"[\[>]")


class Tag(msgspec.Struct, frozen=True):
    """A start or end tag: the name in lower case with its prefix, its attributes as written."""

    name: bytes
    written: bytes
    end: bool
    empty: bool


def document_encoding(body: bytes, content_type: bytes | None) -> str:
    """The codec of an XML document: mark, header, declaration, UTF-8."""
    return charset.encoding_from_outside(body, content_type) or charset.declared_encoding(body, ()) or UTF_8


class XmlReader:
    """Reads `body` once. Elements other than `names` (local names, lower case) are not seen."""

    def __init__(self, body: bytes, names: Collection[bytes], codec: str) -> None:
        if codec in charset.NOT_ASCII_COMPATIBLE:
            body, codec = body.decode(codec, "replace").encode(), UTF_8
        self._body = body
        self._position = 0
        self.encoding = Encoding(codec, codec)
        words = b"|".join(re.escape(name) for name in sorted(names))
        self._next = re.compile(
            rb"<(?:(/?)(" + _PREFIX + rb"(?:" + words + rb"))(?=[\t\n\r />])(" + _ATTRIBUTES + rb"/?)>"
            rb"|(!--|!\[CDATA\[|!|\?))",
            re.IGNORECASE,
        )

    def tags(self) -> Iterator[Tag]:
        """The tags of the wanted elements, in order. Never raises."""
        while found := self._next.search(self._body, self._position):
            self._position = found.end()
            slash, name, written, mark = found.groups()
            if mark is None:
                yield Tag(name.lower(), written, bool(slash), written.endswith(b"/"))
            else:
                self._skip(mark)

    def text(self) -> str:
        """The character data from here to the next tag, references resolved, white space around it removed.

        Bounded: of a longer one the beginning is given.
        """
        pieces: list[str] = []
        room = _TEXT_BYTES_MAX
        while True:
            end = self._body.find(b"<", self._position)
            end = end if end >= 0 else len(self._body)
            pieces.append(text_of(self._body[self._position : min(end, self._position + room)], self.encoding))
            room = max(0, room - (end - self._position))
            self._position = end
            if self._body.startswith(b"<![CDATA[", end):
                self._skip_to(b"]]>", end)
                inside = self._body[end + 9 : min(self._position - 3, end + 9 + room)]
                pieces.append(inside.decode(self.encoding.text, "replace"))
                room = max(0, room - len(inside))
            elif self._body.startswith(b"<!--", end):
                self._skip_to(b"-->", end)
            else:
                return "".join(pieces).strip()

    def _skip(self, mark: bytes) -> None:
        if mark == b"!--":
            self._skip_to(b"-->", self._position)
        elif mark == b"?":
            self._skip_to(b"?>", self._position)
        elif mark == b"!":
            subset = _SUBSET.search(self._body, self._position)
            if subset is not None and subset[0] == b"[":
                self._skip_to(b"]", self._position)
            self._skip_to(b">", self._position)
        else:
            self._skip_to(b"]]>", self._position)

    def _skip_to(self, mark: bytes, start: int) -> None:
        found = self._body.find(mark, start)
        self._position = found + len(mark) if found >= 0 else len(self._body)

"""Whether a page shows next to nothing unless its scripts run: a heuristic, written down so that it can be argued with.

A page needs JavaScript when it has at most `LINKS_MAX` links, at least one script, and either

- under `NOTHING_BYTES_MAX` bytes of text and no link at all, or
- under `LITTLE_BYTES_MAX` bytes of text and an empty element to mount an application in (``<div id="root"></div>``,
  ``<app-root></app-root>``), or
- under `SOME_BYTES_MAX` bytes of text and a ``noscript`` that speaks of JavaScript.

Text is what stands outside tags, scripts, style sheets, ``noscript`` and ``title``, white space not counted. Rendering
is none of Limpet's business; the mark tells who may have to.
"""

import re
from collections.abc import Iterator
from typing import Final

LINKS_MAX: Final = 5
NOTHING_BYTES_MAX: Final = 50
LITTLE_BYTES_MAX: Final = 200
SOME_BYTES_MAX: Final = 500
FLAG: Final = "needs_javascript"

_SPACE: Final = b"\t\n\v\f\r "
_TAG: Final = re.compile(rb"<(?:!--|(/?[A-Za-z][^\t\n\f\r /<>]*+)([^<>]*+)>)")
_UNSEEN: Final = ("script", "style", "noscript", "title", "template", "svg", "textarea")
_UNSEEN_END: Final = {name.encode(): re.compile(rb"</" + name.encode(), re.IGNORECASE) for name in _UNSEEN}
_MOUNT_ID: Final = re.compile(
    rb"""[\t\n\f\r ]id[\t\n\f\r ]*+=[\t\n\f\r ]*+["']?(?:root|app|main-app|react-root|__next|__nuxt|___gatsby|svelte|"""
    rb"""ember-app|app-root|q-app)["'\t\n\f\r ]?(?:[\t\n\f\r ]|\Z)""",
    re.IGNORECASE,
)
_SPEAKS_OF_IT: Final = re.compile(rb"java[ -]?script", re.IGNORECASE)


def needs_javascript(body: bytes, links: int) -> bool:
    """The verdict on an HTML page with `links` distinct links. Stops as soon as there is enough to read; linear."""
    if links > LINKS_MAX:
        return False
    seen = _Seen()
    for name, inside in _pieces(body):
        seen.piece(name, inside)
        if seen.text_bytes >= SOME_BYTES_MAX:
            return False
    if not seen.scripts:
        return False
    if seen.told:
        return True
    return seen.text_bytes < (LITTLE_BYTES_MAX if seen.mounts else NOTHING_BYTES_MAX if links == 0 else 0)


class _Seen:
    """What has gone by. `_open`: the last thing was the start tag of an element to mount in."""

    def __init__(self) -> None:
        self.text_bytes = 0
        self.scripts = 0
        self.told = False
        self.mounts = 0
        self._open = b""

    def piece(self, name: bytes, inside: bytes) -> None:
        if not name:
            text_bytes = len(inside.translate(None, _SPACE))  # never as a list of words: a page may have millions
            self.text_bytes += text_bytes
            self._open = b"" if text_bytes else self._open
            return
        if name == b"script":
            self.scripts += 1
        elif name == b"noscript":
            self.told = self.told or _SPEAKS_OF_IT.search(inside) is not None
        elif name == b"/" + self._open:
            self.mounts += 1
        self._open = name if _is_mount(name, inside) else b""


def _is_mount(name: bytes, written: bytes) -> bool:
    if name in (b"div", b"main", b"section"):
        return _MOUNT_ID.search(written) is not None
    return b"-" in name and not name.startswith(b"/")


def _pieces(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Text (under no name), tags with their attributes, and the unseen elements with their content."""
    position = 0
    while position < len(body):
        found = _TAG.search(body, position)
        if found is None:
            yield b"", body[position:]
            return
        yield b"", body[position : found.start()]
        position = found.end()
        name, written = found.groups()
        if name is None:
            end = body.find(b"-->", position)
            position = end + 3 if end >= 0 else len(body)
            continue
        name = name.lower()
        if name in _UNSEEN_END:
            closed = _UNSEEN_END[name].search(body, position)
            written = body[position : closed.start() if closed else len(body)]
            position += len(written)
        yield name, written

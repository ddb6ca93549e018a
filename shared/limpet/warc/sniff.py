"""What a payload is, judged by its first bytes alone: https://mimesniff.spec.whatwg.org/ §6 and §7.1.

Only where those leave no doubt: text that is merely not binary is not identified, nor is what is merely not text. The
tables are the standard's, and so is the bound of 1,445 bytes; most types are told by the first few.
"""

import re
from typing import Final

from limpet.warc.errors import WarcError
from limpet.warc.members import Inflater

PREFIX_BYTES: Final = 1_445
_CODED_BYTES: Final = 512
"""Of a gzip'd payload: they inflate to more than enough, at a bounded price."""

_DECODED_BYTES: Final = 1_445

_MAGIC: Final = (
    # §6.1 images
    (b"\x00\x00\x01\x00", "image/x-icon"),
    (b"\x00\x00\x02\x00", "image/x-icon"),
    (b"BM", "image/bmp"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    # §6.2 audio and video
    (b"ID3", "audio/mpeg"),
    (b"OggS\x00", "application/ogg"),
    (b"MThd\x00\x00\x00\x06", "audio/midi"),
    (b"\x1a\x45\xdf\xa3", "video/webm"),
    # §6.3 fonts
    (b"\x00\x01\x00\x00", "font/ttf"),
    (b"OTTO", "font/otf"),
    (b"ttcf", "font/collection"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
    # §6.4 archives
    (b"\x1f\x8b\x08", "application/x-gzip"),
    (b"PK\x03\x04", "application/zip"),
    (b"Rar!\x1a\x07\x00", "application/x-rar-compressed"),
    # §7.1 the rest
    (b"%PDF-", "application/pdf"),
    (b"%!PS-Adobe-", "application/postscript"),
)
_BY_FIRST_BYTE: Final = {
    first: tuple(pair for pair in _MAGIC if pair[0][0] == first) for first in {magic[0] for magic, _ in _MAGIC}
}
# §6.1 and §6.2: a container, its length, and what it contains.
_RIFF: Final = {b"WEBPVP": "image/webp", b"AVI ": "video/avi", b"WAVE": "audio/wave"}

# §7.1: a tag must end after its name, so `<htmlx` is not HTML. A comment alone, which the standard takes for HTML too,
# proves nothing here: many SVG files begin with one.
_HTML: Final = re.compile(
    rb"[\t\n\f\r ]*<(?:!doctype[\t\n\f\r ]+html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p)"
    rb"[\t\n\f\r >]",
    re.IGNORECASE,
)
_COMMENT: Final = re.compile(rb"[\t\n\f\r ]*<!--")
_XML: Final = re.compile(rb"[\t\n\f\r ]*<\?xml")
_XHTML: Final = re.compile(rb"<html[\t\n\r >]")
_SPACE_OR_TAG: Final = frozenset(b"\t\n\f\r <\xef")
_BOM: Final = b"\xef\xbb\xbf"
_GZIP_CODING: Final = re.compile(rb"[ \t]*(?:x-)?gzip[ \t]*", re.IGNORECASE)


def sniff(payload: bytes, content_encoding: bytes | None = None) -> str:
    """Media type of `payload` for WARC-Identified-Payload-Type, or "" when its beginning does not prove one.

    Looks through a single gzip content coding; any other coding identifies nothing.
    """
    start = payload[:PREFIX_BYTES]
    if content_encoding:
        if not _GZIP_CODING.fullmatch(content_encoding):
            return ""
        start = _inflated(payload[:_CODED_BYTES])
    if not start:
        return ""
    if start[0] in _SPACE_OR_TAG:
        return _markup(start.removeprefix(_BOM))
    for magic, media_type in _BY_FIRST_BYTE.get(start[0], ()):
        if start.startswith(magic):
            return media_type
    if start.startswith(b"RIFF"):
        return next((media for form, media in _RIFF.items() if start.startswith(form, 8)), "")
    if start.startswith(b"FORM") and start.startswith(b"AIFF", 8):
        return "audio/aiff"
    return "video/mp4" if _is_mp4(start) else ""


def _markup(start: bytes) -> str:
    """§7.1, with any white space where the standard's patterns have a space."""
    if _HTML.match(start, _after_comments(start)):
        return "text/html"
    if _XML.match(start):
        return "application/xhtml+xml" if _XHTML.search(start) else "text/xml"
    return ""


def _after_comments(start: bytes) -> int:
    offset = 0
    while (comment := _COMMENT.match(start, offset)) is not None:
        end = start.find(b"-->", comment.end())
        if end < 0:
            return len(start)
        offset = end + 3
    return offset


def _is_mp4(start: bytes) -> bool:
    """§6.2.1: a first box `ftyp` that names a brand beginning with `mp4`."""
    size_bytes = int.from_bytes(start[:4], "big")
    if len(start) < 12 or len(start) < size_bytes or size_bytes % 4 or start[4:8] != b"ftyp":
        return False
    return start[8:11] == b"mp4" or any(start[at : at + 3] == b"mp4" for at in range(16, size_bytes, 4))


def _inflated(start: bytes) -> bytes:
    try:
        return Inflater().feed(start, _DECODED_BYTES)
    except WarcError:
        return b""

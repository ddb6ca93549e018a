"""What a payload is, judged by its first bytes alone: only where they leave no doubt."""

import re
from typing import Final

from limpet.warc.errors import WarcError
from limpet.warc.members import Inflater

_PREFIX_BYTES: Final = 512
_MAGIC: Final = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
# A tag must end after its name (WHATWG MIME sniffing §7.1): `<htmlx` is not HTML. Comments and scripts prove nothing.
_HTML: Final = re.compile(rb"[\t\n\f\r ]*<(?:!doctype[\t\n\f\r ]+html|html|head|body)[\t\n\f\r >]", re.IGNORECASE)
_XML: Final = re.compile(rb"[\t\n\f\r ]*<\?xml[\t\n\r ]")
_XHTML: Final = re.compile(rb"<html[\t\n\r >]")
_GZIP_CODING: Final = re.compile(rb"[ \t]*(?:x-)?gzip[ \t]*", re.IGNORECASE)


def sniff(payload: bytes, content_encoding: bytes | None = None) -> str:
    """Media type of `payload` for WARC-Identified-Payload-Type, or "" when its beginning does not prove one.

    Looks through a single gzip content coding; any other coding identifies nothing.
    """
    start = payload[:_PREFIX_BYTES]
    if content_encoding:
        if not _GZIP_CODING.fullmatch(content_encoding):
            return ""
        start = _inflated(start)
    for magic, media_type in _MAGIC:
        if start.startswith(magic):
            return media_type
    start = start.removeprefix(b"\xef\xbb\xbf")
    if _HTML.match(start):
        return "text/html"
    if _XML.match(start):
        return "application/xhtml+xml" if _XHTML.search(start) else "application/xml"
    return ""


def _inflated(start: bytes) -> bytes:
    try:
        return Inflater().feed(start, _PREFIX_BYTES)
    except WarcError:
        return b""

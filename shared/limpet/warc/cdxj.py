"""CDXJ: one line for each capture of a segment that can be shown, sorted, as pywb and its kin read it.

That is every response record and every revisit that repeats a whole answer. A revisit that is a 304 has none: pywb
would hand the browser that very 304, and nothing would be seen; without the line it shows the capture before, which is
what the 304 says.

A line is `SURT-key YYYYMMDDhhmmss {json}`. Three columns, always: key and JSON hold no space, whatever the site sent.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from limpet.fetch.port import Head
from limpet.warc.errors import WarcError
from limpet.warc.fields import date14
from limpet.warc.http_block import head_of
from limpet.warc.members import peek
from limpet.warc.parse import HEADER_BYTES_MAX, RecordHeader, header_end, parse_header
from limpet.warc.scan import HTTP_HEAD_BYTES_MAX, Member
from limpet.warc.surt import surt

NOT_MODIFIED: Final = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
_MIME: Final = re.compile(rb"[!#$&^_.+\-0-9A-Za-z]{1,127}/[!#$&^_.+\-0-9A-Za-z]{1,127}")  # RFC 6838 §4.2
_DIGEST: Final = re.compile(r"[A-Za-z0-9-]{1,16}:[A-Za-z0-9=_-]{1,128}", re.ASCII)
_FIRST_BYTES: Final = 128
_OTHER_TYPE: Final = re.compile(rb"WARC/1\.\d\r\nWARC-Type: (?!re(?:sponse|visit)\r)[a-z]+\r")
"""How a record of ours begins that needs no line: told without inflating more than a few bytes. The type's line has to
be there with its end: of a member with long Huffman tables, the first bytes may give no more than half of it."""

_NO_HEAD: Final = Head(status=0, headers=())


class _Line(msgspec.Struct, frozen=True):
    """The JSON of a line, keys in the usual order, numbers as text as pywb writes them."""

    url: str
    mime: str
    status: str
    digest: str
    length: str
    offset: str
    filename: str


def line_of(member: Member, segment: str) -> bytes | None:
    """The line of a scanned member of `segment`, with its line end; None for a record that is not indexed."""
    return _line(member.header, member.block_start, segment, member.offset, member.length)


def index_line(member: bytes, segment: str, offset: int, length: int | None = None) -> bytes | None:
    """The line of one member just written at `offset`, inflating no more of it than its heads. Raises WarcError.

    The beginning of a member will do, as far as it holds them; then `length` is that of the whole.
    """
    if _OTHER_TYPE.match(peek(member[:_FIRST_BYTES], 1, _FIRST_BYTES)):
        return None
    content = peek(member, 2, HEADER_BYTES_MAX)
    end = header_end(content)
    if end < 0:
        raise WarcError("no end of the record header")
    header = parse_header(content[:end])
    if not is_indexed(header):
        return None
    if len(content) == HEADER_BYTES_MAX:
        content = peek(member, 2, end + HTTP_HEAD_BYTES_MAX)
    return _line(header, content[end:], segment, offset, len(member) if length is None else length)


def index_of(lines: Iterable[bytes]) -> bytes:
    """The index file: `lines` in byte order."""
    return b"".join(sorted(lines))


def is_indexed(header: RecordHeader) -> bool:
    """Whether a record has a line."""
    return header.type == "response" or (header.type == "revisit" and header.get("WARC-Profile") != NOT_MODIFIED)


def _line(header: RecordHeader, block_start: bytes, segment: str, offset: int, length: int) -> bytes | None:
    if not is_indexed(header):
        return None
    head = _head(block_start)
    digest = header.get("WARC-Payload-Digest")
    entry = _Line(
        url=header.uri,
        mime="warc/revisit" if header.type == "revisit" else _mime(head),
        status=str(head.status) if head.status else "-",
        digest=digest if _DIGEST.fullmatch(digest) else "-",
        length=str(length),
        offset=str(offset),
        filename=segment,
    )
    key = f"{surt(entry.url)} {date14(header.date_us)} ".encode("ascii")
    return key + msgspec.json.encode(entry) + b"\n"


def _head(block_start: bytes) -> Head:
    try:
        return head_of(block_start)[0]
    except WarcError:
        return _NO_HEAD


def _mime(head: Head) -> str:
    """Content-Type without parameters; `unk` when there is none that deserves the name."""
    value = (head.get(b"content-type") or b"").partition(b";")[0].strip()
    return value.decode("ascii").lower() if _MIME.fullmatch(value) else "unk"

"""Response records out of WARC files, read with gzip and string splitting: nothing of Limpet's own readers."""

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

OPEN: Final = ".open"
SUFFIX: Final = ".warc.gz"


@dataclass(frozen=True)
class Record:
    """A whole response record."""

    segment: str
    offset: int
    length: int
    url: str
    date_us: int
    status: int
    payload_sha256: str  # of the entity, transfer coding removed, content coding left
    body_sha256: str  # of what a reader sees

    @property
    def place(self) -> tuple[str, int, int]:
        """As an outcome names it."""
        return self.segment, self.offset, self.length


def incarnation_of(segment: str) -> str:
    """Who wrote it, by its name."""
    return segment.removesuffix(OPEN).removesuffix(SUFFIX).rpartition("-")[2]


def members(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(offset, length, inflated bytes) of each whole gzip member, up to the first that is not."""
    offset = 0
    while offset < len(data):
        inflater = zlib.decompressobj(wbits=31)
        content, piece = b"", 1 << 16
        at = offset
        try:
            while not inflater.eof and at < len(data):
                content += inflater.decompress(data[at : at + piece])
                at += piece
        except zlib.error:
            return
        if not inflater.eof:
            return
        end = min(at, len(data)) - len(inflater.unused_data)
        yield offset, end - offset, content
        offset = end


def records_of(segment: str, data: bytes) -> tuple[list[Record], int]:
    """Its response records, and how many bytes at its end belong to no whole member."""
    found, end = [], 0
    for offset, length, content in members(data):
        end = offset + length
        if (record := _record(segment, offset, length, content)) is not None:
            found.append(record)
    return found, len(data) - end


def _record(segment: str, offset: int, length: int, content: bytes) -> Record | None:
    head, _, rest = content.partition(b"\r\n\r\n")
    lines = head.decode("utf-8", "replace").split("\r\n")[1:]
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    if fields.get("WARC-Type") != "response":
        return None
    block = rest[: int(fields["Content-Length"])]
    http, _, wire = block.partition(b"\r\n\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in http.split(b"\r\n"))}
    payload = dechunked(wire) if headers.get(b"transfer-encoding") == b"chunked" else wire
    body = gzip.decompress(payload) if headers.get(b"content-encoding") == b"gzip" else payload
    return Record(
        segment=segment,
        offset=offset,
        length=length,
        url=fields["WARC-Target-URI"],
        date_us=round(datetime.fromisoformat(fields["WARC-Date"]).timestamp() * 1e6),
        status=int(http.split(b" ", 2)[1][:3]),
        payload_sha256=hashlib.sha256(payload).hexdigest(),
        body_sha256=hashlib.sha256(body).hexdigest(),
    )


def dechunked(wire: bytes) -> bytes:
    """The entity of a chunked body (RFC 9112, 7.1)."""
    parts = []
    while wire:
        size, _, wire = wire.partition(b"\r\n")
        count = int(size.partition(b";")[0], 16)
        if not count:
            break
        parts.append(wire[:count])
        wire = wire[count + 2 :]
    return b"".join(parts)

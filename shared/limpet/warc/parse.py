"""Reading records: tolerant of what other writers wrote, strict about bounds."""

import re
from typing import Final

import msgspec

from limpet.warc.errors import RecordTooLargeError, WarcError
from limpet.warc.fields import clean_uri, date_us
from limpet.warc.members import inflate

HEADER_BYTES_MAX: Final = 65_536
"""Longest record header read: more than eight URLs of 2,048 bytes, percent-encoded."""

_VERSION: Final = re.compile(rb"WARC/\d{1,2}\.\d{1,2}[ \t]*\r?\n")
_END_OF_HEADER: Final = re.compile(rb"\n\r?\n")
_LENGTH: Final = re.compile(r"\d{1,18}", re.ASCII)
_MANDATORY: Final = ("WARC-Type", "WARC-Record-ID", "WARC-Date", "Content-Length")  # WARC 1.1 §5.1
_TAIL: Final = b"\r\n\r\n"


class RecordHeader(msgspec.Struct, frozen=True):
    """The named fields of a record, in order, names as written."""

    fields: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str:
        """First value of field `name` (any case), or ""."""
        wanted = name.lower()
        for key, value in self.fields:
            if key == name or key.lower() == wanted:
                return value
        return ""

    @property
    def type(self) -> str:
        """WARC-Type in lower case."""
        return self.get("WARC-Type").lower()

    @property
    def id(self) -> str:
        """WARC-Record-ID."""
        return self.get("WARC-Record-ID")

    @property
    def uri(self) -> str:
        """WARC-Target-URI, clean: no `<…>` around it, no space in it."""
        return clean_uri(self.get("WARC-Target-URI"))

    @property
    def date_us(self) -> int:
        """WARC-Date in microseconds since the epoch. Raises WarcError."""
        return date_us(self.get("WARC-Date"))

    @property
    def payload_sha1_b32(self) -> str:
        """The SHA-1 in WARC-Payload-Digest, base32; "" if it has none."""
        algorithm, _, value = self.get("WARC-Payload-Digest").partition(":")
        return value if algorithm == "sha1" else ""

    @property
    def block_bytes(self) -> int:
        """Content-Length. Raises WarcError."""
        text = self.get("Content-Length")
        if not _LENGTH.fullmatch(text):
            raise WarcError(f"bad Content-Length: {text[:40]!r}")
        return int(text)


class Record(msgspec.Struct, frozen=True):
    """One whole record."""

    header: RecordHeader
    block: bytes

    @property
    def type(self) -> str:
        """WARC-Type in lower case."""
        return self.header.type

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The named fields, in order."""
        return self.header.fields


def parse_record(member: bytes, *, block_bytes_max: int) -> Record:
    """The record in one gzip member.

    Raises WarcError unless `member` is exactly one whole, intact gzip member that holds exactly one whole record whose
    block is no longer than `block_bytes_max`.
    """
    content = inflate(member, HEADER_BYTES_MAX + block_bytes_max + len(_TAIL))
    end = header_end(content)
    if end < 0:
        raise WarcError("no end of the record header")
    header = parse_header(content[:end])
    size_bytes = header.block_bytes
    if size_bytes > block_bytes_max:
        raise RecordTooLargeError(f"block larger than {block_bytes_max} bytes")
    if content[end + size_bytes :] != _TAIL:
        raise WarcError("the block does not end where Content-Length says")
    return Record(header, content[end : end + size_bytes])


def header_end(content: bytes) -> int:
    """Where the block starts in the beginning of a record; -1 if the header does not end within its limit."""
    match = _END_OF_HEADER.search(content, 0, HEADER_BYTES_MAX)
    return match.end() if match else -1


def parse_header(content: bytes) -> RecordHeader:
    """The header that ends at the end of `content`. Raises WarcError.

    Accepts any WARC version, lines ending with LF alone, folds (joined by one space) and bytes that are not UTF-8.
    """
    version = _VERSION.match(content)
    if version is None:
        raise WarcError("not a WARC record")
    fields: list[tuple[str, str]] = []
    for line in content[version.end() :].decode("utf-8", "replace").split("\n"):
        text = line.removesuffix("\r")
        if text[:1] in {" ", "\t"} and fields:
            name, value = fields[-1]
            fields[-1] = (name, f"{value} {text.strip()}")
        elif text:
            name, colon, value = text.partition(":")
            if not colon:
                raise WarcError(f"header line without a colon: {text[:40]!r}")
            fields.append((name.strip(), value.strip()))
    header = RecordHeader(tuple(fields))
    missing = next((name for name in _MANDATORY if not header.get(name)), "")
    if missing:
        raise WarcError(f"no {missing}")
    return header


def parse_fields(block: bytes) -> dict[str, str]:
    """An application/warc-fields block; of a repeated name the first value counts, odd lines are passed over."""
    fields: dict[str, str] = {}
    for line in block[:HEADER_BYTES_MAX].decode("utf-8", "replace").split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    return fields

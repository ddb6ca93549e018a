"""Content codings undone, for the parser only: the archive keeps the bytes as they came.

Everything is bounded before it is produced: output, its ratio to the input, gzip members, length of the chain.
Inflation runs in slices, so a bomb stops at the limit and a thousand members cost no more than their bytes. What could
be decoded is always returned, and every departure from the rules is a flag.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, cast

import msgspec
from isal import isal_zlib

CODING_INCOMPLETE: Final = "coding_incomplete"
"""The coded stream ends too early; what decoded is kept."""
CODING_ERROR: Final = "coding_error"
"""Damaged inside, or its checksum or length is wrong; what decoded is kept."""
CODING_ABSENT: Final = "coding_absent"
"""The header names a coding that the bytes do not have; they are taken as they are."""
DECODED_LIMIT: Final = "decoded_limit"
"""A limit on decoded bytes, ratio, members or chain stopped the decoder."""
TRAILING_BYTES: Final = "trailing_bytes"
"""Something follows the end of the coded stream and is ignored."""
UNKNOWN_CODING: Final = "unknown_coding"
"""A coding that is not known here; the bytes are taken as they are."""

_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_HEADER_BYTES: Final = 10
_GZIP_TRAILER: Final = struct.Struct("<II")
_FHCRC, _FEXTRA, _FNAME, _FCOMMENT, _RESERVED = 2, 4, 8, 16, 0xE0
_SLICE_BYTES: Final = 65_536
_SALVAGE_SLICE_BYTES: Final = 256
_RAW_DEFLATE: Final = -15
_WRAPPED_GZIP: Final = 31
_DAMAGE = cast("type[Exception]", isal_zlib.error)  # its stub calls it an instance
_NO_FLAGS: Final[frozenset[str]] = frozenset()


class DecodeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one decoding. `ratio_max` applies beyond `ratio_free_bytes` only: small pages do repeat themselves."""

    decoded_bytes_max: int = 20_000_000
    ratio_max: int = 100
    ratio_free_bytes: int = 2_000_000
    members_max: int = 1_000
    codings_max: int = 2

    def bytes_max(self, wire_bytes: int) -> int:
        """How many bytes `wire_bytes` coded bytes may turn into."""
        return min(self.decoded_bytes_max, max(self.ratio_free_bytes, self.ratio_max * wire_bytes))


class Decoded(NamedTuple):
    """Decoded content, and what was odd about it: a set of the flags above, empty when nothing was."""

    data: bytes
    flags: frozenset[str]


def decode_body(payload: bytes, content_encoding: bytes | None, limits: DecodeLimits) -> Decoded:
    """Undo the codings that `content_encoding` names, the last one first (RFC 9110 §8.4). Never raises.

    `payload` is the content with transfer coding removed. Known are gzip, x-gzip and deflate, the latter in its zlib
    form or raw, and identity. Memory: a small multiple of what is returned, at most `limits.bytes_max`.
    """
    codings = _codings(content_encoding)
    if not codings or not payload:
        return Decoded(payload, _NO_FLAGS)
    if len(codings) > limits.codings_max:
        return Decoded(payload, frozenset({DECODED_LIMIT}))
    bytes_max = limits.bytes_max(len(payload))
    data, flags = payload, set[str]()
    for coding in reversed(codings):
        if coding not in (b"gzip", b"x-gzip", b"deflate"):
            flags.add(UNKNOWN_CODING)
            break
        undo = _deflate if coding == b"deflate" else _gzip
        data, odd = undo(data, bytes_max, limits.members_max)
        flags |= odd
    return Decoded(data, frozenset(flags))


def coding_is_cut(payload: bytes | Iterable[bytes], content_encoding: bytes | None) -> bool:
    """Whether the coded stream ends too early. Costs an inflation; a plain body costs nothing.

    Of a payload in pieces nothing is kept, and no more is read than the parser would decode.
    """
    if not isinstance(payload, bytes):
        return _stream_is_cut(payload, content_encoding, DecodeLimits())
    return CODING_INCOMPLETE in decode_body(payload, content_encoding, DecodeLimits()).flags


def _stream_is_cut(pieces: Iterable[bytes], content_encoding: bytes | None, limits: DecodeLimits) -> bool:
    """For the one coding in use; of a chain nobody asked for, only the payload at hand would tell."""
    codings = _codings(content_encoding)
    if len(codings) != 1 or codings[0] not in (b"gzip", b"x-gzip"):
        return False
    left, members, member = limits.decoded_bytes_max, 0, b""
    decoder = None
    for piece in pieces:
        data = member + piece
        member = b""
        while data:
            if decoder is None:
                if len(data) < len(_GZIP_MAGIC):
                    member = data  # the next piece tells
                    break
                if not data.startswith(_GZIP_MAGIC) or members >= limits.members_max:
                    return False
                decoder, members = isal_zlib.decompressobj(wbits=_WRAPPED_GZIP), members + 1
            try:
                made = decoder.decompress(data, _SLICE_BYTES)
            except _DAMAGE:
                return False
            left -= len(made)
            if left <= 0:
                return False
            data = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
            decoder = None if decoder.eof else decoder
    while decoder is not None and not decoder.eof:
        made = decoder.decompress(b"", _SLICE_BYTES)  # output that the last piece left behind
        left -= len(made)
        if not made or left <= 0:
            return left > 0
    return False


def _codings(value: bytes | None) -> list[bytes]:
    if not value:
        return []
    tokens = (token.strip(b"\t ").lower() for token in value.split(b","))
    return [token for token in tokens if token not in (b"", b"identity")]


class _Inflated(NamedTuple):
    """One raw deflate stream. `end` is the offset behind it; None when it did not end."""

    data: bytes
    end: int | None
    damaged: bool
    full: bool


def _gzip(payload: bytes, bytes_max: int, members_max: int) -> tuple[bytes, set[str]]:
    """All members, one after the other (RFC 1952 §2.2)."""
    if not payload.startswith(_GZIP_MAGIC):
        return payload, {CODING_ABSENT}
    parts: list[bytes] = []
    flags: set[str] = set()
    left, position = bytes_max, 0
    for _ in range(members_max):
        start = _after_gzip_header(payload, position)
        if start is None:
            flags.add(TRAILING_BYTES if parts else CODING_INCOMPLETE)
            break
        member = _inflate(payload, start, left)
        parts.append(member.data)
        left -= len(member.data)
        flags |= _verdict(member)
        if member.end is None or member.full:
            break
        position = member.end + _GZIP_TRAILER.size
        flags |= _check_trailer(payload[member.end : position], member.data)
        if position >= len(payload):
            break
        if not payload.startswith(_GZIP_MAGIC, position):
            flags.add(TRAILING_BYTES)
            break
    else:
        flags.add(DECODED_LIMIT)
    return parts[0] if len(parts) == 1 else b"".join(parts), flags


def _deflate(payload: bytes, bytes_max: int, _members_max: int) -> tuple[bytes, set[str]]:
    """The zlib form that the standard asks for, or the raw one that some servers send (RFC 9110 §8.4.1.2)."""
    wrapped = len(payload) >= 2 and payload[0] & 0x0F == 8 and int.from_bytes(payload[:2], "big") % 31 == 0
    if wrapped:
        stream = _inflate(payload, 2, bytes_max)
        if stream.data or not stream.damaged:
            return stream.data, _verdict(stream) | _check_adler(payload, stream)
    stream = _inflate(payload, 0, bytes_max)
    if stream.damaged and not stream.data:
        return payload, {CODING_ABSENT}
    trailing = stream.end is not None and stream.end < len(payload)
    return stream.data, _verdict(stream) | ({TRAILING_BYTES} if trailing else set())


def _verdict(stream: _Inflated) -> set[str]:
    if stream.full:
        return {DECODED_LIMIT}
    if stream.damaged:
        return {CODING_ERROR}
    return {CODING_INCOMPLETE} if stream.end is None else set()


def _check_trailer(trailer: bytes, data: bytes) -> set[str]:
    """CRC-32 and length of a gzip member; isal would withhold the data when they are wrong."""
    if len(trailer) < _GZIP_TRAILER.size:
        return {CODING_INCOMPLETE}
    good = _GZIP_TRAILER.unpack(trailer) == (isal_zlib.crc32(data), len(data) & 0xFFFFFFFF)
    return set() if good else {CODING_ERROR}


def _check_adler(payload: bytes, stream: _Inflated) -> set[str]:
    if stream.end is None or stream.full:
        return set()
    checksum = payload[stream.end : stream.end + 4]
    if len(checksum) < 4:
        return {CODING_INCOMPLETE}
    flags = set() if int.from_bytes(checksum, "big") == isal_zlib.adler32(stream.data) else {CODING_ERROR}
    return flags | ({TRAILING_BYTES} if stream.end + 4 < len(payload) else set())


def _after_gzip_header(payload: bytes, start: int) -> int | None:
    """Where the compressed data of the member at `start` begin; None when its header is cut or not gzip's."""
    fixed = payload[start : start + _GZIP_HEADER_BYTES]
    if len(fixed) < _GZIP_HEADER_BYTES or fixed[2] != 8 or fixed[3] & _RESERVED:
        return None
    flags, position = fixed[3], start + _GZIP_HEADER_BYTES
    if flags & _FEXTRA:
        position += 2 + int.from_bytes(payload[position : position + 2], "little")
    for flag in (_FNAME, _FCOMMENT):
        if flags & flag:
            end = payload.find(b"\0", position)
            if end < 0:
                return None
            position = end + 1
    if flags & _FHCRC:
        position += 2
    return position if position <= len(payload) else None


def _inflate(payload: bytes, start: int, bytes_max: int) -> _Inflated:
    """Inflate the raw deflate stream at `start` to at most `bytes_max` bytes."""
    stream = _inflate_in_slices(payload, start, bytes_max, _SLICE_BYTES)
    if stream.damaged:
        # the slice in which the damage lies was lost as a whole: come closer to it
        stream = _inflate_in_slices(payload, start, bytes_max, _SALVAGE_SLICE_BYTES)
    return stream


def _inflate_in_slices(payload: bytes, start: int, bytes_max: int, slice_bytes: int) -> _Inflated:
    decoder = isal_zlib.decompressobj(wbits=_RAW_DEFLATE)
    parts: list[bytes] = []
    made = 0
    for position, piece in _slices(payload, start, slice_bytes):
        try:
            # one byte more than allowed tells a stream that just fits from one that does not
            part = decoder.decompress(piece, bytes_max - made + 1)
        except _DAMAGE:
            return _Inflated(b"".join(parts), None, damaged=True, full=False)
        parts.append(part)
        made += len(part)
        if made > bytes_max:
            return _Inflated(b"".join(parts)[:bytes_max], None, damaged=False, full=True)
        if decoder.eof:
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            return _Inflated(data, position + len(piece) - len(decoder.unused_data), damaged=False, full=False)
    return _Inflated(b"".join(parts), None, damaged=False, full=False)


def _slices(payload: bytes, start: int, slice_bytes: int) -> Iterator[tuple[int, bytes]]:
    for position in range(start, len(payload), slice_bytes):
        yield position, payload[position : position + slice_bytes]

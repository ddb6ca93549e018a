"""Content codings undone for the parser: damage, lies and bombs."""

import gzip
import random
import tracemalloc
import zlib
from functools import cache

import pytest

from limpet.parser.decode import (
    CODING_ABSENT,
    CODING_ERROR,
    CODING_INCOMPLETE,
    DECODED_LIMIT,
    TRAILING_BYTES,
    UNKNOWN_CODING,
    Decoded,
    DecodeLimits,
    coding_is_cut,
    decode_body,
)

BODY = b"<p>hello</p>"
LIMITS = DecodeLimits()
TEXT = bytes(random.Random(7).choices(b"abcdefgh <>/=", k=200_000))


def gz(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def raw_deflate(data: bytes) -> bytes:
    coder = zlib.compressobj(9, zlib.DEFLATED, -15)
    return coder.compress(data) + coder.flush()


def decoded(data: bytes, *flags: str) -> Decoded:
    return Decoded(data, frozenset(flags))


@pytest.mark.parametrize(
    ("payload", "coding"),
    [
        (BODY, None),
        (BODY, b""),
        (BODY, b"identity"),
        (gz(BODY), b"gzip"),
        (gz(BODY), b" X-GZip ,identity"),
        (zlib.compress(BODY), b"deflate"),
        (raw_deflate(BODY), b"deflate"),
        (gz(gz(BODY)), b"gzip, gzip"),
        (gz(zlib.compress(BODY)), b"deflate, gzip"),
        (gz(BODY[:5]) + gz(b"") + gz(BODY[5:]), b"gzip"),
    ],
)
def test_sound_codings_decode_without_a_flag(payload: bytes, coding: bytes | None) -> None:
    """The known codings: gzip (also in members), zlib and raw deflate, identity; two deep; names in any case."""
    assert decode_body(payload, coding, LIMITS) == decoded(BODY)


def test_large_bodies_decode_whole() -> None:
    """Streams longer than a slice, and members that end anywhere in one."""
    members = b"".join(gz(TEXT[start : start + 7_001]) for start in range(0, len(TEXT), 7_001))
    assert decode_body(gz(TEXT), b"gzip", LIMITS) == decoded(TEXT)
    assert decode_body(members, b"gzip", LIMITS) == decoded(TEXT)
    assert decode_body(zlib.compress(TEXT), b"deflate", LIMITS) == decoded(TEXT)


@pytest.mark.parametrize("coding", [b"gzip", b"x-gzip", b"deflate"])
def test_a_coding_that_is_not_there_leaves_the_bytes(coding: bytes) -> None:
    """A plain body under Content-Encoding is the body (report G07)."""
    assert decode_body(BODY, coding, LIMITS) == decoded(BODY, CODING_ABSENT)


def test_a_cut_stream_gives_what_it_has_and_says_so() -> None:
    """Never plain success for a body that ends too early, wherever it is cut (report G08a)."""
    whole = gz(TEXT)
    half = decode_body(whole[: len(whole) // 2], b"gzip", LIMITS)
    assert half.flags == {CODING_INCOMPLETE}
    assert len(half.data) > len(TEXT) // 3
    assert TEXT.startswith(half.data)
    small = gz(BODY * 50)
    for end in range(2, len(small)):
        cut = decode_body(small[:end], b"gzip", LIMITS)
        assert cut.flags == {CODING_INCOMPLETE}
        assert (BODY * 50).startswith(cut.data)
    assert decode_body(zlib.compress(BODY)[:-2], b"deflate", LIMITS) == decoded(BODY, CODING_INCOMPLETE)


def test_only_an_end_that_is_missing_is_worth_another_fetch() -> None:
    """Damage, lies, bombs and trailing bytes come again with the next answer; a cut may not."""
    whole = gz(TEXT)
    assert coding_is_cut(whole[:-1], b"gzip")
    for payload in (whole, whole + b"x", whole[:-8] + b"\0" * 8, BODY, b"", gz(bytes(30_000_000))):
        assert not coding_is_cut(payload, b"gzip")
    assert not coding_is_cut(whole[:-1], None)


def test_bytes_behind_the_end_are_ignored() -> None:
    """A comment appended by some filter, or padding, is no content (report G08b)."""
    for tail in (b"\n\n<!-- x -->", b"\0\0\0\0", b"\x1f\x8b"):
        assert decode_body(gz(BODY) + tail, b"gzip", LIMITS) == decoded(BODY, TRAILING_BYTES)
    assert decode_body(zlib.compress(BODY) + b"x", b"deflate", LIMITS) == decoded(BODY, TRAILING_BYTES)
    assert decode_body(raw_deflate(BODY) + b"x", b"deflate", LIMITS) == decoded(BODY, TRAILING_BYTES)


def test_a_wrong_checksum_or_length_is_flagged_and_the_text_kept() -> None:
    """The bytes are what the reader would see (report G08c)."""
    sound = gz(BODY)
    assert decode_body(sound[:-8] + b"\0\0\0\0" + sound[-4:], b"gzip", LIMITS) == decoded(BODY, CODING_ERROR)
    assert decode_body(sound[:-4] + b"\0\0\0\0", b"gzip", LIMITS) == decoded(BODY, CODING_ERROR)
    assert decode_body(zlib.compress(BODY)[:-4] + b"\0\0\0\0", b"deflate", LIMITS) == decoded(BODY, CODING_ERROR)


def test_what_precedes_damage_is_kept() -> None:
    """An impossible block ends the stream; nearly all that came before it is used."""
    coder = zlib.compressobj(6, zlib.DEFLATED, -15)
    stream = coder.compress(TEXT[:50_000]) + coder.flush(zlib.Z_FULL_FLUSH)
    header = gz(b"")[:10]
    found = decode_body(header + stream + b"\x07" * 1_000, b"gzip", LIMITS)
    assert found.flags == {CODING_ERROR}
    assert TEXT.startswith(found.data[:49_000])
    assert len(found.data) >= 49_000


@pytest.mark.parametrize("coding", [b"br", b"zstd", b"utf-8", b"gzip, br", b"none"])
def test_unknown_codings_leave_the_bytes(coding: bytes) -> None:
    """What is not known is not guessed at."""
    assert decode_body(BODY, coding, LIMITS) == decoded(BODY, UNKNOWN_CODING)


def test_long_chains_are_not_followed() -> None:
    """Two codings are more than servers use; three are an attack."""
    triple = gz(gz(gz(BODY)))
    assert decode_body(triple, b"gzip, gzip, gzip", LIMITS) == decoded(triple, DECODED_LIMIT)


def test_an_empty_body_has_nothing_to_decode() -> None:
    """Many empty answers carry Content-Encoding."""
    assert decode_body(b"", b"gzip", LIMITS) == decoded(b"")


def test_gzip_headers_with_every_option() -> None:
    """Extra field, name, comment and header checksum are stepped over (RFC 1952 §2.3)."""
    plain = gz(BODY)
    header = b"\x1f\x8b\x08" + bytes([2 | 4 | 8 | 16]) + plain[4:10] + b"\x03\x00abc" + b"name\0" + b"note\0" + b"hc"
    assert decode_body(header + plain[10:], b"gzip", LIMITS) == decoded(BODY)
    for end in range(2, len(header)):
        assert decode_body(header[:end], b"gzip", LIMITS) == decoded(b"", CODING_INCOMPLETE)


@cache
def bombs() -> dict[str, tuple[bytes, bytes]]:
    zeros = gz(b"\0" * 2**24)
    return {
        "one member": (zeros, b"gzip"),
        "twice": (gz(zeros), b"gzip, gzip"),
        "members": (zeros * 50, b"gzip"),
        "deflate": (zlib.compress(b"\0" * 2**24), b"deflate"),
        "raw deflate": (raw_deflate(b"\0" * 2**24), b"deflate"),
    }


@pytest.mark.parametrize("name", list(bombs()))
def test_a_bomb_stops_at_the_limit_in_little_memory(name: str) -> None:
    """Memory stays within a small multiple of the limit, however the bomb is packed (report G10)."""
    payload, coding = bombs()[name]
    limits = DecodeLimits(decoded_bytes_max=1_000_000)
    tracemalloc.start()
    try:
        found = decode_body(payload, coding, limits)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.flags == {DECODED_LIMIT}
    assert found.data == b"\0" * 1_000_000
    assert peak < 5_000_000


def test_a_body_that_just_fits_is_whole() -> None:
    """The limit is inclusive."""
    limits = DecodeLimits(decoded_bytes_max=len(BODY))
    assert decode_body(gz(BODY), b"gzip", limits) == decoded(BODY)
    assert decode_body(gz(BODY + b"x"), b"gzip", limits) == decoded(BODY, DECODED_LIMIT)
    assert decode_body(gz(BODY) + gz(b"x"), b"gzip", limits) == decoded(BODY, DECODED_LIMIT)


def test_the_ratio_is_bounded_beyond_a_free_amount() -> None:
    """Few wire bytes do not buy many decoded ones, but a small page may repeat itself."""
    limits = DecodeLimits(ratio_max=10, ratio_free_bytes=50_000)
    assert decode_body(gz(b"a" * 50_000), b"gzip", limits) == decoded(b"a" * 50_000)
    assert decode_body(gz(b"a" * 60_000), b"gzip", limits) == decoded(b"a" * 50_000, DECODED_LIMIT)


def test_members_are_bounded_and_cost_no_more_than_their_bytes() -> None:
    """A million members end at the limit; a thousand large ones are all read."""
    assert decode_body(gz(b"") * 100_000, b"gzip", LIMITS) == decoded(b"", DECODED_LIMIT)
    assert decode_body(gz(BODY) * 999, b"gzip", LIMITS) == decoded(BODY * 999)

"""Bodies that are inflated once for two readers."""

import gzip
import hashlib

from limpet.parser.decode import DecodeLimits, coding_is_cut, decode_body
from limpet.parser.kept import BODY_BYTES_MAX, KeptBodies

GZIP = b"gzip"


def digest(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()


def test_a_body_is_what_decoding_it_again_would_give_and_is_taken_once() -> None:
    """Whole, cut or damaged: verdict and content are those of the decoder."""
    whole = gzip.compress(b"<a href=/x>" * 900)
    for payload in (whole, whole[:-9], b"no gzip at all"):
        kept = KeptBodies()
        assert kept.coding_is_cut(payload, GZIP) is coding_is_cut(payload, GZIP)
        assert kept.take(digest(payload), b"deflate") is None
        assert kept.take(digest(payload), GZIP) == decode_body(payload, GZIP, DecodeLimits())
        assert kept.take(digest(payload), GZIP) is None


def test_what_has_no_coding_is_not_kept() -> None:
    """There is nothing to save."""
    kept = KeptBodies()
    assert kept.coding_is_cut(b"plain", None) is False
    assert kept.take(digest(b"plain"), None) is None


def test_what_is_kept_is_bounded() -> None:
    """The oldest go first, long ones are never kept, and the same body twice counts once."""
    payloads = [gzip.compress(bytes([number]) * 1_000) for number in range(5)]
    kept = KeptBodies(kept_bytes_max=3_000)
    for payload in [*payloads, payloads[-1]]:
        kept.coding_is_cut(payload, GZIP)
    assert [kept.take(digest(payload), GZIP) is not None for payload in payloads] == [False, False, True, True, True]
    long = gzip.compress(b"x" * (BODY_BYTES_MAX + 1))
    kept.coding_is_cut(long, GZIP)
    assert kept.take(digest(long), GZIP) is None

"""What archived answers to robots.txt mean, and the waits that answers ask for."""

import gzip
import hashlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.assembly.robots_body import decode_robots
from limpet.fetch import Capture, Head
from limpet.reconciler.audit_answers import decoded_body, marker, meaning_of, wait_until_us
from limpet.robots import HttpAnswer, Settled, digest, next_step

BODY = b"User-agent: *\nDisallow: /a\n" * 100
NOW_US = 1_800_000_000_000_000


@pytest.mark.parametrize("status", [100, 200, 206, 300, 301, 304, 308, 400, 401, 403, 404, 410, 429, 500, 503, 600])
def test_meanings_agree_with_the_machine_that_licenses(status: int) -> None:
    """Two readings of RFC 9309 §2.3.1, written apart, and the digests by which copies are known."""
    step = next_step(0, HttpAnswer(status, location=b"/x", body=BODY))
    meaning, name = meaning_of(status, BODY)
    if isinstance(step, Settled):
        assert meaning == step.status
        assert name == step.digest
    else:
        assert meaning == "redirect"


@pytest.mark.parametrize(
    ("payload", "coding", "is_read"),
    [
        (BODY, b"utf-8", True),
        (BODY + b"# \xc3\xa9 \xc3", b"br", True),
        (b"\x0b\x0c\x80" + BODY + b"\x03", b"br", False),
        (b"\x28\xb5\x2f\xfd\x04\x00" + BODY, b"zstd", False),
        (BODY + b"\0", b"br", False),
        (gzip.compress(b"\x0b\x0c\x80" + BODY, mtime=0), b"br, gzip", False),
        (gzip.compress(b"", mtime=0) * 1_000 + gzip.compress(BODY, mtime=0), b"gzip", False),
        (gzip.compress(BODY, mtime=0)[:-20], b"gzip", False),
    ],
)
def test_what_cannot_be_read_is_no_licence_to_either(payload: bytes, coding: bytes, is_read: bool) -> None:
    """A coding that nobody asked for, or that is not undone to its end: its bytes are no rules; plain text is."""
    capture = Capture(url="", head=Head(status=200, headers=((b"Content-Encoding", coding),)), payload=payload)
    expected = payload if is_read else None
    assert decode_robots(capture) == expected
    assert decoded_body(payload, coding, "") == expected


def test_a_partial_body_means_disallow() -> None:
    """The missing part may have held the rule that matters."""
    assert meaning_of(200, None)[0] == "unreachable"
    assert meaning_of(404, None)[0] == "allow_all"


def test_markers_are_digests_of_words() -> None:
    """A copy without a body is known by what it stands for."""
    assert marker("allow_all:404") == hashlib.sha256(b"allow_all:404").hexdigest() == meaning_of(404, b"")[1]
    assert meaning_of(200, BODY)[1] == digest(BODY)


@pytest.mark.parametrize(
    ("payload", "coding"),
    [
        (BODY, None),
        (BODY, b"identity"),
        (gzip.compress(BODY, mtime=0), b"gzip"),
        (gzip.compress(BODY, mtime=0), b"X-GZIP"),
        (gzip.compress(BODY[:50], mtime=0) + gzip.compress(BODY[50:], mtime=0), b"gzip"),
        (gzip.compress(BODY, mtime=0) + b"trailing", b"gzip"),
        (zlib.compress(BODY), b"deflate"),
        (zlib.compress(BODY, wbits=-15), b"deflate"),
        (gzip.compress(zlib.compress(BODY), mtime=0), b"deflate, gzip"),
        (BODY, b"gzip"),
        (BODY, b"br"),
    ],
)
def test_content_codings_are_undone(payload: bytes, coding: bytes | None) -> None:
    """Also when the header names one that is not there, or that nobody asked for: bytes as they are."""
    assert decoded_body(payload, coding, "") == BODY


@pytest.mark.parametrize(
    ("payload", "coding", "truncated"),
    [
        (BODY, None, "disconnect"),
        (BODY, None, "time"),
        (gzip.compress(BODY, mtime=0)[:-20], b"gzip", ""),
        (gzip.compress(BODY, mtime=0) + gzip.compress(BODY, mtime=0)[:30], b"gzip", ""),
        (zlib.compress(BODY)[:-20], b"deflate", ""),
    ],
)
def test_what_is_cut_has_no_meaning(payload: bytes, coding: bytes | None, truncated: str) -> None:
    """A body that broke off says nothing."""
    assert decoded_body(payload, coding, truncated) is None


def test_a_bomb_stays_small() -> None:
    """Nobody parses more than half a megabyte."""
    bomb = gzip.compress(b"Disallow: /a\n" * 1_000_000)
    assert len(decoded_body(bomb, b"gzip", "") or b"") <= 1_000_000
    assert decoded_body(BODY * 300, None, "length") == BODY * 300


@given(payload=st.binary(max_size=200), coding=st.sampled_from([None, b"gzip", b"deflate", b"gzip, deflate", b",,"]))
def test_any_payload_will_do(payload: bytes, coding: bytes | None) -> None:
    """Never raises."""
    decoded = decoded_body(payload, coding, "")
    assert decoded is None or isinstance(decoded, bytes)


@pytest.mark.parametrize(
    ("status", "value", "seconds"),
    [
        (503, b"120", 120),
        (429, b" 5 ", 5),
        (503, b"0", 0),
        (503, b"Fri, 15 Jan 2027 08:01:30 GMT", 90),
        (503, b"Friday, 15-Jan-27 08:01:30 GMT", 90),
        (503, b"9" * 400, 366 * 86_400),
        (503, b"Fri, 15 Jan 2999 08:00:00 GMT", 366 * 86_400),
    ],
)
def test_waits_in_both_forms(status: int, value: bytes, seconds: int) -> None:
    """Counted from the send; no longer than a year."""
    assert wait_until_us(status, [value], NOW_US) == NOW_US + seconds * 1_000_000


@pytest.mark.parametrize("fields", [[b"5", b"90"], [b"90", b"5"], [b"Fri, 15 Jan 2027 08:01:30 GMT", b"soon", b"0"]])
def test_of_several_waits_the_longest_counts(fields: list[bytes]) -> None:
    """In whatever order; what cannot be read asks for nothing."""
    assert wait_until_us(503, fields, NOW_US) == NOW_US + 90_000_000


@pytest.mark.parametrize(("status", "value"), [(200, b"120"), (302, b"120"), (503, None), (503, b""), (503, b"soon")])
def test_what_asks_for_nothing(status: int, value: bytes | None) -> None:
    """Only a readable wait of a 429 or 503 binds the host."""
    assert wait_until_us(status, [] if value is None else [value], NOW_US) == 0


@given(value=st.binary(max_size=60))
def test_any_retry_after_will_do(value: bytes) -> None:
    """Never raises, never goes beyond a year."""
    assert wait_until_us(503, [value], NOW_US) <= NOW_US + 366 * 86_400 * 1_000_000

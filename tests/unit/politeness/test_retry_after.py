"""Retry-After in both forms (RFC 9110 §10.2.3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.politeness.retry_after import RETRY_AFTER_SECONDS_MAX, longest_wait_us, retry_after_us

NOW_US = 1_796_000_000_000_000  # 2026-11-30T00:53:20Z


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"120", 120),
        (b" 7 ", 7),
        (b"0", 0),
        (b"Mon, 30 Nov 2026 00:54:20 GMT", 60),
        (b"Monday, 30-Nov-26 00:54:20 GMT", 60),
        (b"Mon Nov 30 00:54:20 2026", 60),
        (b"Sun, 29 Nov 2026 00:00:00 GMT", 0),
        (b"99999999999999999999", RETRY_AFTER_SECONDS_MAX),
        (b"999999999999", RETRY_AFTER_SECONDS_MAX),
    ],
)
def test_what_the_site_asks_for_is_understood(value: bytes, seconds: int) -> None:
    """Seconds, the three date forms of RFC 9110 §5.6.7, the past, and absurd lengths (cut, still obeyed)."""
    assert retry_after_us(value, NOW_US) == seconds * 1_000_000


@pytest.mark.parametrize("value", [None, b"", b"soon", b"-5", b"1.5", b"12 parsecs", b"\xff\xfe", b"Mon, 99 Foo"])
def test_what_nobody_understands_is_none(value: bytes | None) -> None:
    """The caller then takes its own default wait."""
    assert retry_after_us(value, NOW_US) is None


@given(st.binary(max_size=200))
def test_no_header_can_raise(value: bytes) -> None:
    """Whatever bytes a site sends, the answer is a bounded wait or none."""
    wait_us = retry_after_us(value, NOW_US)
    assert wait_us is None or 0 <= wait_us <= RETRY_AFTER_SECONDS_MAX * 1_000_000


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        ([], None),
        ([b"soon", b""], None),
        ([b"5", b"60"], 60),
        ([b"60", b"5"], 60),
        ([b"0", b"soon"], 0),
        ([b"soon", b"7"], 7),
        ([b"30", b"Mon, 30 Nov 2026 00:54:20 GMT"], 60),
        ([b"90", b"Mon, 30 Nov 2026 00:54:20 GMT"], 90),
    ],
)
def test_of_several_fields_the_longest_wait_counts(values: list[bytes], seconds: int | None) -> None:
    """Whatever their order and form; those that nobody understands are passed over."""
    headers = [(b"Retry-After", value) for value in values]
    assert longest_wait_us(headers, NOW_US) == (None if seconds is None else seconds * 1_000_000)


def test_dates_are_taken_against_the_date_of_the_response() -> None:
    """Two of the site's own clock, each against the same Date field."""
    headers = [
        (b"retry-after", b"Thu, 01 Jan 2015 00:00:10 GMT"),
        (b"DATE", b"Thu, 01 Jan 2015 00:00:00 GMT"),
        (b"RETRY-AFTER", b"Thu, 01 Jan 2015 00:01:00 GMT"),
    ]
    assert longest_wait_us(headers, NOW_US) == 60_000_000

"""How long an answer asks its host to be left alone."""

import pytest

from limpet.crawlnode.exchange import asked_wait_us
from limpet.fetch import Head

NOW_US = 1_000_000_000_000_000


def wait_seconds(status: int, *values: bytes, failing: int = 0) -> float:
    """Of an answer with such Retry-After fields."""
    headers = tuple((b"Retry-After", value) for value in values)
    return asked_wait_us(Head(status=status, headers=headers), failing, NOW_US) / 1e6


@pytest.mark.parametrize("status", [200, 202, 204, 301, 302, 304, 403, 404, 408, 429, 500, 503])
def test_a_retry_after_counts_whatever_the_status(status: int) -> None:
    """Pages and robots.txt alike; of several fields the longest."""
    assert wait_seconds(status, b"12") == 12
    assert wait_seconds(status, b"5", b"60") == 60


@pytest.mark.parametrize("value", [b"soon", b"-5", b"1.5", b"", b"0"])
def test_what_cannot_be_understood_is_no_wait_but_with_429_and_503(value: bytes) -> None:
    """Those are left alone for half a minute, doubling up to an hour."""
    assert wait_seconds(200, value) == wait_seconds(404, value) == 0
    assert wait_seconds(429, value) == wait_seconds(503, value) == 30
    assert wait_seconds(503, value, failing=2) == 120
    assert wait_seconds(429, failing=50) == 3600

"""Retry-After in both forms (RFC 9110 §10.2.3)."""

from collections.abc import Iterable
from datetime import UTC
from email.utils import parsedate_to_datetime

RETRY_AFTER_SECONDS_MAX = 366 * 86_400
"""Longer waits are cut to this: the host is reported as waiting either way."""


def retry_after_us(value: bytes | None, now_us: int, date: bytes | None = None) -> int | None:
    """Microseconds from now that the site asks to wait, or None when it says nothing that can be understood.

    A date is taken against the response's own `date`, if it has one: the two are of one clock, ours may be another.
    """
    if value is None:
        return None
    text = value.strip()
    if text.isdigit():
        seconds = int(text[:12]) if len(text) <= 12 else RETRY_AFTER_SECONDS_MAX
        return min(seconds, RETRY_AFTER_SECONDS_MAX) * 1_000_000
    until_us = _date_us(text)
    if until_us is None:
        return None
    said_us = _date_us(date) if date is not None else None
    return min(max(0, until_us - (now_us if said_us is None else said_us)), RETRY_AFTER_SECONDS_MAX * 1_000_000)


def longest_wait_us(headers: Iterable[tuple[bytes, bytes]], now_us: int) -> int | None:
    """The longest wait that the Retry-After fields of one response ask for, None when none can be understood.

    A site that asks twice, itself and the proxy before it, say, is left alone until both have what they want.
    """
    fields = [(name.lower(), value) for name, value in headers]
    date = next((value for name, value in fields if name == b"date"), None)
    asked = (retry_after_us(value, now_us, date) for name, value in fields if name == b"retry-after")
    return max((wait_us for wait_us in asked if wait_us is not None), default=None)


def _date_us(text: bytes) -> int | None:
    """An HTTP date in microseconds since the epoch."""
    try:
        date = parsedate_to_datetime(text.decode("latin-1"))
        return int(date.replace(tzinfo=date.tzinfo or UTC).timestamp() * 1_000_000)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None

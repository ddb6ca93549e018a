"""What came of one send: the unit that is keyed on (URL fingerprint, fetch time)."""

from typing import Final

import msgspec

from limpet.segments.port import Location

UNSENT: Final = frozenset({"gate", "dns", "proxy"})
"""Kinds of failure before a request could go out: such an attempt is not among the requests of its day."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One finished attempt. Equal key, equal value: a replay overwrites itself.

    `fetched_us` is the capture's WARC-Date (wall clock, microseconds), unique among the outcomes of one URL.
    `location` is the response record; None when there was no HTTP answer.
    """

    fp: bytes
    fetched_us: int
    url: str  # as sent
    status: int = 0
    failure: str = ""  # kind of network failure, "" when there was an HTTP answer
    detail: str = ""
    location: Location | None = None
    wire_bytes: int = 0
    payload_sha256: str = ""
    payload_sha1: str = ""  # base32, as in WARC-Payload-Digest
    mime: str = ""
    content_encoding: str = ""
    truncated: str = ""
    duration_us: int = 0
    remote_ip: str = ""
    robots_digest: str = ""  # of the copy that licensed the send
    robots_rule: str = ""
    gap_us: int = 0  # the host's gap in force at the send
    page: bool = True  # counts against --limit; redirects do not
    etag: str = ""
    last_modified: str = ""
    decoded_digest: str = ""
    signals: tuple[str, ...] = ()
    insecure_tls: bool = False  # an invalid certificate was accepted on request

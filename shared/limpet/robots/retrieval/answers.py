"""What one answer to a request for /robots.txt means (RFC 9309 section 2.3.1)."""

from __future__ import annotations

import hashlib
from typing import Final, Literal

import msgspec

from limpet.robots.lines import capped, digest
from limpet.robots.retrieval.oddity import TOO_LARGE, is_binary

REDIRECTS_MAX: Final = 5
"""At least five consecutive hops are followed, across authorities too (section 2.3.1.2)."""

SECOND_US: Final = 1_000_000
HOUR_US: Final = 3_600 * SECOND_US
DAY_US: Final = 24 * HOUR_US
COPY_LIFE_US: Final = DAY_US
"""A copy SHOULD NOT be used for longer than 24 hours (section 2.4)."""

RETRY_AFTER_US_MAX: Final = 3_650 * DAY_US
"""Longer waits are cut to this, so that every instant fits 64 bits."""

DISALLOW_ALL: Final = b"User-agent: *\nDisallow: /\n"
"""The body that stands for a 401 or 403 when those are read strictly."""

UNPARSEABLE: Final = "unparseable"

_REDIRECTS: Final = frozenset((300, 301, 302, 303, 307, 308))

Status = Literal["rules", "allow_all", "unreachable"]
FailureKind = Literal[
    "dns", "refused", "connect", "tls", "tls_certificate", "timeout", "reset", "protocol", "gate", "proxy"
]
Failing = Literal["http", "connection"]


class HttpAnswer(msgspec.Struct, frozen=True, tag=True):
    """A final HTTP response. `body` is content-decoded and whole up to the read limit.

    The limit must lie above BODY_BYTES_MAX, else a cut line goes unnoticed. A body that broke off below the limit is
    no answer: report it as NetworkFailure("reset"), since the missing part may have held the rule that matters.
    `location` is the field's raw value; `retry_after_us` the wait it asks for, whichever form it had.
    """

    status: int
    location: bytes | None = None
    body: bytes = b""
    retry_after_us: int | None = None


class NetworkFailure(msgspec.Struct, frozen=True, tag=True):
    """No HTTP response. `nxdomain` says that the name does not exist (kind "dns" only)."""

    kind: FailureKind
    nxdomain: bool = False


RobotsAnswer = HttpAnswer | NetworkFailure


class Follow(msgspec.Struct, frozen=True, tag=True):
    """Ask again at `location`, resolved against the URL just asked; then call `next_step` with one hop more."""

    location: bytes


class Settled(msgspec.Struct, frozen=True, tag=True):
    """The meaning of the answer for the authority first asked (section 2.3.1.2: rules stay in its context)."""

    status: Status
    body: bytes
    """The bytes to parse, capped; empty unless `status` is "rules"."""
    digest: str
    reason: str
    """A short word for logs: "http_404", "tls", "too_many_redirects"; "unparseable" and "too_large" for such files."""
    failing: Failing | None = None
    """Whose clock towards giving up runs; None: the failure is ours, or another rule's (NXDOMAIN)."""
    retry_after_us: int = 0
    """What Retry-After asked for; robots.txt is not asked for earlier."""
    whole_host: bool = False
    """The wait binds the host on all ports and schemes (429, 503), not only this authority."""
    access_denied: bool = False
    """401 or 403: allowed by the RFC, worth a line in the log."""

    @property
    def host_wait_us(self) -> int:
        """The host's wait as far as the answer alone tells; `advance` adds the back-off (`host_until_us`)."""
        return self.retry_after_us if self.whole_host else 0


class RobotsCopy(msgspec.Struct, frozen=True):
    """One meaning with its dates. Only "rules" and "allow_all" can license a URL, and only before `expires_us`."""

    status: Status
    body: bytes
    digest: str
    fetched_us: int
    expires_us: int
    reason: str


def next_step(hops: int, answer: RobotsAnswer, *, strict_401_403: bool = False) -> Follow | Settled:
    """What to do after an answer that came at the end of `hops` redirects. Pure; never raises."""
    if isinstance(answer, NetworkFailure):
        return _failed(hops, answer)
    if answer.status in _REDIRECTS and answer.location:
        return Follow(answer.location) if hops < REDIRECTS_MAX else _unreachable("too_many_redirects", "http")
    if 200 <= answer.status < 300:
        return _rules(answer)
    if 400 <= answer.status < 500 and answer.status != 429:
        return _unavailable(answer.status, strict=strict_401_403)
    return _refusing(answer)


def copy_of(settled: Settled, now_us: int) -> RobotsCopy:
    """The meaning as of now, good for 24 hours; an unreachable one is expired from the start."""
    life_us = 0 if settled.status == "unreachable" else COPY_LIFE_US
    return RobotsCopy(settled.status, settled.body, settled.digest, now_us, now_us + life_us, settled.reason)


def marker_digest(marker: str) -> str:
    """The digest of a meaning that has no body: SHA-256 of a marker such as "allow_all:404"."""
    return hashlib.sha256(marker.encode()).hexdigest()


def _rules(answer: HttpAnswer) -> Settled:
    """2xx: parse what is there, line by line (sections 2.3.1.1 and 2.3.1.5), an HTML error page too."""
    body = capped(answer.body)
    reason = TOO_LARGE if len(body) < len(answer.body) else f"http_{answer.status}"
    return Settled("rules", body, digest(body), UNPARSEABLE if is_binary(body) else reason)


def _unavailable(status: int, *, strict: bool) -> Settled:
    """4xx: "unavailable", anything may be fetched (section 2.3.1.3), unless 401 and 403 are read strictly."""
    denied = status in (401, 403)
    if denied and strict:
        return Settled("rules", DISALLOW_ALL, digest(DISALLOW_ALL), f"http_{status}", access_denied=True)
    marker = marker_digest(f"allow_all:{status}")
    return Settled("allow_all", b"", marker, f"http_{status}", access_denied=denied)


def _refusing(answer: HttpAnswer) -> Settled:
    """5xx and all that no rule covers: complete disallow (section 2.3.1.4).

    429 counts as 5xx although it is a 4xx: a site that asks for fewer requests has not opened itself.
    """
    wait_us = min(max(answer.retry_after_us or 0, 0), RETRY_AFTER_US_MAX)
    reason = "redirect_without_location" if answer.status in _REDIRECTS else f"http_{answer.status}"
    return _unreachable(reason, "http", retry_after_us=wait_us, whole_host=answer.status in (429, 503))


def _failed(hops: int, failure: NetworkFailure) -> Settled:
    """No response: complete disallow (section 2.3.1.4)."""
    return _unreachable("nxdomain" if failure.nxdomain else failure.kind, _clock(hops, failure))


def _clock(hops: int, failure: NetworkFailure) -> Failing | None:
    """Which clock a failure runs on. Past a redirect every fault is the site's, which chose where to send us."""
    if failure.kind == "proxy":
        return None
    if failure.kind in ("gate", "protocol"):
        return "http" if hops or failure.kind == "protocol" else None
    return None if failure.nxdomain and not hops else "connection"


def _unreachable(reason: str, failing: Failing | None, *, retry_after_us: int = 0, whole_host: bool = False) -> Settled:
    marker = marker_digest(f"unreachable:{reason}")
    return Settled("unreachable", b"", marker, reason, failing, retry_after_us=retry_after_us, whole_host=whole_host)

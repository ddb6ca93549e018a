"""What one answer means for its URL: pure, so that recovery judges an orphan record exactly as the crawl node would.

Failure classes decide, not exception types: *wait* (429, 503: the host's business, no attempt of the URL), *transient*
(network, other 5xx and whatever lies above, 408, 425, a cut body: delayed retry, the third stands), *permanent* (other
4xx, not HTTP, refused by the gate), *done*.
"""

from typing import Final

import msgspec

from limpet.config.settings import Retries
from limpet.fetch import Capture
from limpet.model.lifecycle import State

TRANSIENT_STATUS = frozenset({408, 425})
SERVER_ERROR_STATUS_MIN: Final = 500
"""Up to 999: what lies beyond 599 is invalid, and a client treats it as a server error (RFC 9110 §15)."""
WAIT_STATUS = frozenset({429, 503})
NXDOMAIN = "dns_nxdomain"
NXDOMAIN_TRIES = 3
TLS_CERTIFICATE: Final = "tls_certificate"
JITTER_SHARE = 0.1
REDIRECT_STATUS = frozenset({301, 302, 303, 307, 308})


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """How the claim ends. `good`: the host answered as a healthy host does. `page`: counts against --limit."""

    state: State
    reason: str = ""
    due_us: int = 0
    failures: int = 0
    good: bool = False
    page: bool = False
    notice: str = ""  # kind of notice to send, "" = none
    site_failure: bool = False  # a network failure, which may turn out to be ours
    coding_cut: bool = False  # the transport was whole, the content coding was not


def is_wait(status: int) -> bool:
    """Whether a status asks the whole host to be left alone for a while."""
    return status in WAIT_STATUS


def is_redirect(status: int) -> bool:
    """Whether a status carries its target in Location (RFC 9110 §15.4)."""
    return status in REDIRECT_STATUS


def classify(
    capture: Capture,
    *,
    failures: int,
    now_us: int,
    policy: Retries,
    jitter: float,
    wait_us: int = 0,
    counts: bool = False,
    coding_cut: bool = False,
) -> Verdict:
    """Judge `capture`, the URL having failed `failures` times before.

    `wait_us`: end of the host's wait (429/503 only). `counts`: this 429/503 counts as an attempt, because the host
    has answered another URL well since the last one. `coding_cut`: a page whose content coding ends too early.
    `jitter` in [0, 1).
    """
    if capture.failure is not None:
        return _no_answer(capture, failures, now_us, policy, jitter)
    status = capture.head.status if capture.head is not None else 0
    if is_wait(status):
        if counts:
            return _transient(f"http_{status}", failures, max(now_us, wait_us), policy, jitter)
        return Verdict(state=State.DUE, reason=f"http_{status}", due_us=max(now_us, wait_us), failures=failures)
    if status >= SERVER_ERROR_STATUS_MIN or status in TRANSIENT_STATUS:
        return _transient(f"http_{status}", failures, now_us, policy, jitter)
    if 200 <= status < 400:
        cut = coding_cut or capture.truncated == "disconnect"
        if cut and failures + 1 < policy.failures_max:
            verdict = _transient("truncated", failures, now_us, policy, jitter)
        else:
            reason = "truncated" if cut or capture.truncated else ""
            verdict = Verdict(state=State.FETCHED, reason=reason, good=True, page=not is_redirect(status))
        return msgspec.structs.replace(verdict, coding_cut=True) if coding_cut else verdict
    return Verdict(state=State.GONE, reason=f"http_{status}", good=True)


def _no_answer(capture: Capture, failures: int, now_us: int, policy: Retries, jitter: float) -> Verdict:
    failure = capture.failure
    assert failure is not None
    if failure.kind == "gate":
        return Verdict(state=State.FAILED, reason="refused_by_gate", failures=failures, notice="failed")
    if failure.kind == "protocol":
        return Verdict(state=State.FAILED, reason="protocol", failures=failures, good=True, notice="failed")
    if failure.kind == "proxy":
        return Verdict(state=State.DUE, reason="proxy", due_us=now_us, failures=failures)
    if failure.nxdomain:
        return _no_name(failures, now_us, policy, jitter)
    reason = TLS_CERTIFICATE if failure.certificate else failure.kind
    verdict = _transient(reason, failures, now_us, policy, jitter)
    return msgspec.structs.replace(verdict, site_failure=True)


def _no_name(failures: int, now_us: int, policy: Retries, jitter: float) -> Verdict:
    """A name that does not exist: names come back, so three tries over a day."""
    if failures + 1 >= NXDOMAIN_TRIES:
        return Verdict(state=State.FAILED, reason=NXDOMAIN, failures=failures + 1, notice="failed", site_failure=True)
    due_us = now_us + int(policy.nxdomain_seconds * (1 + JITTER_SHARE * jitter) * 1e6)
    return Verdict(state=State.DUE, reason=NXDOMAIN, due_us=due_us, failures=failures + 1, site_failure=True)


def _transient(reason: str, failures: int, now_us: int, policy: Retries, jitter: float) -> Verdict:
    failures += 1
    if failures >= policy.failures_max:
        return Verdict(state=State.FAILED, reason=reason, failures=failures, notice="failed")
    delay_seconds = policy.base_seconds * policy.factor ** (failures - 1) * (1 + jitter)
    return Verdict(state=State.DUE, reason=reason, due_us=now_us + int(delay_seconds * 1e6), failures=failures)

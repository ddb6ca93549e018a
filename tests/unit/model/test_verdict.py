"""Failure classes decide what becomes of a URL."""

import pytest

from limpet.config.settings import Retries
from limpet.fetch import Capture, Head, NetFailure, NetFailureKind
from limpet.model.lifecycle import State
from limpet.model.verdict import Verdict, classify

NOW_US = 1_000_000_000
POLICY = Retries(base_seconds=10.0, factor=3.0, failures_max=3)


def _answer(status: int, truncated: str | None = None) -> Capture:
    return Capture(url="http://a.test/", head=Head(status=status, headers=()), truncated=truncated)  # type: ignore[arg-type]


def _failure(kind: NetFailureKind) -> Capture:
    return Capture(url="http://a.test/", failure=NetFailure(kind=kind, detail="x"))


def _judge(capture: Capture, failures: int = 0, **more: int | bool) -> Verdict:
    return classify(capture, failures=failures, now_us=NOW_US, policy=POLICY, jitter=0.5, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [200, 203, 206, 204, 304])
def test_success_is_a_fetched_page(status: int) -> None:
    """2xx and 304 settle the URL."""
    verdict = _judge(_answer(status))
    assert (verdict.state, verdict.good, verdict.page) == (State.FETCHED, True, True)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_fetched_but_no_page(status: int) -> None:
    """A redirect is an outcome; its target is a link; it does not count against --limit."""
    verdict = _judge(_answer(status))
    assert (verdict.state, verdict.page) == (State.FETCHED, False)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451, 499])
def test_other_statuses_are_gone_for_good(status: int) -> None:
    """Permanent: asking again does not repair it."""
    verdict = _judge(_answer(status))
    assert (verdict.state, verdict.reason, verdict.due_us) == (State.GONE, f"http_{status}", 0)


@pytest.mark.parametrize("status", [500, 502, 504, 599, 600, 777, 999, 408, 425])
def test_transient_statuses_back_off_and_give_up_at_the_third(status: int) -> None:
    """10 s, then three times that, spread by the jitter; then failed, and somebody is told."""
    first, second, third = (_judge(_answer(status), failures) for failures in range(3))
    assert (first.state, first.due_us) == (State.DUE, NOW_US + 15_000_000)
    assert (second.state, second.due_us) == (State.DUE, NOW_US + 45_000_000)
    assert (third.state, third.notice) == (State.FAILED, "failed")


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_host_is_a_wait_and_no_attempt(status: int) -> None:
    """The host's wait is not the URL's fault, until the host has answered another URL well since."""
    waiting = _judge(_answer(status), 2, wait_us=NOW_US + 7_000_000)
    assert (waiting.state, waiting.failures, waiting.due_us) == (State.DUE, 2, NOW_US + 7_000_000)
    assert _judge(_answer(status), 2, wait_us=NOW_US + 7_000_000, counts=True).state is State.FAILED


@pytest.mark.parametrize("kind", ["dns", "refused", "connect", "tls", "timeout", "reset"])
def test_network_failures_are_transient(kind: NetFailureKind) -> None:
    """Delayed retry, and flagged: it may turn out to be our own uplink."""
    verdict = _judge(_failure(kind))
    assert (verdict.state, verdict.failures, verdict.site_failure, verdict.good) == (State.DUE, 1, True, False)


@pytest.mark.parametrize(("kind", "reason"), [("gate", "refused_by_gate"), ("protocol", "protocol")])
def test_what_another_try_cannot_repair_fails_at_once(kind: NetFailureKind, reason: str) -> None:
    """An address we never connect to, an answer that is not HTTP: no retry storm."""
    verdict = _judge(_failure(kind))
    assert (verdict.state, verdict.reason, verdict.due_us) == (State.FAILED, reason, 0)


def test_a_cut_body_is_tried_again_and_the_third_stands() -> None:
    """What arrived is archived each time; the third is fetched(truncated), never plain success."""
    assert [_judge(_answer(200, "disconnect"), failures).state for failures in range(3)] == [
        State.DUE,
        State.DUE,
        State.FETCHED,
    ]
    assert _judge(_answer(200, "disconnect"), 2).reason == "truncated"
    assert (_judge(_answer(200, "length")).state, _judge(_answer(200, "length")).reason) == (State.FETCHED, "truncated")


def test_a_cut_coding_is_retried_twice_and_then_stands() -> None:
    """A coded body that ends too early is as partial as one whose connection broke, and its verdict says which."""
    for failures in (0, 1):
        verdict = _judge(_answer(200), failures, coding_cut=True)
        assert (verdict.state, verdict.reason, verdict.coding_cut) == (State.DUE, "truncated", True)
    verdict = _judge(_answer(200), 2, coding_cut=True)
    assert (verdict.state, verdict.reason, verdict.coding_cut) == (State.FETCHED, "truncated", True)
    assert not _judge(_answer(200)).coding_cut


def test_a_name_that_does_not_exist_has_three_tries_over_a_day() -> None:
    """Half a day apart, whatever the back-off of other failures is."""
    capture = Capture(url="http://a.test/", failure=NetFailure(kind="dns", detail="x", nxdomain=True))
    first, second, third = (_judge(capture, failures) for failures in range(3))
    for verdict, failures in ((first, 1), (second, 2)):
        assert (verdict.state, verdict.reason, verdict.failures) == (State.DUE, "dns_nxdomain", failures)
        assert 12 * 3600 <= (verdict.due_us - NOW_US) / 1e6 <= 13.2 * 3600
    assert (third.state, third.reason, third.notice) == (State.FAILED, "dns_nxdomain", "failed")


def test_a_certificate_is_its_own_reason() -> None:
    """Transient like every TLS failure, and told apart from it."""
    capture = Capture(url="http://a.test/", failure=NetFailure(kind="tls", detail="x", certificate=True))
    assert (_judge(capture).state, _judge(capture).reason) == (State.DUE, "tls_certificate")


def test_a_fault_of_our_proxy_counts_for_nothing() -> None:
    """However often it happens, the URL has not failed."""
    verdict = _judge(_failure("proxy"), 2)
    assert (verdict.state, verdict.failures, verdict.site_failure, verdict.notice) == (State.DUE, 2, False, "")
